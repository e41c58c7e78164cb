"""The answer to a POST: decompressed, counted and framed into events, or classified where it is none."""

import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping

import attrs

from actors.protocol.model import FailureKind, ModelFailure
from orchestrator.providers.failures import classify
from orchestrator.providers.post import HttpLimits, Post
from orchestrator.providers.sse import Event, SseParser

Take = Callable[[Event], Awaitable[bool]]
"""Hears one event, and may wait: that time counts for no deadline. True: enough, read no further."""
NextBytes = Callable[[], Awaitable[bytes | None]]
"""The next bytes as they came, None at the end."""

_PIECE_BYTES = 64 * 1024
_SHOWN_BYTES = 200


class CallFailed(Exception):
    """Carries a failure out of the layers of one call. Never leaves this package."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.failure = ModelFailure(kind=kind, message=message)


@attrs.define
class Answer:
    """The head of an answer and what reads on. `headers` have lower-case names."""

    post: Post
    limits: HttpLimits
    status: int
    headers: Mapping[str, str]
    next_bytes: NextBytes
    now_s: Callable[[], float]
    _seen_bytes: int = attrs.field(default=0, init=False)
    _inflater: "zlib._Decompress | None" = attrs.field(default=None, init=False)

    async def read(self, take: Take) -> ModelFailure | None:
        """Hand each event to `take`. None: the stream ended after events, or `take` had enough. Raises CallFailed."""
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding in {"gzip", "x-gzip", "deflate"}:
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif encoding not in {"", "identity"}:
            raise CallFailed("server", f"expected an answer that is plain or gzip, found {encoding!r}")
        if not 200 <= self.status < 300 or self._content_type in {"application/json", "text/html"}:
            return self._refusal(await self._beginning())
        return await self._events(take)

    @property
    def _content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def _events(self, take: Take) -> ModelFailure | None:
        parser = SseParser(self.limits.line_bytes, self.limits.event_bytes)
        beginning, has_event = b"", False
        while (raw := await self.next_bytes()) is not None:
            for piece in self._pieces(raw):
                beginning = beginning or piece[:_SHOWN_BYTES]
                for event in parser.feed(piece):
                    has_event = True
                    if await take(event):
                        return None
                if parser.exceeded is not None:
                    raise CallFailed("server", parser.exceeded)
        for event in parser.close():
            has_event = True
            await take(event)
        if has_event:
            return None
        found = f"it began with {self._shown(beginning)}" if beginning else "it was empty"
        raise CallFailed("incomplete", f"the stream ended without an event; {found}")

    def _pieces(self, raw: bytes) -> Iterator[bytes]:
        """The bytes that `raw` stands for, in small pieces: a megabyte of zeros fits into a kilobyte."""
        if self._inflater is None:
            self._count(raw)
            yield raw
            return
        try:
            while piece := self._inflater.decompress(raw, _PIECE_BYTES):
                self._count(piece)
                yield piece
                raw = self._inflater.unconsumed_tail
        except zlib.error as error:
            raise CallFailed("server", f"the answer could not be decompressed: {error}") from error

    def _count(self, piece: bytes) -> None:
        self._seen_bytes += len(piece)
        if self._seen_bytes > self.limits.response_bytes:
            raise CallFailed("server", f"the answer is larger than {self.limits.response_bytes} bytes")

    async def _beginning(self) -> bytes:
        body = bytearray()
        while len(body) < self.limits.error_bytes and (raw := await self.next_bytes()) is not None:
            for piece in self._pieces(raw):
                body += piece
                if len(body) >= self.limits.error_bytes:
                    break
        return bytes(body[: self.limits.error_bytes])

    def _refusal(self, body: bytes) -> ModelFailure:
        # Before anything is cut off: half a key would not be found.
        body = self.post.redacted(body.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if 300 <= self.status < 400:
            target = Post(self.headers.get("location", ""), {}, b"").place
            raise CallFailed("invalid_request", f"expected no redirect, found HTTP {self.status} to {target}")
        is_json = self._content_type == "application/json"
        if not 200 <= self.status < 300 or (is_json and b'"error"' in body):
            return classify(self.status, body, self.headers, now_s=self.now_s())
        raise CallFailed(
            "server" if is_json else "invalid_request",
            f"expected a stream of events from {self.post.place}, found {self._content_type}: {self._shown(body)}",
        )

    def _shown(self, data: bytes) -> str:
        return repr(self.post.redacted(data.decode(errors="replace"))[:_SHOWN_BYTES])
