"""What a peer's program streamed: the events of one process, and the replies of the provider behind them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec

DATA = Path(__file__).resolve().parents[2] / "data" / "streams"
Event = dict[str, Any]
Events = list[Event]


@attrs.frozen
class Reply:
    """One answer of the provider: its deltas and the message that it became."""

    updates: tuple[Event, ...]
    message: Event

    @property
    def is_refused(self) -> bool:
        """Whether it failed before a word was said."""
        return bool(self.message["stopReason"] == "error" and not self.updates)

    @property
    def is_cut(self) -> bool:
        return bool(self.message["stopReason"] == "error" and self.updates)

    @property
    def is_unfinished(self) -> bool:
        """Whether somebody ended it in the middle: the provider would have said more."""
        return self.message["stopReason"] in {"pending", "aborted"}


@attrs.frozen
class Recording:
    """The events of one process of a peer."""

    name: str
    events: tuple[Event, ...]

    @classmethod
    def read(cls, name: str) -> "Recording":
        lines = (DATA / f"{name}.jsonl").read_bytes().split(b"\n")[:-1]
        return cls(name, tuple(msgspec.json.decode(line) for line in lines))

    @property
    def prompts(self) -> list[str]:
        """What the person said: a line of the user each."""
        users = [event["message"] for event in self.events if event["type"] == "message_end"]
        return [message["content"][0]["text"] for message in users if message["role"] == "user"]

    @property
    def replies(self) -> list[Reply]:
        return list(self._replies())

    def _replies(self) -> Iterator[Reply]:
        updates: list[Event] = []
        opened: Event | None = None
        for event in self.events:
            message = event.get("message", {})
            if event["type"] == "message_update":
                updates.append(event)
            elif message.get("role") == "assistant" and event["type"] == "message_start":
                updates, opened = [], message
            elif message.get("role") == "assistant" and event["type"] == "message_end":
                yield Reply(tuple(updates), message)
                opened = None
        if opened is not None:  # a signal came: the stream ends in the middle of it
            yield Reply(tuple(updates), opened)

    @property
    def refused_summaries(self) -> list[Reply]:
        """Requests for a summary that failed, and were made again."""
        tries = [event for event in self.events if event["type"] == "summarization_retry_scheduled"]
        return [Reply((), {"stopReason": "error", "errorMessage": event["errorMessage"]}) for event in tries]

    @property
    def is_broken_off(self) -> bool:
        """Whether the peer was killed: no turn was closed behind the last message."""
        return self.events[-1]["type"] in {"message_update", "tool_execution_update"}

    @property
    def model(self) -> Event:
        """The first answer: it names API, provider and model."""
        return self.replies[0].message


def role_of(event: Event) -> str:
    return str(event.get("message", {}).get("role"))


def update_of(event: Event) -> Event:
    found: Event = event.get("assistantMessageEvent", {})
    return found


def replies_of_session(name: str) -> list[Reply]:
    """The answers in a session file, each in one piece per block."""
    lines = (DATA.parent / "sessions" / f"{name}.session.jsonl").read_bytes().split(b"\n")[:-1]
    messages = [entry["message"] for entry in map(msgspec.json.decode, lines) if entry["type"] == "message"]
    return [Reply(tuple(_pieces(message)), message) for message in messages if message["role"] == "assistant"]


def _pieces(message: Event) -> Iterator[Event]:
    for place, block in enumerate(message["content"]):
        events: list[Event] = [{"type": "text_delta", "delta": block.get("text")}]
        if block["type"] == "toolCall":
            events = [{"type": "toolcall_start"}, {"type": "toolcall_delta", "delta": json.dumps(block["arguments"])}]
        for event in events:
            yield {"assistantMessageEvent": {**event, "contentIndex": place}}
