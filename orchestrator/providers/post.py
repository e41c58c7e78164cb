"""One request to a provider, its bounds, and what must never be told of it."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
import msgspec

from actors.protocol.model import ModelFailure
from orchestrator.providers.sse import EVENT_BYTES, LINE_BYTES
from orchestrator.providers.text import whole_characters

# A header of any other name may be how somebody's proxy knows them.
_OPEN_HEADERS = frozenset({"accept", "content-type", "user-agent", "http-referer", "referer", "x-title"}) | frozenset(
    {"anthropic-version", "anthropic-beta", "openai-beta"}
)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
# Shorter ones ("none", "x") guard nothing, and taking them out would mangle the text.
_SECRET_CHARS = 8


class HttpLimits(msgspec.Struct, frozen=True):
    """Bounds of one call. Bytes are counted after decompression; only `total_s` also ends a stream of keep-alives."""

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 120.0
    total_s: float = 1800.0
    response_bytes: int = 64 * 1024 * 1024
    line_bytes: int = LINE_BYTES
    event_bytes: int = EVENT_BYTES
    error_bytes: int = 64 * 1024


@attrs.frozen
class Post:
    """A POST of JSON. Its URL, headers and body stay out of `repr`: all of them can hold a key."""

    url: str = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)

    @property
    def place(self) -> str:
        """The URL without user, password, query and fragment."""
        try:
            parts = urlsplit(self.url)
            port = "" if parts.port is None else f":{parts.port}"
        except ValueError:
            return "the provider"
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"

    @property
    def problem(self) -> str | None:
        """Why this cannot be sent, in words that do not hold the value."""
        try:
            parts = urlsplit(self.url)
            is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        if not is_url:
            return "expected a base URL that begins with http:// or https:// and names a host"
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                return f"expected printable ASCII without line breaks in the header {name!r}, found something else"
        return None

    def redacted(self, text: str) -> str:
        """`text` without the keys of this request: some servers repeat the key that they refuse."""
        for secret in sorted(set(self._secrets()), key=len, reverse=True):
            if len(secret) >= _SECRET_CHARS:
                text = text.replace(secret, "[redacted]")
        return text

    def without_secrets(self, failure: ModelFailure) -> ModelFailure:
        """`failure` in words that can be shown and written down."""
        raw = failure.raw if failure.raw is None else whole_characters(self.redacted(failure.raw))
        return msgspec.structs.replace(failure, message=whole_characters(self.redacted(failure.message)), raw=raw)

    def _secrets(self) -> Iterator[str]:
        for name, value in self.headers.items():
            if name.lower() not in _OPEN_HEADERS:
                yield value
                yield value.rpartition(" ")[2]
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        for word in (user, password):
            yield word
            yield unquote(word)
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()  # what is sent in their place
        for _, value in parse_qsl(parts.query):
            yield value
        for pair in parts.query.split("&"):
            yield pair.partition("=")[2]
