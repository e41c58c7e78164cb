"""What is set, and where it comes from: flag, environment, project, home, default, the first of them that says something.

Keys are never among the values, and neither is what may hold one: a command that prints it, a header, a part of an address.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from orchestrator.engine.config import Config, Layers
from orchestrator.engine.models import KNOWN
from orchestrator.providers.post import Post

Source = Literal["flag", "environment", "project", "home", "default"]
HIDDEN = "(set)"
# Options of `run` that stand for a setting, and those that are settings of the command line alone.
OPTIONS = {
    "model": "model",
    "provider": "provider",
    "thinking": "thinking",
    "fallback_model": "fallback_model",
    "max_depth": "limits.max_depth",
    "max_children": "limits.max_children",
    "max_live_children": "limits.max_live_children",
    "max_turns": "limits.max_turns",
    "max_spawns_per_minute": "limits.max_spawns_per_minute",
    "max_cost": "max_cost",
    "max_tokens": "max_tokens",
    "timeout": "timeout",
    "gates": "gates.commands",
    "gate_retries": "gates.retries",
    "gate_timeout": "gates.timeout_s",
    "autonomous": "autonomous.enabled",
    "max_continuations": "autonomous.max_continuations",
    "goal": "autonomous.goal",
    "durability": "durability",
}


class Setting(msgspec.Struct, frozen=True):
    """One value. `where`: the option, the variable or the file that it was found in; None: a default."""

    name: str
    value: Any
    source: Source
    where: str | None = None


_DEFAULT: tuple[Source, str | None] = ("default", None)
Given = Mapping[str, Setting]
"""What options and their variables say, by the name of the setting."""


def settings(layers: Layers, given: Given, environ: Mapping[str, str]) -> list[Setting]:
    """Everything that can be set, in the order of the configuration. Raises WrongUsage."""
    config = layers.config
    found = {setting.name: setting for setting in _of_files(config, layers)}
    found |= {name: Setting(name, None, "default") for name in OPTIONS.values() if name not in found}
    found |= {setting.name: setting for setting in _of_environment(config, environ)}
    found |= {name: setting for name, setting in given.items() if name in found}
    return sorted(found.values(), key=lambda setting: _place(setting.name))


def _of_files(config: Config, layers: Layers) -> Iterator[Setting]:
    files: tuple[tuple[Source, Mapping[str, Any], str], ...] = (
        ("project", layers.project, str(layers.project_file)),
        ("home", layers.home, str(layers.home_file)),
    )
    for path, value in _leaves(msgspec.to_builtins(config)):
        said = ((name, file) for name, values, file in files if _says(values, path))
        source, where = next(said, _DEFAULT)
        if source != "default" or path[0] != "providers":  # of a provider only what somebody set
            yield Setting(".".join(path), _shown(path, value), source, where)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no table, with the way to it. Headers are a value: their names are free."""
    if isinstance(value, dict) and path[-1:] != ("headers",) and (value or path != ("providers",)):
        for name, member in value.items():
            yield from _leaves(member, (*path, name))
    elif path != ("providers",):
        yield path, value


def _says(values: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    inner: Any = values
    for name in path:
        if not isinstance(inner, dict) or name not in inner:
            return False
        inner = inner[name]
    return True


def _shown(path: tuple[str, ...], value: Any) -> Any:
    if not value:
        return value
    match path[-1]:
        case "headers":
            return dict.fromkeys(value, HIDDEN)
        case "api_key_command":
            return [value[0], *("…" for _ in value[1:2])]
        case "base_url":
            return bare_url(value)
    return value


def bare_url(url: str) -> str:
    """An address without what may be a secret in it."""
    return Post(url, {}, b"").place


def _of_environment(config: Config, environ: Mapping[str, str]) -> Iterator[Setting]:
    """Places, the kernel, addresses and keys: what has variables and no option."""
    for name, folder in (("home", "SAPWOOD_HOME"), ("session_dir", "SAPWOOD_SESSION_DIR")):
        value = environ.get(folder) or None
        yield Setting(name, value, "environment" if value else "default", folder if value else None)
    if python := environ.get("SAPWOOD_KERNEL_PYTHON"):
        yield Setting("kernel.python", python, "environment", "SAPWOOD_KERNEL_PYTHON")
    for provider in sorted({*KNOWN, *config.providers}):
        known = KNOWN.get(provider)
        if known is not None and known.base_url_env and (url := environ.get(known.base_url_env)):
            yield Setting(f"providers.{provider}.base_url", bare_url(url), "environment", known.base_url_env)
        own = config.providers.get(provider)
        variables = (own.api_key_env if own else None, known.key_env if known else None)
        for variable in [name for name in variables if name and environ.get(name)][:1]:
            yield Setting(f"providers.{provider}.api_key", HIDDEN, "environment", variable)


_PLACES = ("home", "session_dir", *Config.__struct_fields__)


def _place(name: str) -> tuple[int, str]:
    """Tables in the order of the configuration, what only the command line has behind the model."""
    table = name.partition(".")[0]
    return (_PLACES.index(table) if table in _PLACES else _PLACES.index("model")), "" if table == "model" else name
