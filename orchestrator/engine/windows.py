"""How large the contexts of models are, as far as configuration and catalogue know."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.engine.catalogue import Catalogue
from orchestrator.engine.config import Config, load_config
from orchestrator.engine.errors import WrongUsage
from store.disk.home import Home


def windows(config: Config, catalogue: Catalogue) -> Callable[[str], int | None]:
    """The window in tokens of a model (`provider/id`); the configuration wins over the catalogue."""

    def window(name: str) -> int | None:
        provider, _, model = name.partition("/")
        configured = config.providers.get(provider)
        for each in configured.models if configured else ():
            if each.id == model and each.context_window:
                return each.context_window
        row = catalogue.find(provider, model)
        return (row.window or None) if row else None

    return window


def stored_windows(home: Home, cwd: Path) -> Callable[[str], int | None]:
    """For a view, which a broken configuration does not stop."""
    try:
        config = load_config(home.config_path, cwd)
    except WrongUsage:
        config = Config()
    return windows(config, Catalogue())
