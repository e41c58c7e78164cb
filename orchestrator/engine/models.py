"""Which model a name means, and how it is called."""

from collections.abc import Mapping
from pathlib import Path

import attrs

from actors.protocol.model import Model, ModelInfo
from orchestrator.engine.config import Config
from orchestrator.engine.errors import WrongUsage
from orchestrator.providers.scripted import BadScript, Script, ScriptedModel

SCRIPTED = "scripted/"


@attrs.define
class Models:
    """Models by name (`provider/id`), made when they are first asked for."""

    config: Config
    environ: Mapping[str, str]
    cwd: Path
    _known: dict[str, tuple[Model, ModelInfo]] = attrs.field(factory=dict)

    def add_script(self, name: str, text: str) -> None:
        """A scripted model under `scripted/name`. Raises WrongUsage."""
        try:
            script = Script.parse(text, name)
        except BadScript as error:
            raise WrongUsage(str(error)) from error
        self._known[SCRIPTED + name] = ScriptedModel(script), ModelInfo("scripted", name, "scripted", script.price)

    def nothing_named(self) -> str:
        """What to say when no model was named anywhere."""
        return (
            "no model is named. Looked for -m PROVIDER/ID, SAPWOOD_MODEL, and `model` in the configuration. "
            "`sapwood demo` needs none"
        )

    def get(self, name: str) -> tuple[Model, ModelInfo]:
        """The model of this name. Raises WrongUsage for one that is not known."""
        if name not in self._known:
            self._make(name)
        return self._known[name]

    def _make(self, name: str) -> None:
        if not name.startswith(SCRIPTED):
            raise WrongUsage(f"no model is named {name!r}; scripted/FILE.toml plays a script")
        file = self.cwd / name.removeprefix(SCRIPTED)
        try:
            text = file.read_text("utf-8")
        except (OSError, ValueError) as error:
            raise WrongUsage(f"{name}: expected a script at {file}: {error}") from error
        self.add_script(name.removeprefix(SCRIPTED), text)
