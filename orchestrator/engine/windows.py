"""How large the contexts of models are, as far as configuration and catalogue know. For views: nothing here fails."""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.engine.catalogue import Catalogue
from store.disk.home import Home

Window = Callable[[str], int | None]
"""Tokens of a model (`provider/id`); None: not known."""


def windows(home: Home) -> Window:
    """The configuration of the home wins over the catalogue."""
    configured = _configured(home)
    catalogue = Catalogue()

    def window(name: str) -> int | None:
        if name in configured:
            return configured[name]
        row = catalogue.find(*name.partition("/")[::2])
        return (row.window or None) if row else None

    return window


def _configured(home: Home) -> Mapping[str, int]:
    """Read here and not by `config`, which a list of agents has no time to import."""
    try:
        providers = tomllib.loads(home.config_path.read_text("utf-8")).get("providers", {})
        models = [
            (f"{name}/{model['id']}", model) for name, each in providers.items() for model in each.get("models", ())
        ]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        return {}
    return {name: size for name, model in models if (size := _size(model)) is not None}


def _size(model: Mapping[str, Any]) -> int | None:
    size = model.get("context_window")
    return size if isinstance(size, int) and size > 0 else None
