"""Who is let in: a table of requests, each wrong in one thing."""

import pytest

from orchestrator.web.door import HEADERS, Door

DOOR = Door(4747)
PASS = f"sapwood-4747={DOOR.pass_}"
GOOD = {
    "host": "127.0.0.1:4747",
    "origin": "http://127.0.0.1:4747",
    "sec-fetch-site": "same-origin",
    "content-type": "application/json",
    "x-sapwood": "1",
    "cookie": f"theme=dark; {PASS}",
}


def test_our_own_page_is_let_in() -> None:
    assert DOOR.refusal("POST", "/api/do", GOOD) is None
    assert DOOR.refusal("GET", "/api/stream", GOOD) is None


@pytest.mark.parametrize("site", ["none", "cross-site"])
def test_a_person_may_type_the_address_or_follow_a_link_to_the_page(site: str) -> None:
    visit = {
        "host": "127.0.0.1:4747",
        "sec-fetch-site": site,
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }

    assert DOOR.refusal("GET", "/", visit) is None
    assert DOOR.refusal("GET", "/api/stream", visit) is not None
    assert (
        DOOR.refusal("GET", "/main.js", {**visit, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}) is not None
    )
    assert DOOR.refusal("GET", "/", {**visit, "sec-fetch-dest": "iframe"}) is not None


def test_the_token_is_brought_without_a_cookie() -> None:
    assert DOOR.refusal("POST", "/api/enter", {**GOOD, "cookie": ""}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "localhost:4747"),
        ("host", "127.0.0.1"),
        ("host", "127.0.0.1:4748"),
        ("host", "127.0.0.1:4747.evil.example"),
        ("host", "evil.example:4747"),
        ("host", ""),
        ("host", None),
        ("origin", "http://evil.example"),
        ("origin", "http://127.0.0.1:4748"),
        ("origin", "https://127.0.0.1:4747"),
        ("origin", "null"),
        ("origin", None),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("content-type", "text/plain"),
        ("content-type", "application/json; charset=utf-8"),
        ("content-type", None),
        ("x-sapwood", "0"),
        ("x-sapwood", None),
        ("cookie", ""),
        ("cookie", None),
        ("cookie", f"sapwood-4747={DOOR.token}"),
        ("cookie", f"sapwood-4748={DOOR.pass_}"),
        ("cookie", f"sapwood-4747={DOOR.pass_[:-1]}"),
        ("cookie", "sapwood-4747=é"),
    ],
)
def test_a_post_that_is_wrong_in_one_thing_is_refused(name: str, value: str | None) -> None:
    headers = {key: text for key, text in {**GOOD, name: value}.items() if text is not None}

    assert DOOR.refusal("POST", "/api/do", headers) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "same-site"), ("x-sapwood", "")],
)
def test_a_get_from_elsewhere_is_refused_with_a_good_cookie(name: str, value: str) -> None:
    assert DOOR.refusal("GET", "/api/stream", {**GOOD, name: value}) is not None


def test_the_page_itself_is_only_read() -> None:
    assert DOOR.refusal("POST", "/", GOOD) is not None


def test_secrets_have_256_bits_differ_and_are_not_shown() -> None:
    other = Door(4747)

    assert len({DOOR.token, DOOR.pass_, other.token, other.pass_}) == 4
    assert min(len(DOOR.token), len(DOOR.pass_)) >= 43
    assert DOOR.token not in repr(DOOR)
    assert DOOR.is_token(DOOR.token)
    assert not any(map(DOOR.is_token, ("", DOOR.pass_, DOOR.token[:-1], "é")))


def test_the_token_stands_in_the_fragment_and_nowhere_else() -> None:
    assert DOOR.address == f"http://127.0.0.1:4747/#{DOOR.token}"
    assert DOOR.cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")


def test_the_policy_is_the_one_that_was_agreed_on() -> None:
    assert HEADERS["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    assert (HEADERS["x-content-type-options"], HEADERS["referrer-policy"]) == ("nosniff", "no-referrer")
