from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.providers.sse import Event, SseParser


def parsed(*chunks: bytes, **bounds: int) -> list[Event]:
    parser = SseParser(**bounds)
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[place : place + 1] for place in range(len(stream))]


CASES: list[tuple[bytes, list[Event]]] = [
    (b"", []),
    (b"\n\n\r\r\r\n", []),
    (b"data: a\n\ndata: b\n\n", [Event("a"), Event("b")]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [Event("a"), Event("b")]),
    (b"data: a\r\rdata: b\r\r", [Event("a"), Event("b")]),
    (b"data: a\r\n\ndata: b\n\r\n", [Event("a"), Event("b")]),
    (b"data: a\n\rdata: b\r\n\r", [Event("a"), Event("b")]),
    (b"data:a\n\ndata:  two spaces\n\n", [Event("a"), Event(" two spaces")]),
    (b"data: 1\ndata: 2\ndata:\ndata: 4\n\n", [Event("1\n2\n\n4")]),
    (b"data\n\ndata:\n\n", [Event(""), Event("")]),
    (b": ping\n\n:\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n", [Event("a")]),
    (b": only comments\n\n", []),
    (b"data: a\n: between\ndata: b\n\n", [Event("a\nb")]),
    (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [Event("a")]),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    (b"\xef\xbb\xbf\ndata: a\n\n", [Event("a")]),
    (b"event: error\ndata: a\n\ndata: b\n\n", [Event("a", "error"), Event("b")]),
    (b"event: lost\n\ndata: b\n\n", [Event("b")]),
    (
        b"id: 1\ndata: a\n\ndata: b\n\nid: x\0y\ndata: c\n\nid\ndata: d\n\n",
        [Event(w, "", i) for w, i in ("a1", "b1", "c1")] + [Event("d")],
    ),
    (b"retry: 10\ndata: a\nDATA: no\n data: no\nunknown: x\n\n", [Event("a")]),
    ("data: 中\u2028文\x85é🌳\n\n".encode(), [Event("中\u2028文\x85é🌳")]),
    (b"data: a\n\ndata: [DONE]", [Event("a"), Event("[DONE]", is_cut=True)]),
    (b"data: a\n\ndata: half \xe4\xb8", [Event("a"), Event("half �", is_cut=True)]),
    (b"data: \xff\xfe!\n\n", [Event("��!")]),
]


@pytest.mark.parametrize(("stream", "events"), CASES)
def test_a_stream_is_read_by_the_rules_of_the_standard(stream: bytes, events: list[Event]) -> None:
    assert parsed(stream) == events
    assert parsed(*bytewise(stream)) == events


@pytest.mark.parametrize(
    ("line", "retry_ms"),
    [
        (b"retry: 10", 10),
        (b"retry: -1", None),
        (b"retry: 1.5", None),
        (b"retry:", None),
        (b"retry: " + b"9" * 99, None),
    ],
)
def test_a_retry_time_is_kept_when_it_is_digits(line: bytes, retry_ms: int | None) -> None:
    parser = SseParser()

    assert parser.feed(line + b"\n\n") == []
    assert parser.retry_ms == retry_ms


PIECES = st.sampled_from(
    [b"data: a", b"data:", b"data: \xe4\xb8\xad", b"\xf0\x9f", b"event: e", b"id: 7", b": c", b"x", b"\xef\xbb\xbf"]
    + [b"\r", b"\n", b"\r\n"] * 3
)


@given(pieces=st.lists(PIECES, max_size=40), cuts=st.lists(st.integers(0, 200), max_size=20))
def test_any_chunking_gives_the_same_events(pieces: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pieces)
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(places)]

    for bounds in ({}, {"line_bytes": 8, "event_bytes": 9}):
        assert parsed(*chunks, **bounds) == parsed(stream, **bounds) == parsed(*bytewise(stream), **bounds)


@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30), min_size=1))
def test_what_was_sent_arrives(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()

    assert parsed(*bytewise(stream)) == [Event(text) for text in texts]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("stream", "named"),
    [
        (b"data: ok\n\ndata: " + b"x" * 100, "line"),
        (b"data: ok\n\n:" + b"x" * 100 + b"\n\ndata: late\n\n", "line"),
        (b"data: ok\n\n" + b"data: x\n" * 100 + b"\ndata: late\n\n", "event"),
    ],
)
def test_a_bound_ends_the_reading_behind_the_whole_events(stream: bytes, named: str, size: int) -> None:
    parser = SseParser(line_bytes=64, event_bytes=100)
    events = [event for start in range(0, len(stream), size) for event in parser.feed(stream[start : start + size])]

    assert events + parser.close() == [Event("ok")]
    assert parser.exceeded is not None
    assert named in parser.exceeded
