"""Under which terms a run began: the root's journal keeps them, so that an interrupted tree goes on under the same."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from actors.protocol.limits import Limits
from orchestrator.engine.config import Config
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.prompt import readable
from orchestrator.engine.toolset import chosen_tools
from store.disk.forest import decoded
from store.disk.home import Home
from store.disk.journal import read_journal
from store.entries import TERMS_MARK, CustomEntry
from store.errors import StoreError
from store.records import Record, last_marked

Configured = TypeVar("Configured", bound=msgspec.Struct)
COUNTS: tuple[str, ...] = Limits.__struct_fields__
SPENDING = ("max_cost", "max_tokens")
MAY_BE_NONE = frozenset({"max_depth", "max_children"})
# Options of `run` that bound what a tree may do, or say how it works. The model and the goal have entries of their own.
_KEPT = (
    "thinking",
    "fallback_model",
    "wait_for_reset",
    "tools",
    "no_tools",
    "system_prompt",
    "append_system_prompt",
    "no_context_files",
    *COUNTS,
    *SPENDING,
    "timeout",
    "gates",
    "gate_retries",
    "gate_timeout",
    "autonomous",
    "max_continuations",
)


def is_given(value: object) -> bool:
    """Whether an option has a value of its own."""
    return value is not None and value is not False and value != ()


def terms_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of the options that are kept, as JSON has it."""
    kept = {name: options.get(name) for name in _KEPT}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items() if is_given(value)}


def terms_of(records: Sequence[Record]) -> dict[str, Any]:
    """The terms that were kept last; empty where there are none."""
    kept = last_marked(records, TERMS_MARK) or {}
    return {name: kept[name] for name in _KEPT if name in kept}


def terms_kept(home: Home, root_id: str) -> dict[str, Any]:
    """The terms that the journal of a stored root keeps; none where it cannot be read: whoever opens it says why."""
    try:
        recovery = read_journal(home.fs, home.journal_path(root_id), root_id)
    except (OSError, StoreError):
        return {}
    return terms_of(list(decoded(recovery.records)))


def terms_entry(terms: Mapping[str, Any]) -> CustomEntry:
    return CustomEntry(custom_type=TERMS_MARK, data=dict(terms))


def under(terms: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """What a job is made of under these terms, options of `run` by their names, over the configuration. Raises WrongUsage."""
    goal = terms.get("goal")
    return {
        "limits": _over(config.limits, **{name: terms.get(name) for name in COUNTS}),
        "budgets": {name: terms[name] for name in SPENDING if terms.get(name) is not None},
        "timeout_s": terms.get("timeout"),
        "fallback_model": terms.get("fallback_model"),
        "waits_for_reset": bool(terms.get("wait_for_reset")),
        "gates": _over(
            config.gates,
            commands=_commands(terms.get("gates") or ()),
            retries=terms.get("gate_retries"),
            timeout_s=terms.get("gate_timeout"),
        ),
        "autonomy": _over(
            config.autonomous,
            enabled=terms.get("autonomous") or None,
            max_continuations=terms.get("max_continuations"),
            goal=readable(goal) if goal is not None else None,
        ),
        "tools": () if terms.get("no_tools") else chosen_tools(terms.get("tools")),
        "system_prompt": terms.get("system_prompt"),
        "append_system_prompt": terms.get("append_system_prompt"),
        "has_context_files": not terms.get("no_context_files"),
        "retry": config.retry,
        "compaction": config.compaction,
    }


def _over(configured: Configured, **given: Any) -> Configured:
    """What the files say, and over it what was given."""
    return msgspec.structs.replace(configured, **{name: value for name, value in given.items() if value is not None})


def _commands(gates: Sequence[str]) -> tuple[str, ...] | None:
    """The gates that were given, in their order; None: those of the configuration."""
    if any(not gate.strip() for gate in gates):
        raise WrongUsage("expected a shell command after --gate, found none; an empty one would always pass")
    return tuple(readable(gate) for gate in gates) or None
