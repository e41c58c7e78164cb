import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.providers.failures import NO_MESSAGE, TEXT_CHARS, classify, classify_error, retry_after_s


def nested(message: str | None = None, **members: Any) -> dict[str, Any]:
    return {"error": ({"message": message} if message is not None else {}) | members}


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
OPENAI_OVERFLOW = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
)

KINDS: list[tuple[int | None, Any, str]] = [
    (529, OVERLOADED, "overloaded"),
    (200, OVERLOADED, "overloaded"),
    (None, OVERLOADED, "overloaded"),
    (529, "", "overloaded"),
    (503, nested("The model is overloaded. Please try again later.", status="UNAVAILABLE"), "overloaded"),
    (503, "upstream connect error", "server"),
    (429, nested("The engine is currently overloaded", type="engine_overloaded_error"), "overloaded"),
    (429, nested("Rate limit reached for requests", type="requests", code="rate_limit_exceeded"), "rate_limited"),
    (429, "", "rate_limited"),
    (429, "slow down, please", "rate_limited"),
    (429, nested("Limit 10000 tokens, requested 13000: reduce the length of the messages"), "rate_limited"),
    (
        429,
        nested("You exceeded your current quota. Please retry in 36.6s.", status="RESOURCE_EXHAUSTED"),
        "rate_limited",
    ),
    (429, nested("Quota exceeded for generate_requests_per_minute", status="RESOURCE_EXHAUSTED"), "rate_limited"),
    (200, nested("Provider returned error", code=429), "rate_limited"),
    (None, {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow"}}, "rate_limited"),
    (None, nested("Too large: reduce the length of the messages", code="rate_limit_exceeded"), "rate_limited"),
    (429, nested("You exceeded your current quota", type="insufficient_quota", code="insufficient_quota"), "quota"),
    (429, nested("x", type="usage_limit_reached", resets_in_seconds=3600), "quota"),
    (429, "You have reached your monthly usage limit", "quota"),
    (429, nested("Rate limited: your billing cycle has ended", type="rate_limit_error"), "quota"),
    (400, nested("Your credit balance is too low to access the API", type="invalid_request_error"), "quota"),
    (402, {"error": {"message": "Insufficient Balance"}}, "quota"),
    (402, "", "quota"),
    (401, nested("bad key", type="authentication_error", code="authentication_error"), "auth"),
    (401, nested("Incorrect API key", type="invalid_request_error", code="invalid_api_key"), "auth"),
    (403, {"detail": "Not enough rights"}, "auth"),
    (200, {"type": "error", "error": {"type": "permission_error", "message": "No"}}, "auth"),
    (400, nested(OPENAI_OVERFLOW, type="invalid_request_error", code="context_length_exceeded"), "overflow"),
    (400, nested(OPENAI_OVERFLOW), "overflow"),
    (400, {"object": "error", "message": OPENAI_OVERFLOW, "type": "BadRequestError", "code": 400}, "overflow"),
    (400, nested("prompt is too long: 213462 tokens > 200000 maximum", type="invalid_request_error"), "overflow"),
    (
        400,
        nested("input length and `max_tokens` exceed context limit: 1 + 2 > 2", type="invalid_request_error"),
        "overflow",
    ),
    (
        400,
        nested("The input token count (1196265) exceeds the maximum number of tokens", status="INVALID_ARGUMENT"),
        "overflow",
    ),
    (400, nested("the request exceeds the available context size, try increasing it", code=400), "overflow"),
    (400, "Your request exceeded model token limit: 131072", "overflow"),
    (413, "", "overflow"),
    (None, nested("Your input exceeds the context window of this model", code="context_length_exceeded"), "overflow"),
    (400, nested("The response was filtered due to our content management policy", code="content_filter"), "refusal"),
    (400, nested("flagged as potentially violating our usage policy", code="invalid_prompt"), "refusal"),
    (400, nested("Unknown parameter: 'x'", type="invalid_request_error"), "invalid_request"),
    (404, nested("The model does not exist", code="model_not_found"), "invalid_request"),
    (422, {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]}, "invalid_request"),
    (301, "", "invalid_request"),
    (
        None,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "messages: bad"}},
        "invalid_request",
    ),
    (200, nested("bad", code=400), "invalid_request"),
    (500, nested("boom"), "server"),
    (500, nested("The server had an error", type="server_error"), "server"),
    (502, "<html>bad gateway</html>", "server"),
    (None, nested("boom", type="strange"), "server"),
    (None, nested("Internal server error", type="api_error"), "server"),
    (408, "", "timeout"),
    (504, "", "timeout"),
]


@pytest.mark.parametrize(("status", "body", "kind"), KINDS)
def test_a_failure_is_classified_once_from_its_codes_its_text_and_its_status(
    status: int | None, body: Any, kind: str
) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()

    assert classify(status, raw, {}).kind == kind
    assert classify(status, b" \n" + raw, {"Content-Type": "text/plain"}).kind == kind


@pytest.mark.parametrize(
    ("body", "said", "raw"),
    [
        (nested("Bad thing", code="c1", type="t1"), ["Bad thing", "c1", "t1"], "c1"),
        ({"message": "Bad thing", "code": "c1"}, ["Bad thing", "c1"], "c1"),
        ({"code": 1302, "msg": "Bad thing"}, ["Bad thing", "1302"], "1302"),
        ({"error": "Bad thing"}, ["Bad thing"], None),
        ({"error": "Unauthorized", "message": "Bad thing"}, ["Bad thing", "Unauthorized"], "Unauthorized"),
        ({"error": {"error": {"message": "Bad thing", "code": "deep"}}}, ["Bad thing", "deep"], "deep"),
        ([{"error": {"message": "Bad thing", "status": "GONE"}}], ["Bad thing", "GONE"], "GONE"),
        ({"detail": [{"msg": "Bad thing", "type": "missing"}]}, ["Bad thing", "missing"], "missing"),
        ({"message": {"detail": "Bad thing"}}, ["Bad thing"], None),
        (
            {"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "M"}}},
            ["M", "c"],
            "c",
        ),
        (
            nested("Provider returned error", metadata={"raw": '{"error":"why"}'}),
            ["Provider returned error", "why"],
            None,
        ),
        ({"unheard": {"of": "Bad thing"}}, ["Bad thing"], None),
    ],
)
def test_texts_and_codes_are_kept_as_they_came(body: Any, said: list[str], raw: str | None) -> None:
    failure = classify(500, json.dumps(body).encode(), {})

    assert all(word in failure.message for word in [*said, "HTTP 500"])
    assert "failed" not in failure.message
    assert failure.raw == raw


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"{}",
        b"[]",
        b"null",
        b'""',
        b'{"error":{}}',
        b'{"error":null}',
        b'{"error":{"message":""}}',
        b'{"type":"error","error":{}}',
    ],
)
def test_an_error_without_words_says_that_the_provider_gave_none(body: bytes) -> None:
    assert classify(500, body, {}).message == f"{NO_MESSAGE} (HTTP 500)"


def test_an_error_with_a_code_alone_shows_it() -> None:
    assert classify(400, b'{"error":{"code":"c1","message":null}}', {}).message == f"{NO_MESSAGE} (c1, HTTP 400)"


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        ({"request_id": "req_01A"} | OVERLOADED, {}, "Overloaded (overloaded_error, HTTP 529, request req_01A)"),
        (OVERLOADED, {"Request-Id": "req_01A"}, "Overloaded (overloaded_error, HTTP 529, request req_01A)"),
        (nested("No"), {"x-request-id": "req_0b"}, "No (HTTP 529, request req_0b)"),
        (nested("No. Mention req_0b."), {"x-request-id": "req_0b"}, "No. Mention req_0b. (HTTP 529)"),
        ({"request_id": "a"} | nested("No"), {"x-request-id": "b"}, "No (HTTP 529, request a)"),
        ({"request_id": {"a": 1}} | nested("No"), {"x-request-id": ""}, "No (HTTP 529)"),
        ({"request_id": "x" * 300} | nested("No"), {}, "No (HTTP 529)"),
    ],
)
def test_what_the_providers_support_asks_for_is_kept(body: Any, headers: dict[str, str], message: str) -> None:
    assert classify(529, json.dumps(body).encode(), headers).message == message


@pytest.mark.parametrize("code", ["invalid_image_format", "image_too_large", "unsupported_image_media_type"])
def test_an_error_of_the_request_inside_of_a_stream_is_not_tried_again(code: str) -> None:
    assert classify_error({"error": {"code": code, "message": "No"}}).kind == "invalid_request"


def test_a_long_text_is_bounded_and_says_so() -> None:
    message = classify(500, b"x" * 3 * TEXT_CHARS, {}).message

    assert len(message) < TEXT_CHARS + 100
    assert f"{3 * TEXT_CHARS} characters" in message


NOW_S = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after": " 20 "}, 20.0),
        ({"RETRY-AFTER": "1.5"}, 1.5),
        ({"retry-after": "99999999999"}, 99999999999.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sunday, 06-Nov-94 08:50:07 GMT"}, 30.0),
        ({"retry-after": "Sun Nov  6 08:50:07 1994"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 10:50:07 +0200"}, 30.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 06 Nov 2094 08:49:37 GMT"}, 3_155_760_000.0),
        *(
            ({"retry-after": value}, None)
            for value in (
                "", "-5", "+5", "inf", "-inf", "nan", "NaN", "1e3", "0x10", "1_000", "5 s", "5,0", "٣", "9" * 400,
                "soon", "Sun", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 99999 08:49:37 GMT", "1 2 3 4:5",
                "1994-11-06T08:49:37Z",
            )
        ),
    ],
)  # fmt: skip
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW_S) == seconds
    assert classify(429, b"", headers, now_s=NOW_S).retry_after_s == seconds


@given(status=st.none() | st.integers(100, 599), body=st.binary(max_size=60), value=st.text(max_size=30))
def test_no_answer_is_too_strange(status: int | None, body: bytes, value: str) -> None:
    failure = classify(status, body, {"retry-after": value}, now_s=NOW_S)

    assert failure.message
    assert failure.retry_after_s is None or 0 <= failure.retry_after_s < float("inf")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "status", "x"]), inner, max_size=4
        )
    ),
)


@given(value=JSON)
def test_no_error_object_is_too_strange(value: Any) -> None:
    assert classify_error(value).message
    assert classify(400, msgspec.json.encode(value), {}).message


def test_half_a_character_is_no_reason_to_fail_in_telling_of_a_failure() -> None:
    assert (
        classify_error({"error": {"type": None, "odd": "a\ud83c"}}).message == '{"error": {"type": null, "odd": "a?"}}'
    )


def test_nesting_without_end_is_text_like_any_other() -> None:
    assert classify(400, b"[" * 100_000, {}).kind == "invalid_request"
