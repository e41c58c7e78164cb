"""Lines of the multiplexed stream: an event with the tags that publication adds, put together and taken apart."""

import functools
import re

import msgspec

from store.entries import Header
from store.events import Event, Place
from store.wire import encode

# Deltas stay small: they carry the short tags only.
SHORT_TAGGED = frozenset({"message_update", "tool_execution_update"})


@functools.lru_cache(maxsize=4096)
def _tags_around(kind: str, place: Place) -> tuple[bytes, bytes]:
    """What stands before the number, and behind the time, in every line of this kind of this session."""
    head = f'{{"type":"{kind}","sessionId":"{place.session_id}","seq":'.encode()
    if kind in SHORT_TAGGED:
        return head, b""
    parent = "" if place.parent_id is None else f',"parentSessionId":"{place.parent_id}"'
    return head, f',"rootSessionId":"{place.root_id}","depth":{place.depth}{parent}'.encode()


def tagged(tail: bytes, kind: str, place: Place, seq: int, at: str) -> bytes:
    """One line of the multiplexed stream, newline included. `tail` is what follows `{"type":"…"` in the encoded event."""
    head, middle = _tags_around(kind, place)
    return b'%b%d,"at":"%b"%b%b\n' % (head, seq, at.encode(), middle, tail)


def event_tail(event: Event) -> tuple[str, bytes]:
    """The type of an event and what follows `{"type":"…"` in its encoding.

    A header loses the members that its tags repeat, and the framing, which is a matter of journals only.
    """
    if isinstance(event, Header):
        event = msgspec.structs.replace(event, parent_session_id=None, root_session_id=None, framing=None)
    kind = str(event.__struct_config__.tag)
    return kind, encode(event)[len(kind) + 10 :]


_PUBLISHED = re.compile(rb'\{"type":"([a-z_]+)","sessionId":"([^"]+)","seq":(\d+),')


def line_tags(line: bytes) -> tuple[str, str, int]:
    """(type, session, seq) of a line that `tagged` made, without decoding it. Raises ValueError for any other."""
    found = _PUBLISHED.match(line)
    if found is None:
        raise ValueError(f"expected a line of the stream, found {line[:80]!r}")
    return found[1].decode(), found[2].decode(), int(found[3])


_TAGGED = re.compile(
    _PUBLISHED.pattern + rb'"at":"[^"]+"(?:,"rootSessionId":"[^"]+","depth":\d+(?:,"parentSessionId":"[^"]+")?)?'
)


class TaggedLine(msgspec.Struct, frozen=True):
    """A line of the multiplexed stream, taken apart: `{"type":"KIND"` + `tags` + `tail`."""

    kind: str
    session_id: str
    tags: bytes
    tail: bytes


def parted(line: bytes) -> TaggedLine | None:
    """What `tagged` has joined; None for any other line."""
    found = _TAGGED.match(line)
    if found is None:
        return None
    tags = line[found.end(1) + 1 : found.end()]
    return TaggedLine(found[1].decode(), found[2].decode(), tags, line[found.end() :])


class Tags(msgspec.Struct, frozen=True, rename="camel"):
    """What publication has added to a line. `at`: ISO time."""

    session_id: str
    seq: int = 0
    at: str = ""
    root_session_id: str | None = None
    parent_session_id: str | None = None
    depth: int = 0


_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_tags: msgspec.json.Decoder[Tags] = msgspec.json.Decoder(Tags)


def read_line(line: bytes) -> tuple[Tags, Event]:
    """One line of a native stream. Raises msgspec.DecodeError for a type or shape that is not ours."""
    return _tags.decode(line), _event.decode(line)
