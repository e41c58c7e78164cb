"""What a client of pi says in RPC mode, and what it expects to hear: a fold over the lines of one connection.

The commands have the same names on both sides. What differs: an error is a string, `fork` and `clone` go on in the new session, and
answers hold the members that pi's have.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from orchestrator.dialects.projection import Projection, project
from store.entries import SessionInfoEntry
from store.lines import parted
from store.wire import encode


class PiClient(msgspec.Struct, frozen=True):
    """`session`: whom the client talks to; empty: the root that it began with. `stream`: how that one is told."""

    session: str = ""
    stream: Projection = Projection.of("pi")


def commanded(state: PiClient, line: bytes) -> bytes:
    """The command in our words. A line that is none is answered as it stands."""
    try:
        command = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return line
    if not isinstance(command, dict):
        return line
    if state.session:
        command = {"sessionId": state.session, **command}
    if command.get("type") == "fork":
        command |= {"before": True}  # what was said there comes back, to be said in another way
    return encode(command)


def told(state: PiClient, line: bytes) -> tuple[PiClient, bytes]:
    """An answer, or a line of the stream, in pi's words; empty where it has none."""
    parts = parted(line)
    if parts is None:
        return _answered(state, msgspec.json.decode(line))
    stream, out = project(state.stream, line)
    if parts.kind == "session_info" and parts.session_id == stream.root:
        name = msgspec.json.decode(line, type=SessionInfoEntry).name
        out = encode({"type": "session_info_changed", "name": name}) + b"\n"
    return msgspec.structs.replace(state, stream=stream), out


def _answered(state: PiClient, answer: dict[str, Any]) -> tuple[PiClient, bytes]:
    if not answer.get("success"):
        error = answer.get("error") or {}
        return state, encode(answer | {"error": error.get("message", "")}) + b"\n"
    command, data = answer["command"], answer.pop("data", None) or {}
    if command in {"fork", "clone"}:
        session = data["sessionId"]
        state = PiClient(session, msgspec.structs.replace(Projection.of("pi"), root=session))
    shaped = _DATA[command](data) if command in _DATA else data
    return state, encode(answer | ({"data": shaped} if shaped else {})) + b"\n"


def _state(data: dict[str, Any]) -> dict[str, Any]:
    """Messages that wait go in together, which pi calls `all`."""
    model = data["model"]
    told = {
        "model": _there({"name": model["id"], **model, "input": ["text", "image"]}),
        "steeringMode": "all",
        "followUpMode": "all",
        **{name: value for name, value in data.items() if name not in {"model", "row", "rootSessionId"}},
    }
    return _there(told)


def _there(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}


def _nothing(data: dict[str, Any]) -> dict[str, Any]:
    return {}


_DATA: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "prompt": lambda data: {"disposition": data["disposition"]},
    "steer": lambda data: {"disposition": data["disposition"]},
    "follow_up": lambda data: {"disposition": data["disposition"]},
    "abort": _nothing,
    "get_state": _state,
    "fork": lambda data: {"text": data.get("text") or "", "cancelled": False},
    "clone": lambda data: {"cancelled": False},
    "bash": lambda data: _there({name: value for name, value in data.items() if name != "recorded"}),
    "get_session_stats": _there,
}
