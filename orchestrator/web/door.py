"""Who may come in: exact Host and Origin, a cookie that only the printed address gives, nothing that a foreign page can send."""

import hmac
import secrets
from collections.abc import Mapping

import attrs

HEADER = "x-sapwood"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_TOKEN_BYTES = 32


def _secret() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


@attrs.frozen
class Door:
    """`token` is in the printed address and buys the cookie `pass_`. Both have 256 bits and live as long as the process."""

    port: int
    token: str = attrs.field(factory=_secret, repr=False)
    pass_: str = attrs.field(factory=_secret, repr=False)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """What a person opens. A fragment never leaves the browser."""
        return f"{self.origin}/#{self.token}"

    @property
    def cookie_name(self) -> str:
        """Cookies know no ports: two dashboards would take each other's."""
        return f"sapwood-{self.port}"

    @property
    def cookie(self) -> str:
        return f"{self.cookie_name}={self.pass_}; Path=/; HttpOnly; SameSite=Strict"

    def is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> str | None:
        """Why this request is not answered; None if it is. `headers` have names in lower case.

        The page and its files hold no secret and need no cookie: the page has to be there to bring the token.
        """
        if headers.get("host") != f"127.0.0.1:{self.port}":
            return "the Host is not ours"
        origin = headers.get("origin")
        if origin not in ({self.origin} if method == "POST" else {None, self.origin}):
            return "the Origin is not ours"
        is_page = not path.startswith("/api/")
        if headers.get("sec-fetch-site") not in {None, "same-origin"} and not (is_page and _is_visit(method, headers)):
            return "the request comes from another site"
        if method == "POST" and headers.get("content-type") != "application/json":
            return "expected the content type application/json"
        if is_page:
            return None if method in {"GET", "HEAD"} else "only GET"
        if headers.get(HEADER) != "1":
            return f"the header {HEADER} is missing"
        if path != "/api/enter" and not self._has_pass(headers.get("cookie", "")):
            return "no cookie of ours: open the address that sapwood dashboard printed"
        return None

    def _has_pass(self, cookies: str) -> bool:
        given = dict(part.strip().partition("=")[::2] for part in cookies.split(";"))
        return hmac.compare_digest(given.get(self.cookie_name, "").encode(), self.pass_.encode())


def _is_visit(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a person goes to the page: types its address, or follows a link to it. It cannot be framed."""
    return method == "GET" and (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
