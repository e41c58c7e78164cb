"""Under which terms a run began: the root's journal keeps them, so that an interrupted tree goes on under the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from store.entries import CustomEntry
from store.records import Record

TERMS_MARK = "sapwood.terms"
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
    "max_depth",
    "max_children",
    "max_live_children",
    "max_turns",
    "max_cost",
    "max_tokens",
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
    for record in reversed(records):
        body = record.body() if record.type == "custom" and TERMS_MARK.encode() in record.raw else None
        if isinstance(body, CustomEntry) and body.custom_type == TERMS_MARK and isinstance(body.data, dict):
            return {name: body.data[name] for name in _KEPT if name in body.data}
    return {}


def terms_entry(terms: Mapping[str, Any]) -> CustomEntry:
    return CustomEntry(custom_type=TERMS_MARK, data=dict(terms))
