import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from actors.protocol.model import ModelFailure
from orchestrator.providers.http import STREAMS_PER_CLIENT, Http, opened_http
from orchestrator.providers.post import HttpLimits, Post
from orchestrator.providers.sse import Event
from tests.raw_server import Answer, RawServer, chunked, cut_anywhere, each_byte, events, head, raw_server

CANARY = "sk-canary-7f3a9b2c5d"
STREAM = events({"n": 1}, {"n": "中"}, {"n": 3})
WHOLE = ['{"n":1}', '{"n":"中"}', '{"n":3}', "[DONE]"]
# Real clocks: what must not happen gets a minute, what must happen gets a blink.
LIMITS = HttpLimits(connect_s=60, first_byte_s=60, idle_s=60, total_s=60)
BLINK_S = 0.03
MOMENT_S = 0.4


def post_to(url: str, **headers: str) -> Post:
    return Post(url, {"authorization": f"Bearer {CANARY}"} | headers, b"{}")


async def ask(url: str, **limits: Any) -> tuple[list[str], ModelFailure | None]:
    heard: list[str] = []

    async def take(event: Event) -> bool:
        heard.append(event.data)
        return event.data == "[DONE]"

    async with opened_http(msgspec.structs.replace(LIMITS, **limits), uses_environment=False) as http:
        failure = await http.post(post_to(url), take)
    assert CANARY not in repr(failure)
    return heard, failure


async def answered(*answer: bytes | float, **limits: Any) -> tuple[list[str], ModelFailure | None]:
    async with raw_server(answer) as server:
        return await ask(server.url, **limits)


async def failed(*answer: bytes | float, **limits: Any) -> ModelFailure:
    _, failure = await answered(*answer, **limits)
    assert failure is not None
    return failure


# --- what arrives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        [head() + STREAM],
        [head() + STREAM + b": late\n\n"],
        each_byte(head() + STREAM),
        [head(transfer_encoding="chunked") + chunked(STREAM)],
        [head(transfer_encoding="chunked"), *each_byte(chunked(*each_byte(STREAM)))],
        [head(content_length=str(len(STREAM))) + STREAM],
        [head(content_type="") + STREAM],
        [head(content_type="text/plain; charset=utf-8") + STREAM],
        [head() + STREAM.removesuffix(b"\n\n")],
        [head(content_encoding="gzip") + gzip.compress(STREAM)],
        [head(content_encoding="deflate"), *each_byte(zlib.compress(STREAM))],
        [head(201) + STREAM],
        *(cut_anywhere(head() + STREAM, seed) for seed in range(20)),
    ],
)
async def test_events_arrive_however_the_answer_was_cut(answer: Answer) -> None:
    async with raw_server(answer) as server:
        assert await ask(server.url) == (WHOLE, None)


async def test_what_is_sent_is_the_body_under_the_headers_of_the_caller() -> None:
    async with raw_server([head() + STREAM]) as server, opened_http(LIMITS, uses_environment=False) as http:
        await http.post(Post(f"{server.url}/v1/x?a=b", {"x-api-key": CANARY}, b'{"a":1}'), refuse)

    [request] = server.requests
    assert request.line == "POST /v1/x?a=b HTTP/1.1"
    assert request.body == b'{"a":1}'
    assert request.headers["x-api-key"] == CANARY
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"


async def refuse(event: Event) -> bool:
    return True


async def test_a_connection_is_used_again_behind_a_whole_answer() -> None:
    answer = [head(transfer_encoding="chunked") + chunked(STREAM)]
    async with raw_server(answer, keeps_alive=True) as server, opened_http(LIMITS, uses_environment=False) as http:
        for _ in range(3):
            assert await http.post(post_to(server.url), refuse) is None

    assert len(server.requests) == 3
    assert server.connections == 1


async def test_a_reader_that_had_enough_does_not_wait_for_the_end() -> None:
    async with raw_server([head() + STREAM, 60.0]) as server, opened_http(LIMITS, uses_environment=False) as http:
        assert await http.post(post_to(server.url), refuse) is None


async def test_streams_are_spread_over_clients() -> None:
    http = Http(LIMITS, uses_environment=False)
    lanes = set()
    for _ in range(2 * STREAMS_PER_CLIENT):
        lane = http._free_lane()
        lane.streams += 1
        lanes.add(id(lane))
    await http.aclose()

    assert len(lanes) == 2


# --- what ends too early ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ([], "network"),
        ([b"HTTP/1.1 200 O"], "network"),
        ([b"\x00\x01 garbage\r\n\r\n"], "network"),
        ([head()], "incomplete"),
        ([head() + b": ping\n\n: ping\n\n"], "incomplete"),
        ([head() + b"\n\n"], "incomplete"),
        ([head(content_type="") + b"hello"], "incomplete"),
        ([head(transfer_encoding="chunked") + chunked(STREAM[:20], is_whole=False)], "incomplete"),
        ([head(content_length="1000") + STREAM[:20]], "incomplete"),
        ([head(content_encoding="gzip") + b"no gzip at all"], "server"),
        ([head(content_encoding="br") + b"x"], "server"),
        ([head(content_type="text/html") + b"<html>hello"], "invalid_request"),
        ([head(content_type="application/json") + b'{"choices":[]}'], "server"),
        ([head(content_type="application/json") + b'{"error":{"type":"overloaded_error"}}'], "overloaded"),
        ([head(302, location=f"http://x:{CANARY}@h/p?k={CANARY}")], "invalid_request"),
        ([head(204)], "incomplete"),
    ],
)
async def test_an_answer_that_is_no_stream_is_a_failure(answer: list[bytes | float], kind: str) -> None:
    assert (await failed(*answer)).kind == kind


async def test_events_in_front_of_a_cut_are_heard() -> None:
    heard, failure = await answered(head(transfer_encoding="chunked"), chunked(STREAM[:20], is_whole=False))

    assert heard == ['{"n":1}']
    assert failure is not None


async def test_nobody_there_is_a_network_failure_that_names_the_place() -> None:
    async with raw_server([]) as server:
        url = server.url.replace("http://", f"http://user:{CANARY}@") + f"/v1?key={CANARY}"
    _, failure = await ask(url)

    assert failure is not None
    assert failure.kind == "network"
    assert f"http://127.0.0.1:{server.port}/v1" in failure.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request"), (401, "auth"), (429, "rate_limited"), (500, "server"), (529, "overloaded")],
)
async def test_a_status_is_classified_with_its_body_and_without_the_key(status: int, kind: str) -> None:
    body = msgspec.json.encode({"error": {"message": f"Not with {CANARY}", "code": f"no_{CANARY}"}})
    failure = await failed(head(status, retry_after="7"), *each_byte(body))

    assert failure.kind == kind
    assert failure.message == f"Not with [redacted] (no_[redacted], HTTP {status}, retry after 7 s)"
    assert failure.retry_after_s == 7


async def test_a_key_is_not_told_in_half_where_a_text_is_cut() -> None:
    for pad in range(7_970, 8_001):
        failure = await failed(head(500) + b"x" * pad + CANARY.encode() + b" tail")
        assert "sk-canary" not in failure.message
    for pad in range(170, 201):
        failure = await failed(head(content_type="text/html") + b"x" * pad + CANARY.encode())
        assert "sk-ca" not in failure.message


# --- what cannot be sent ----------------------------------------------------------------------------------------------


NO_URLS = [
    "",
    "localhost:80/v1",
    "ftp://h/",
    "http://",
    "http://h:x/",
    "http://h:99999/",
    "http://[::1",
    "/v1",
    "http://h:0/",
]
NO_VALUES = [f"Bearer {CANARY}{end}" for end in ("\n", "\r\nx: y", "\0", "é", "\u2028", " ")]


@pytest.mark.parametrize(
    ("url", "headers"),
    [(url, {}) for url in NO_URLS]
    + [("http://h/", {"authorization": value}) for value in NO_VALUES]
    + [("http://h/", {"a b": "c"}), ("http://h/", {"": "c"})],
)
async def test_what_is_no_http_is_refused_before_it_is_sent(url: str, headers: dict[str, str]) -> None:
    http = Http(LIMITS, uses_environment=False)
    failure = await http.post(post_to(url, **headers), refuse)

    assert failure is not None
    assert failure.kind == "invalid_request"
    assert CANARY not in repr(failure)


def test_a_post_does_not_show_its_key() -> None:
    assert CANARY not in repr(Post(f"http://x:{CANARY}@h/?k={CANARY}", {"x-api-key": CANARY}, CANARY.encode()))


@pytest.mark.parametrize(
    "post",
    [
        Post("http://h/", {"Authorization": f"Bearer {CANARY}"}, b""),
        Post("http://h/", {"X-Goog-Api-Key": CANARY}, b""),
        Post(f"http://h/?a=1&key={CANARY}", {}, b""),
        Post(f"http://me:{CANARY}@h/", {}, b""),
        Post(f"http://{CANARY}@h/", {}, b""),
    ],
)
def test_keys_are_taken_out_of_texts_wherever_they_were_put(post: Post) -> None:
    assert post.redacted(f"a {CANARY} b{CANARY}") == "a [redacted] b[redacted]"
    assert CANARY not in post.place


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"data: " + b"x" * 2_000, "line"),
        (b": " + b"x" * 2_000, "line"),
        (b"data: x\n" * 1_200, "event"),
        (b"data: x\n\n" * 2_000, "10000 bytes"),
        (b": ping\n" * 2_000, "10000 bytes"),
    ],
)
async def test_a_stream_without_end_is_left(body: bytes, named: str) -> None:
    limits = {"line_bytes": 1_000, "event_bytes": 2_000, "response_bytes": 10_000}
    plain = await failed(head() + body, 60.0, **limits)
    packed = await failed(head(content_encoding="gzip") + gzip.compress(body), 60.0, **limits)

    assert plain == packed
    assert plain.kind == "server"
    assert named in plain.message


async def test_a_bomb_is_counted_as_it_unfolds() -> None:
    bomb = gzip.compress(b"\n" * 50_000_000)
    failure = await failed(head(content_encoding="gzip"), bomb, 60.0, response_bytes=1_000_000)

    assert "1000000 bytes" in failure.message


async def test_an_error_without_end_is_cut() -> None:
    async def flood(stream: trio.SocketStream) -> None:
        await stream.send_all(head(500))
        while True:
            await stream.send_all(b"x" * 10_000)

    async with raw_server(flood) as server:
        _, failure = await ask(server.url)

    assert failure is not None
    assert failure.kind == "server"


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "limits", "named"),
    [
        ([60.0], {"first_byte_s": BLINK_S}, "no answer from"),
        ([b"HTTP/1.1 200 O", 60.0], {"first_byte_s": BLINK_S}, "no answer from"),
        ([60.0], {"total_s": MOMENT_S}, "no answer from"),
        ([head(), 60.0], {"idle_s": MOMENT_S}, "stood still"),
        ([head() + STREAM[:20], 60.0], {"idle_s": MOMENT_S}, "stood still"),
        ([head(500) + b"half", 60.0], {"idle_s": MOMENT_S}, "stood still"),
        ([head(), *[b": ping\n\n", 0.001] * 10_000], {"total_s": MOMENT_S}, "not complete"),
        ([head(), *[b"x", 0.001] * 10_000], {"total_s": MOMENT_S}, "not complete"),
    ],
)
async def test_each_deadline_ends_the_call_by_its_name(
    answer: list[bytes | float], limits: dict[str, float], named: str
) -> None:
    failure = await failed(*answer, **limits)

    assert failure.kind == "timeout"
    assert named in failure.message


async def test_a_connection_that_is_never_made_ends() -> None:
    blocked = trio.socket.socket()
    await blocked.bind(("127.0.0.1", 0))
    blocked.listen(0)
    port = blocked.getsockname()[1]
    fillers = [trio.socket.socket() for _ in range(8)]
    async with trio.open_nursery() as nursery:
        for filler in fillers:
            nursery.start_soon(filler.connect, ("127.0.0.1", port))
        await trio.testing.wait_all_tasks_blocked()
        _, failure = await ask(f"http://127.0.0.1:{port}", connect_s=BLINK_S)
        nursery.cancel_scope.cancel()
    for socket in [blocked, *fillers]:
        socket.close()

    assert failure is not None
    assert failure.kind == "timeout"
    assert "no connection" in failure.message


async def test_the_time_that_the_reader_is_paused_counts_for_no_deadline() -> None:
    async def take(event: Event) -> bool:
        await trio.sleep(1.5 * MOMENT_S if event.data == WHOLE[0] else 0)
        return False

    limits = msgspec.structs.replace(LIMITS, idle_s=MOMENT_S, total_s=MOMENT_S)
    async with raw_server([head() + STREAM]) as server, opened_http(limits, uses_environment=False) as http:
        assert await http.post(post_to(server.url), take) is None


# --- leaving ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def stalled() -> AsyncIterator[RawServer]:
    async with raw_server([head() + STREAM, 600.0]) as server:
        yield server


async def test_a_call_can_be_cancelled_while_it_waits(stalled: RawServer) -> None:
    heard = trio.Event()

    async def take(event: Event) -> bool:
        heard.set()
        return False

    async with opened_http(LIMITS, uses_environment=False) as http, trio.open_nursery() as nursery:
        nursery.start_soon(http.post, post_to(stalled.url), take)
        await heard.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert http._lanes == []


async def test_a_bug_of_the_reader_passes_through(stalled: RawServer) -> None:
    async def take(event: Event) -> bool:
        raise LookupError(event.data)

    async with opened_http(LIMITS, uses_environment=False) as http:
        with pytest.raises(LookupError, match="n"):
            await http.post(post_to(stalled.url), take)
        assert [lane.streams for lane in http._lanes] == [0]
