"""Reads of a whole conversation, as clients of pi ask for them: how long it is, what it cost, what was said last."""

from collections.abc import Iterator
from typing import Any

import msgspec

from actors.directory import Row
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data
from orchestrator.engine.control.reading import entry_tree
from orchestrator.engine.planted import Planted
from store.context import last_assistant
from store.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, text_of
from store.records import Record, message_in
from store.size import context_tokens
from store.usage import usage_of


def session_stats(planted: Planted, row: Row, command: requests.GetSessionStats) -> Data:
    """Messages of the current branch; tokens and dollars of the session with all below it."""
    path = entry_tree(planted, row).path()
    messages = [message for _, message in _messages(path)]
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    spent = usage_of(row.total)
    tokens = msgspec.to_builtins(spent)
    return {
        "sessionFile": planted.ground.path(row.id),
        "sessionId": row.id,
        "userMessages": sum(isinstance(message, UserMessage) for message in messages),
        "assistantMessages": len(answers),
        "toolCalls": sum(len(message.calls) for message in answers),
        "toolResults": sum(isinstance(message, ToolResultMessage) for message in messages),
        "totalMessages": len(messages),
        "tokens": {name: tokens[name] for name in ("input", "output", "cacheRead", "cacheWrite")}
        | {"total": spent.total_tokens},
        "cost": spent.cost.total,
        "contextUsage": _context(planted, row, path),
    }


def _context(planted: Planted, row: Row, path: list[Record]) -> dict[str, Any] | None:
    """None where the window of the model, or what is in it, is not known."""
    _, info = planted.tree.supervisor.workshop.model(row.model)
    window, tokens = info.context_window, context_tokens(path)
    if not window or tokens is None:
        return None
    return {"tokens": tokens, "contextWindow": window, "percent": 100 * tokens / window}


def last_text(planted: Planted, row: Row, command: requests.GetLastAssistantText) -> Data:
    """null: nothing was answered yet."""
    message = last_assistant(entry_tree(planted, row).path())
    return {"text": None if message is None else message.text.strip() or None}


def fork_messages(planted: Planted, row: Row, command: requests.GetForkMessages) -> Data:
    """What the person said on the current branch: the places where it could have gone another way."""
    said = _messages(entry_tree(planted, row).path())
    return {
        "messages": [
            {"entryId": record.id, "text": text_of(message.content)}
            for record, message in said
            if isinstance(message, UserMessage)
        ]
    }


def _messages(path: list[Record]) -> Iterator[tuple[Record, Message]]:
    for record in path:
        message = message_in(record)
        if message is not None:
            yield record, message
