"""E1 and E2: what a token costs on its way from the socket, one stream at a time and thousands at once."""

import gc
import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import IO, Any

import attrs
import httpx
import msgspec
import trio
import trio.testing

from actors.protocol.model import Chunk, ModelInfo, ModelRequest, ReplyEnd, TextChunk
from orchestrator.providers.http import Http, opened_http
from orchestrator.providers.openai_completions import OpenAICompletions
from orchestrator.providers.post import HttpLimits
from store.ids import session_id
from store.messages import UserMessage
from tests.bench.harness import (
    Row,
    Side,
    absent,
    at_least,
    at_most,
    beside,
    importable,
    in_turns,
    settle_heap,
)
from tests.bench.sse_server import answer

SERVER = Path(__file__).with_name("sse_server.py")
EVENTS = 5_000
BASE, MANY, MOST = 100, 1_000, 5_000
EVENTS_AT_ONCE = 3_000
"""So many per round, whatever the number of streams: the garbage collector has its share alike."""
SPARE_FILES = 200
PATIENT = HttpLimits(connect_s=600.0, first_byte_s=600.0, idle_s=600.0)
REQUEST = ModelRequest(
    session_id(1_800_000_000_000, 1),
    "root",
    0,
    1,
    ModelInfo("test", "model", "openai-completions"),
    (UserMessage(content="2+2?"),),
)
BODY = msgspec.json.encode({"model": "model", "stream": True, "messages": [{"role": "user", "content": "2+2?"}]})

Hear = Callable[[str], None]


@contextmanager
def serving(*arguments: str, told: bytes = b"") -> Iterator[tuple[str, IO[bytes]]]:
    """The URL of the server, and what it can be told more by, if it is told nothing at once."""
    command = [sys.executable, str(SERVER), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            if told:
                rest = memoryview(told)
                while rest:
                    rest = rest[server.stdin.write(rest) :]
                server.stdin.close()
            yield f"http://127.0.0.1:{port}/v1", server.stdin
        finally:
            server.kill()


# --- who reads --------------------------------------------------------------------------------------------------------


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]


_completion = msgspec.json.Decoder(_Completion)


async def our_stream(http: Http, url: str, hear: Hear) -> None:
    async def hear_chunk(chunk: Chunk) -> None:
        if isinstance(chunk, TextChunk):
            hear(chunk.text)

    end = await OpenAICompletions(http, url).call(REQUEST, hear_chunk)
    assert isinstance(end, ReplyEnd), end


async def hand_loop(client: httpx.AsyncClient, url: str, hear: Hear) -> None:
    """The baseline: httpx's raw bytes, split at blank lines, each event decoded to what is wanted of it."""
    rest = b""
    async with client.stream("POST", f"{url}/chat/completions", content=BODY) as response:
        async for piece in response.aiter_raw():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    continue
                content = _completion.decode(event[6:]).choices[0].delta.content
                if content:
                    hear(content)


def httpx_sse_loop(library: Any) -> Callable[[httpx.AsyncClient, str, Hear], Awaitable[None]]:
    async def run(client: httpx.AsyncClient, url: str, hear: Hear) -> None:
        place = f"{url}/chat/completions"
        async with library.aconnect_sse(client, "POST", place, content=BODY) as source:
            async for event in source.aiter_sse():
                if event.data == "[DONE]":
                    break
                content = json.loads(event.data)["choices"][0]["delta"].get("content")
                if content:
                    hear(content)

    return run


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=False, trust_env=False, timeout=None, limits=httpx.Limits(max_connections=None))


# --- one stream -------------------------------------------------------------------------------------------------------


@attrs.define
class _Clock:
    """CPU time from the first token to the last one; connecting is not counted."""

    tokens: int = 0
    started: float = 0.0
    ended: float = 0.0

    def hear(self, text: str) -> None:
        self.tokens += 1
        if self.tokens == 1:
            self.started = process_time()
        if self.tokens == EVENTS:
            self.ended = process_time()

    @property
    def per_token(self) -> float:
        assert self.tokens == EVENTS, self.tokens
        return (self.ended - self.started) / (EVENTS - 1)


def of_ours(url: str) -> Side:
    async def run() -> float:
        clock = _Clock()
        async with opened_http(uses_environment=False) as http:
            await our_stream(http, url, clock.hear)
        return clock.per_token

    return lambda: trio.run(run)


def of_httpx(url: str, read: Callable[[httpx.AsyncClient, str, Hear], Awaitable[None]]) -> Side:
    async def run() -> float:
        clock = _Clock()
        async with _client() as client:
            await read(client, url, clock.hear)
        return clock.per_token

    return lambda: trio.run(run)


def e1(rounds: int) -> list[Row]:
    """tokens of one stream, against httpx read by hand and httpx-sse"""
    library = importable("httpx_sse")
    whole, closed = answer(EVENTS, is_chunked=True), answer(EVENTS, is_chunked=False)
    with serving("whole", told=whole) as (url, _), serving("whole", told=closed) as (closed_url, _):
        sides = {
            "ours": of_ours(url),
            "hand": of_httpx(url, hand_loop),
            "ours, packed": of_ours(closed_url),
            "hand, packed": of_httpx(closed_url, hand_loop),
        }
        if library is not None:
            sides["httpx-sse"] = of_httpx(url, httpx_sse_loop(library[0]))
            sides["httpx-sse, packed"] = of_httpx(closed_url, httpx_sse_loop(library[0]))
        best = in_turns(rounds, sides)
    case, packed = "E1 token, a chunk each", "E1 token, many at a read"
    rows = [at_least(case, 0.9, best["ours"], best["hand"], "httpx + hand loop + msgspec")]
    if library is not None:
        rows.append(at_least(case, 1.25, best["ours"], best["httpx-sse"], "httpx-sse + json"))
    else:
        rows.append(absent(case, ">= 1.25x httpx-sse + json", "httpx-sse not installed"))
    rows.append(beside(packed, best["ours, packed"], best["hand, packed"], "httpx + hand loop + msgspec"))
    if library is not None:
        rows.append(beside(packed, best["ours, packed"], best["httpx-sse, packed"], "httpx-sse + json"))
    return rows


# --- many streams -----------------------------------------------------------------------------------------------------


@attrs.define
class _Steps:
    """When every stream has heard one more event, the server is told to send the next: each read brings one event."""

    streams: int
    server: IO[bytes]
    rounds: int
    is_traced: bool
    heard: int = 0
    marks: list[float] = attrs.field(factory=list)
    traced_bytes: int = 0

    @property
    def in_a_round(self) -> int:
        return max(1, EVENTS_AT_ONCE // self.streams)

    def hear(self, text: str) -> None:
        self.heard += 1
        if self.heard < self.streams:
            return
        self.heard = 0
        self.marks.append(process_time())
        if self.is_traced and len(self.marks) == 1:
            self.traced_bytes = _traced()
        if len(self.marks) <= self.rounds * self.in_a_round:
            self.server.write(b"\n")
        else:
            self.server.close()

    @property
    def per_event(self) -> float:
        bounds = self.marks[:: self.in_a_round]
        return min(end - start for start, end in pairwise(bounds)) / (self.in_a_round * self.streams)


Opened = Callable[[str, Hear], Awaitable[None]]


async def at_once(streams: int, url: str, steps: _Steps, stream: Opened) -> int:
    """Bytes per stream above a task that waits, if they are traced."""
    go = trio.Event()

    async def one() -> None:
        await go.wait()
        await stream(url, steps.hear)

    before = 0
    async with trio.open_nursery() as nursery:
        for _ in range(streams):
            nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        if steps.is_traced:
            before = _traced()
        go.set()
        steps.server.write(b"\n")
    return (steps.traced_bytes - before) // streams


def many(streams: int, *, is_ours: bool, rounds: int = 2, is_traced: bool = False) -> float:
    """CPU seconds per event, or bytes per stream. `rounds` while the streams stay open, of which the best counts."""

    async def run() -> float:
        with serving("steps", str(streams)) as (url, server):
            steps = _Steps(streams, server, rounds, is_traced)
            if is_ours:
                async with opened_http(PATIENT, uses_environment=False) as http:
                    size = await at_once(streams, url, steps, lambda url, hear: our_stream(http, url, hear))
            else:
                async with _client() as client:
                    size = await at_once(streams, url, steps, lambda url, hear: hand_loop(client, url, hear))
        return size if is_traced else steps.per_event

    return trio.run(run)


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def most_streams() -> int:
    """How many connections may be open here, up to the number that is wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, (soft - SPARE_FILES) // 100 * 100)


def e2(rounds: int) -> list[Row]:
    """events of 1,000 and of 5,000 streams at once"""
    most = most_streams()
    if most < MANY:
        return [absent(f"E2 {MANY} streams", "<= 1.2x httpx at 100", f"at most {most} files may be open")]
    sides = {
        "httpx": lambda: many(BASE, is_ours=False),
        "ours": lambda: many(BASE, is_ours=True),
        "many": lambda: many(MANY, is_ours=True),
    }
    best: dict[str, float] = {}
    many(BASE, is_ours=False)
    many(BASE, is_ours=True)
    settle_heap()
    names = list(sides)
    for number in range(rounds):
        place = number % len(names)
        for name in names[place:] + names[:place]:
            gc.collect()
            best[name] = min(sides[name](), best.get(name, float("inf")))
    if most > MANY:  # opening so many takes longer than all the rest
        best["most"] = many(most, is_ours=True, rounds=rounds)
    tracemalloc.start()
    try:
        kib = many(MANY, is_ours=True, is_traced=True) / 1024
        httpx_kib = many(BASE, is_ours=False, is_traced=True) / 1024
    finally:
        tracemalloc.stop()
    rows = [
        at_most(f"E2 event, {MANY} streams", 1.2, best["many"], best["httpx"], f"httpx at {BASE}"),
        beside(f"E2 event, {BASE} streams", best["ours"], best["httpx"], f"httpx at {BASE}"),
        Row(
            f"E2 memory, {MANY} streams",
            "<= 32 KiB above a task",
            f"{kib:.1f} KiB",
            f"{kib:.1f} KiB",
            f"{httpx_kib:.1f} KiB",
            kib <= 32,
        ),
    ]
    fits = "" if most == MOST else f" (no more files than that; {MOST} wanted)"
    if "most" not in best:
        return [*rows, absent(f"E2 event, {MOST} streams", f"<= 1.3x ours at {MANY}", f"only {most} files may be open")]
    return [*rows, at_most(f"E2 event, {most} streams{fits}", 1.3, best["most"], best["many"], f"ours at {MANY}")]
