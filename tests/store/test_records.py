"""Records: the bytes of a line are the truth, the head is read at once, the body on demand."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import entries
from store.entries import CustomEntry, Known, MessageEntry, UnknownEntry
from store.errors import BadRecord
from store.messages import TextContent, UserMessage, decode_message
from store.records import Draft, Record, last_marked, read_record
from store.usage import Cost, Usage
from store.wire import encode

SESSIONS = sorted((Path(__file__).parents[1] / "data" / "sessions").iterdir())
HARD = ["\u2028", "\u2029", "\0", "😀", "\r\n", '"\\', "\x7f\x85", "e\u0301"]
AT = "2026-01-02T03:04:05.678Z"

texts = st.text(max_size=12) | st.sampled_from(HARD)
maybe = st.none() | texts
numbers = st.integers(0, 2**53)
json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=3)
content = texts | st.lists(st.builds(TextContent, text=texts), max_size=2).map(tuple)
dollars = st.floats(0, 4503)
usages = st.builds(Usage, input=numbers, output=numbers, cost=st.builds(Cost, input=dollars, total=dollars))
raw_messages = st.builds(UserMessage, content=content, details=json_values, timestamp=numbers).map(
    lambda message: msgspec.Raw(encode(message))
)
outcomes = st.sampled_from(entries.OUTCOMES)

# A strategy for each member, by its name in Python; `MEMBERS_OF` for members whose meaning depends on the body.
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "content": content,
    "usage": st.none() | usages,
    "child_usage": usages,
    "aggregate_usage": st.none() | usages,
    "display": st.booleans(),
    "from_hook": st.none() | st.booleans(),
    "details": json_values,
    "data": json_values,
    "replacement": json_values,
    "tokens_before": numbers,
    "run": numbers,
    "attempt": numbers,
    "passed": st.booleans(),
    "result": json_values,
    "duration_ms": numbers,
    "child_depth": numbers,
    "state": objects,
    "status": objects,
    "git": objects,
    "limits": objects,
    "outcome": outcomes,
    "message": raw_messages,
}
OPTIONAL = {
    "stop_reason",
    "error_message",
    "tool_call_id",
    "label",
    "custom_instructions",
    "service_tier",
    "origin_session_id",
    "origin_entry_id",
    "child_session_id",
    "origin",
}
MEMBERS_OF: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    entries.UsageEntry: {"usage": usages},
    entries.ChildUsageAttributedEntry: {"target_id": maybe},
    entries.SessionInfoEntry: {"name": maybe},
    entries.ChildSpawnedEntry: {"child_session_id": texts},
    entries.ChildSettledEntry: {"child_session_id": texts},
}
BODIES = list(Known.__args__)


def bodies_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    known = dict.fromkeys(kind.__struct_fields__, texts) | dict.fromkeys(OPTIONAL, maybe) | MEMBERS
    known |= MEMBERS_OF.get(kind, {})
    return st.builds(kind, **{name: known[name] for name in kind.__struct_fields__})


bodies: st.SearchStrategy[Any] = st.one_of(*(bodies_of(kind) for kind in BODIES))
ids = st.integers(0, 2**32 - 1).map(lambda number: f"{number:08x}")


def by_value(body: Any) -> Any:
    """A body with its message as bytes: msgspec.Raw compares by identity."""
    return (bytes(body.message),) if isinstance(body, MessageEntry) else body


# --- drafts ----------------------------------------------------------------------------------------------------------


def test_every_body_is_tried() -> None:
    assert len(BODIES) == 21
    assert {member for kind in BODIES for member in kind.__struct_fields__} >= set(MEMBERS) | OPTIONAL


@given(bodies, ids, st.none() | ids)
def test_every_body_is_read_back_as_it_was_drafted(body: Any, entry: str, parent: str | None) -> None:
    drafted = Draft.of(body).record(entry, parent, AT)
    read = read_record(drafted.raw)

    assert read == drafted
    assert by_value(read.body()) == by_value(drafted.body()) == by_value(body)


@given(bodies, ids, st.none() | ids)
def test_a_drafted_line_is_the_plain_encoding_with_id_parent_and_time_in_it(
    body: Any, entry: str, parent: str | None
) -> None:
    raw = Draft.of(body).record(entry, parent, AT).raw
    plain = encode(body)
    kind = msgspec.json.decode(plain)["type"]
    place = msgspec.json.encode({"id": entry, "parentId": parent, "timestamp": AT})[1:-1]
    head = b'{"type":"%s"' % kind.encode()

    assert raw == head + b"," + place + plain.removeprefix(head)
    assert msgspec.json.decode(raw) == {"id": entry, "parentId": parent, "timestamp": AT} | msgspec.json.decode(plain)
    assert b"\n" not in raw


@given(bodies)
def test_the_event_shares_the_bytes_of_the_entry(body: Any) -> None:
    draft = Draft.of(body)

    assert b'{"type":"%s"' % draft.type.encode() + draft.tail == encode(body)
    assert draft.record("0000000a", None, AT).raw.endswith(draft.tail)


@given(bodies_of(entries.ChildUsageAttributedEntry))
def test_an_attribution_has_its_key_only_when_it_is_whole(body: entries.ChildUsageAttributedEntry) -> None:
    origin = (body.origin_session_id, body.origin_entry_id)

    assert read_record(Draft.of(body).record("0000000a", None, AT).raw).key == (None if None in origin else origin)


# --- what we do not know ---------------------------------------------------------------------------------------------

unknown_types = texts.filter(lambda name: name not in {kind.__struct_config__.tag for kind in BODIES})
odd_members = st.dictionaries(
    texts | st.sampled_from(["timestamp", "originSessionId", "originEntryId", "message", "~"]), json_values, max_size=4
)


@given(unknown_types, ids, st.none() | ids, odd_members, st.booleans())
def test_an_entry_of_an_unknown_type_survives_byte_for_byte(
    kind: str, entry: str, parent: str | None, members: dict[str, Any], is_spaced: bool
) -> None:
    wire = members | {"parentId": parent, "type": kind, "id": entry}
    raw = msgspec.json.encode(wire)
    raw = msgspec.json.format(raw, indent=1).replace(b"\n", b" ") if is_spaced else raw

    record = read_record(raw)

    assert (record.type, record.id, record.parent_id, record.raw) == (kind, entry, parent, raw)
    assert record.body() == UnknownEntry(raw)


@given(bodies, texts, json_values)
def test_a_member_that_we_do_not_know_survives_in_the_bytes(body: Any, name: str, value: object) -> None:
    wire = msgspec.json.decode(Draft.of(body).record("0000000a", None, AT).raw)
    raw = msgspec.json.encode(wire | {f"x-{name}": value})

    record = read_record(raw)

    assert record.raw == raw
    assert by_value(record.body()) == by_value(body) or isinstance(body, MessageEntry)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"label","id":"a","targetId":5}',
        b'{"type":"message","id":"a"}',
        b'{"type":"compaction","id":"a","summary":"s","firstKeptEntryId":"b","tokensBefore":"many"}',
        b'{"type":"session_state","id":"a","state":"active"}',
        b'{"type":"child_usage_attributed","id":"a","targetId":"b","childUsage":null}',
    ],
)
def test_a_known_type_of_an_unknown_shape_survives_too(raw: bytes) -> None:
    assert read_record(raw).body() == UnknownEntry(raw)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_real_session_files_survive_byte_for_byte(path: Path) -> None:
    lines = [line for line in path.read_bytes().split(b"\n")[1:] if line]

    assert [read_record(line).raw for line in lines] == lines


# --- hard bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", HARD)
def test_a_hard_character_is_one_record_of_one_line(hard: str) -> None:
    message = msgspec.Raw(encode(UserMessage(content=f"a{hard}b", timestamp=1)))
    record = Draft.of(MessageEntry(message=message)).record("0000000a", None, AT)

    body = read_record(record.raw).body()

    assert record.raw.count(b"\n") == 0
    assert isinstance(body, MessageEntry)
    assert decode_message(body.message) == UserMessage(content=f"a{hard}b", timestamp=1)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"cut \ud83d", "cut \ufffd"),
        (rb"\ude00 cut", "\ufffd cut"),
        (rb"\ud83d\ud83d\ude00", "\ufffd😀"),
        (rb"\uD83Dx\uDE00", "\ufffdx\ufffd"),
        (rb"\\ud83d \u00e9 \ud83d\ude00 \ud83d", "\\ud83d é 😀 \ufffd"),
        (rb"\\\ud83d", "\\\ufffd"),
    ],
)
def test_half_a_surrogate_pair_as_javascript_writes_it_loses_no_entry(written: bytes, read: str) -> None:
    raw = b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"%s"}}' % written
    record = read_record(raw)
    body = record.body()

    assert record.raw == raw
    assert isinstance(body, MessageEntry)
    assert decode_message(body.message) == UserMessage(content=read)


def test_half_a_pair_in_a_head_is_read_too() -> None:
    assert read_record(rb'{"type":"x\ud83d","id":"a"}').type == "x\ufffd"


NO_RECORDS = [
    b"",
    b"null",
    b"7",
    b"[]",
    b"{}",
    b'{"type":"x"}',
    b'{"id":"a"}',
    b'{"type":null,"id":"a"}',
    b'{"type":"x","id":null}',
    b'{"type":"x","id":7}',
    b'{"type":"x","id":"a","parentId":7}',
    b'{"type":"x","id":"a"',
    b'{"type":"x","id":"a"}{"type":"y","id":"b"}',
    b'{"type":"x","id":"\xff"}',
    b'{"type":"x","id":"a"}\0\0',
    b'{"type":"x","id":"a","y":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]


@pytest.mark.parametrize("raw", NO_RECORDS, ids=range(len(NO_RECORDS)))
def test_what_is_no_entry_says_so(raw: bytes) -> None:
    with pytest.raises(BadRecord) as caught:
        read_record(raw)
    assert len(str(caught.value)) < 700


def test_a_body_that_is_nested_too_deeply_is_unknown() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    raw = b'{"type":"custom","id":"a","customType":"t","data":%s}' % deep

    assert Record("custom", "a", None, "", raw).body() == UnknownEntry(raw)
    with pytest.raises(BadRecord):
        decode_message(b'{"role":"user","content":"x","details":%s}' % deep)


@given(bodies, st.data())
def test_any_damage_to_a_line_is_a_bad_record_or_a_record(body: Any, data: st.DataObject) -> None:
    raw = bytearray(Draft.of(body).record("0000000a", "00000009", AT).raw)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place : place + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    try:
        record = read_record(bytes(raw))
    except BadRecord:
        return
    assert record.raw == bytes(raw)
    record.body()


def test_what_a_mark_says_is_what_its_last_entry_with_members_says() -> None:
    def marked(number: int, mark: str, data: Any) -> Record:
        return Draft.of(CustomEntry(custom_type=mark, data=data)).record(f"{number:08x}", None, AT)

    records = [
        marked(1, "a.mark", {"n": 1}),
        marked(2, "a.mark", {"n": 2}),
        marked(3, "another", {"n": "a.mark"}),
        marked(4, "a.mark", "no members"),
    ]
    assert last_marked(records, "a.mark") == {"n": 2}
    assert last_marked(records[2:], "a.mark") is None
    assert last_marked([], "a.mark") is None
