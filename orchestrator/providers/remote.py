"""What all models behind HTTP have in common: where they are, the key, and what goes with each call."""

from collections.abc import Callable, Mapping

import attrs

from orchestrator.providers.http import Http
from orchestrator.providers.post import Post

Notice = Callable[[str, str], None]
"""Hears of a provider's oddity: the id of the session, and what was odd."""


def _unheard(session_id: str, text: str) -> None:
    pass


@attrs.define
class Remote:
    """The models of one provider, at `base_url`.

    `headers` are sent as they are and win over those that are made here. `service_tier` as the provider calls it.
    """

    http: Http = attrs.field(repr=False)
    base_url: str = attrs.field(repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    notice: Notice = attrs.field(default=_unheard, repr=False)
    service_tier: str | None = None

    def post(self, path: str, body: bytes, key_header: str, **made: str) -> Post:
        """The call of `path` below the base URL, whose query stays. `made`: headers, underscores standing for hyphens."""
        base, _, query = self.base_url.partition("?")
        url = f"{base.rstrip('/')}{path}{f'?{query}' if query else ''}"
        headers = {name.replace("_", "-"): value for name, value in made.items()}
        if self.api_key:
            headers[key_header] = f"Bearer {self.api_key}" if key_header == "authorization" else self.api_key
        return Post(url, headers | {name.lower(): value for name, value in self.headers.items()}, body)
