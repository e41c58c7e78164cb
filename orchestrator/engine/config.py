"""Configuration: `$SAPWOOD_HOME/config.toml`, over it the project's `.sapwood/config.toml`. Flags and environment win over both."""

import difflib
import math
import os.path
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import attrs
import msgspec

from actors.flusher import Durability
from actors.protocol.compaction import CompactionPolicy
from actors.protocol.limits import Limits
from actors.protocol.retry import RetryPolicy
from actors.protocol.trial import AutonomyPolicy, GatePolicy
from orchestrator.engine.errors import WrongUsage
from orchestrator.providers.post import HttpLimits

# A project's file comes with the project. These would let it send keys or conversations to where it likes, or run commands.
_NOT_FROM_PROJECTS = ("providers", "trusted_projects", "kernel", "gates")
# With less nothing would run, or a pause would end before it began.
_LEAST = {
    "limits": {"max_depth": 0, "max_live_children": 1, "max_children": 0, "max_turns": 1, "max_spawns_per_minute": 1},
    "retry": {"max_retries": 0, "base_s": 0, "ceiling_s": 0},
}
_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]
_Tokens = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=86400)]


class CostConfig(msgspec.Struct, frozen=True):
    """Dollars per million tokens."""

    input: _Dollars = 0.0
    output: _Dollars = 0.0
    cache_read: _Dollars = 0.0
    cache_write: _Dollars = 0.0


class ModelConfig(msgspec.Struct, frozen=True):
    """One model of a provider. Without `cost` its price is unknown."""

    id: str
    context_window: _Tokens = 0
    max_output: _Tokens = 0
    cost: CostConfig | None = None


class ProviderConfig(msgspec.Struct, frozen=True):
    """How a provider is reached. `api` None: as a provider of that name usually is. `api_key_command` prints the key.

    The seconds are those of `HttpLimits`: a model on a slow machine may think for minutes before its first byte.
    """

    api: str | None = None
    base_url: str = ""
    api_key_env: str | None = None
    api_key_command: tuple[str, ...] | None = None
    headers: dict[str, str] = {}
    service_tier: ServiceTier | None = None
    models: tuple[ModelConfig, ...] = ()
    connect_s: _Seconds | None = None
    first_byte_s: _Seconds | None = None
    idle_s: _Seconds | None = None
    total_s: _Seconds | None = None

    @property
    def limits(self) -> HttpLimits:
        given = {name: getattr(self, name) for name in ("connect_s", "first_byte_s", "idle_s", "total_s")}
        return msgspec.structs.replace(HttpLimits(), **{name: s for name, s in given.items() if s is not None})


class KernelConfig(msgspec.Struct, frozen=True):
    """`python`: the interpreter of the tool `ipython`; None: the project's own, else sapwood's."""

    python: str | None = None


class StatusConfig(msgspec.Struct, frozen=True):
    """`model`: who says in a line what a run has come to; None: nobody is asked, only questions are noticed."""

    model: str | None = None


class Config(msgspec.Struct, frozen=True):
    """Everything that files can set."""

    model: str | None = None
    limits: Limits = Limits()
    retry: RetryPolicy = RetryPolicy()
    compaction: CompactionPolicy = CompactionPolicy()
    durability: Durability = "group"
    kernel: KernelConfig = KernelConfig()
    status: StatusConfig = StatusConfig()
    gates: GatePolicy = GatePolicy()
    autonomous: AutonomyPolicy = AutonomyPolicy()
    providers: dict[str, ProviderConfig] = {}
    trusted_projects: tuple[str, ...] = ()


@attrs.frozen
class Layers:
    """What the files say, each for itself. `project_file` None: no folder above has one."""

    home_file: Path
    home: dict[str, Any]
    project_file: Path | None = None
    project: dict[str, Any] = attrs.field(factory=dict)

    @property
    def config(self) -> Config:
        """The project's file over the one of the home. Raises WrongUsage."""
        file = str(self.home_file) if self.project_file is None else f"{self.home_file} with {self.project_file}"
        return _convert(_over(self.home, self.project), file)


def load_config(home_file: Path, cwd: Path) -> Config:
    """The configuration for work in `cwd`. Raises WrongUsage with file, key and the nearest known key."""
    return read_layers(home_file, cwd).config


def read_layers(home_file: Path, cwd: Path) -> Layers:
    """The files that hold for work in `cwd`. Raises WrongUsage; also where a project sets what it may not."""
    home = _read(home_file)
    homes = (str(home_file.parent), os.path.expanduser("~/.sapwood"))
    project = next((folder for folder in (cwd, *cwd.parents) if _is_project(folder, homes)), None)
    if project is None:
        return Layers(home_file, home)
    file = project / ".sapwood" / "config.toml"
    values = _read(file)
    refused = [name for name in _NOT_FROM_PROJECTS if name in values]
    if refused and str(project) not in home.get("trusted_projects", []):
        raise WrongUsage(
            f"{file}: a project's file cannot set {', '.join(refused)}, unless {home_file} says "
            f'trusted_projects = ["{project}"]'
        )
    return Layers(home_file, home, file, values)


def _is_project(folder: Path, homes: tuple[str, ...]) -> bool:
    """Whether the folder has a file of its own. Somebody's home is no project, also while another one is in use."""
    inner = folder / ".sapwood"
    try:
        if not (inner / "config.toml").is_file():
            return False
        return not any(os.path.exists(home) and os.path.samefile(home, inner) for home in homes)
    except OSError:
        return False


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise WrongUsage(f"{file}: expected a TOML file that can be read: {error}") from error
    _check_keys(values, Config, str(file), "")
    return values


def _check_keys(values: Mapping[str, Any], kind: type, file: str, prefix: str) -> None:
    """Raise WrongUsage for a key that nothing reads, at any depth."""
    fields = get_type_hints(kind)
    for key, value in values.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known: {', '.join(fields)}"
            raise WrongUsage(f"{file}: there is no setting {prefix}{key}{hint}")
        inner = _struct_in(fields[key])
        if inner is None:
            continue
        for place, part in _parts(value, fields[key]):
            _check_keys(part, inner, file, f"{prefix}{key}.{place}")


def _struct_in(hint: Any) -> type | None:
    candidates = [hint, *get_args(hint)]
    return next((one for one in candidates if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)


def _parts(value: Any, hint: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The tables inside a value, with what names them in an error."""
    if isinstance(value, list):
        return [("", part) for part in value if isinstance(part, dict)]
    if not isinstance(value, dict):
        return []
    if str(hint).startswith("dict"):
        return [(f"{name}.", part) for name, part in value.items() if isinstance(part, dict)]
    return [("", value)]


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        inner = merged.get(key)
        merged[key] = _over(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def _convert(values: dict[str, Any], file: str) -> Config:
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise WrongUsage(f"{file}: {error}") from error
    for table, least in _LEAST.items():
        for name, minimum in least.items():
            amount = getattr(getattr(config, table), name)
            if amount is not None and not (minimum <= amount and math.isfinite(amount)):
                raise WrongUsage(f"{file}: expected {table}.{name} of at least {minimum}, found {amount}")
    return config
