"""What a provider's error means: one classification of statuses, bodies and error objects for all wire formats."""

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from actors.protocol.model import FailureKind, ModelFailure
from orchestrator.providers.text import encoded_json

TEXT_CHARS = 8_000
NO_MESSAGE = "the provider gave no message"

# --- the tables -------------------------------------------------------------------------------------------------------

# Codes and types that say exactly what happened, in any case of letters.
_WORDS: tuple[tuple[FailureKind, str], ...] = (
    (
        "quota",
        "insufficient_quota usage_limit_reached usage_limit_exceeded usage_not_included billing_error "
        "billing_hard_limit_reached billing_not_active insufficient_balance insufficient_credits "
        "exceeded_current_quota_error credits_exhausted",
    ),
    ("overflow", "context_length_exceeded exceed_context_size_error context_window_exceeded"),
    (
        "overloaded",
        "overloaded_error overloaded engine_overloaded engine_overloaded_error server_is_overloaded model_overloaded "
        "slow_down unavailable serviceunavailable",
    ),
    (
        "rate_limited",
        "rate_limit_exceeded rate_limit_error rate_limit_reached_error rate_limited too_many_requests "
        "resource_exhausted throttlingexception",
    ),
    (
        "auth",
        "authentication_error invalid_authentication_error invalid_api_key permission_error permission_denied "
        "unauthenticated unauthorized",
    ),
    (
        "refusal",
        "content_filter content_policy_violation responsibleaipolicyviolation invalid_prompt safety sensitive refusal "
        "image_content_policy_violation bio_policy misalignment_policy_violation",
    ),
    ("timeout", "timeout_error timeout request_timeout deadline_exceeded"),
    ("network", "network_error"),
    ("server", "api_error server_error internal_server_error internal_error internal"),
)
_CODES: dict[str, FailureKind] = {code: kind for kind, codes in _WORDS for code in codes.split()}
# Codes that only say "your request": the text may know better.
_VAGUE_CODES = frozenset({"invalid_request_error", "invalid_request", "invalid_argument", "bad_request"}) | frozenset(
    {"not_found_error", "not_found", "model_not_found", "request_too_large", "unsupported_parameter", "invalid_value"}
)
_VAGUE_BEGINNINGS = ("invalid_", "unsupported_", "image_", "empty_image_", "failed_to_download_image")
_STATUSES: dict[int, FailureKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    413: "overflow",
    429: "rate_limited",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
# These two are said loosely: a text, or for `server` the status, may know better.
_LOOSE_KINDS = frozenset({"rate_limited", "server"})
_REQUEST_ID_HEADERS = frozenset({"request-id", "x-request-id"})
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,200}")
# A limit that lifts by itself in seconds, though some providers call it a quota.
_SOON = re.compile(r"(?:retry|try again) in [0-9.]+ ?m?s\b|per[ _-]?(?:minute|second)", re.IGNORECASE)
_TEXTS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "quota",
        re.compile(
            r"insufficient[ _](?:quota|balance|credits?|funds)|exceeded your current quota|usage[ _]limit"
            r"|credit balance|billing[ _](?:cycle|hard[ _]limit)|out of credits|requires more credits"
            r"|(?:monthly|weekly|daily|spend(?:ing)?) limit|quota (?:has been |was )?(?:exceeded|exhausted)",
            re.IGNORECASE,
        ),
    ),
    (
        "overflow",
        re.compile(
            r"context[ _](?:length|window|size|limit)|maximum context|prompt (?:is )?too long|input is too long"
            r"|maximum prompt length|(?:input|prompt) token count.*exceeds|reduce the length of the (?:messages|prompt)"
            r"|exceeded model token limit|exceeds? max(?:imum)? length|longer than the maximum model length"
            r"|too many tokens: |tokens \+ .?max_(?:new_)?tokens",
            re.IGNORECASE,
        ),
    ),
    (
        "refusal",
        re.compile(
            r"content (?:management |usage )?policy|content[ _]filter|safety system|flagged (?:for|as|by)"
            r"|usage polic(?:y|ies)",
            re.IGNORECASE,
        ),
    ),
    ("overloaded", re.compile(r"overloaded|(?:at|over) capacity", re.IGNORECASE)),
)
# The statuses that such a text may overrule: a 401 is no quota, and a 429 about tokens per minute no overflow.
_TEXT_STATUSES: dict[FailureKind, frozenset[int]] = {
    "quota": frozenset({400, 402, 403, 429}),
    "overflow": frozenset({400, 413, 422, 500}),
    "refusal": frozenset({400, 403, 422}),
    "overloaded": frozenset({429, 500, 502, 503}),
}

# --- classification ---------------------------------------------------------------------------------------------------


def classify(
    status: int | None, body: bytes, headers: Mapping[str, str], *, now_s: float | None = None
) -> ModelFailure:
    """The failure that an answer with this status means. A date in Retry-After counts from `now_s`, Unix time.

    Texts and codes of the provider are kept as they came, flat or nested, up to a bound.
    """
    wait_s = retry_after_s(headers, time.time() if now_s is None else now_s)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = body.decode(errors="replace").strip()
    request_id = next((headers[name] for name in headers if name.lower() in _REQUEST_ID_HEADERS), None)
    return classify_error(value, status=status, wait_s=wait_s, request_id=request_id)


def classify_error(
    value: Any, *, status: int | None = None, wait_s: float | None = None, request_id: str | None = None
) -> ModelFailure:
    """The failure that an error object means, also one inside of a stream: a status of success says nothing then.

    `request_id`: what the provider's support asks for, where the object does not hold it itself.
    """
    texts, codes = _told(value)
    if status is None or status < 300:
        status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), None)
    words = [code for code in codes if code != str(status)]
    text = ": ".join(texts)
    id = value.get("request_id", request_id) if isinstance(value, dict) else request_id
    has_id = isinstance(id, str) and _REQUEST_ID.fullmatch(id) and id not in text
    noted = [
        *words,
        *([f"HTTP {status}"] if status is not None else []),
        *([f"retry after {wait_s:.0f} s"] if wait_s is not None and wait_s >= 1 else []),
        *([f"request {id}"] if has_id else []),
    ]
    notes = ", ".join(noted)
    if not text and not words and not _is_empty(value):
        text = encoded_json(value).decode()
    said = bounded(text) or NO_MESSAGE
    return ModelFailure(
        kind=_kind(status, text, words),
        message=f"{said} ({notes})" if notes else said,
        retry_after_s=wait_s,
        raw=words[0] if words else None,
    )


def bounded(text: str) -> str:
    """`text`, cut where a provider sends a whole page."""
    return text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}… ({len(text)} characters)"


def _kind(status: int | None, text: str, codes: list[str]) -> FailureKind:
    words = [code.lower() for code in codes]
    exact = [_CODES[word] for word in words if word in _CODES]
    if "quota" in exact:
        return "quota"
    for kind in exact:
        if kind not in _LOOSE_KINDS:
            return kind
    if "rate_limited" in exact:
        return _kind_of_text(429, text) or "rate_limited"
    if found := _kind_of_text(status, text):
        return found
    if status in _STATUSES:
        return _STATUSES[status]
    if exact:
        return exact[0]
    is_vague = status is None and any(word in _VAGUE_CODES or word.startswith(_VAGUE_BEGINNINGS) for word in words)
    return "invalid_request" if is_vague or (status is not None and status < 500) else "server"


def _kind_of_text(status: int | None, text: str) -> FailureKind | None:
    for kind, pattern in _TEXTS:
        is_soon = kind == "quota" and _SOON.search(text)
        if (status is None or status in _TEXT_STATUSES[kind]) and not is_soon and pattern.search(text):
            return kind
    return None


# --- reading an error object ------------------------------------------------------------------------------------------

_TEXT_KEYS = ("message", "error_description", "detail", "msg", "error", "raw")
_CODE_KEYS = ("code", "type", "status", "error_code")
_INNER_KEYS = ("error", "errors", "detail", "message", "response", "metadata")
# What an envelope calls itself says nothing about the error in it.
_ENVELOPES = frozenset({"error", "failed", "response.failed", ""})


def _told(value: Any, depth: int = 0) -> tuple[list[str], list[str]]:
    """The texts of an error from outside in, and its codes from inside out. Each once."""
    if isinstance(value, str):
        return ([value] if value.strip() else []), []
    if isinstance(value, list):
        return next((told for member in value if any(told := _told(member, depth + 1))), ([], []))
    if not isinstance(value, dict) or depth > 6:
        return [], []
    texts: list[str] = []
    codes: list[str] = []
    for key in _INNER_KEYS:
        if isinstance(value.get(key), dict | list):
            more_texts, more_codes = _told(value[key], depth + 1)
            texts += more_texts
            codes += more_codes
    own = [text for key in _TEXT_KEYS if isinstance(text := value.get(key), str) and text.strip()]
    if len(own) > 1 and own[-1] == value.get("error"):
        codes.append(own.pop())  # {"error": "Unauthorized", "message": "…"}: the short word beside a text
    for key in _CODE_KEYS:
        code = value.get(key)
        if isinstance(code, str | int) and not isinstance(code, bool) and str(code).strip() not in _ENVELOPES:
            codes.append(str(code))
    return list(dict.fromkeys(own + texts)), list(dict.fromkeys(codes))


def _is_empty(value: Any) -> bool:
    """Whether there is no word in it, however it is wrapped."""
    if isinstance(value, dict):
        return all(_is_empty(member) for key, member in value.items() if key not in {"type", "object"})
    if isinstance(value, list):
        return all(map(_is_empty, value))
    return value is None or value is False or (isinstance(value, str) and not value.strip())


# --- when to try again ------------------------------------------------------------------------------------------------


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that the provider asks to wait, 0 for a date that has passed; None when it did not say so legibly.

    Source: RFC 9110, 10.2.3; `retry-after-ms` is OpenAI's and Azure's finer one.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = lowered.get(name, "")
        if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", value) and math.isfinite(number := float(value)):
            return number / unit
    try:
        date = parsedate_to_datetime(lowered.get("retry-after", ""))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if not re.match("[A-Za-z]{3}", lowered["retry-after"]):
        return None  # the parser of mail dates also takes "1 2 3 4:5"
    stamp = date.replace(tzinfo=date.tzinfo or UTC).timestamp()
    return max(0.0, stamp - now_s)
