"""Keys stay out of everything that is shown or kept, whatever a server says back and whatever a tool looks at."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from tests.orchestrator.http.chat_server import Answer, Asked, Raw, Refused, Said, chat_server
from tests.orchestrator.http.command import Desk, each
from tests.raw_server import events

# Every one of them is a place where people put keys.
ENV_KEY = "sk-canary-of-the-environment"
COMMAND_KEY = "sk-canary-of-the-command"
OPTION_KEY = "sk-canary-of-the-option"
HEADER_KEY = "canary/of+the=header"
PLAIN_HEADER = "canary-of-a-header-without-a-telling-name"
USER, PASSWORD = "canary-user", "canary pass/word"
QUERY_KEY = "canary-of-the-query"
OTHER_KEY = "sk-canary-of-another-provider"
CANARIES = (
    "canary",
    base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(),
    base64.b64encode(ENV_KEY.encode()).decode(),
)
ENVIRON = {
    "OPENAI_API_KEY": ENV_KEY,
    "LOCAL_API_KEY": ENV_KEY,
    "OTHER_API_KEY": OTHER_KEY,
    "AWS_SECRET_ACCESS_KEY": "canary-of-nothing-to-do-with-us",
    "HTTPS_PROXY": "http://canary-user:canary-pass@127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}
HEADERS = f'headers = {{ X-Api-Key = "{HEADER_KEY}", X-Tenant = "{PLAIN_HEADER}" }}'
SPAWN = ("spawn_agent", {"name": "a", "prompt": "look", "wait": True})
LOOKS = ("bash", {"command": "env; cat /proc/self/environ | tr '\\0' '\\n'; python3 -c 'import os; print(os.environ)'"})


def told_by(asked: Asked) -> str:
    """Everything that the client sent but its body: what an unkind server, or a proxy's error page, repeats."""
    fields = "\n".join(f"{name}: {value}" for name, value in asked.request.headers.items())
    authorization = asked.request.headers.get("authorization", "")
    return f"{asked.request.line}\n{fields}\nwrong key: {authorization.removeprefix('Bearer ')}"


def error(asked: Asked) -> dict[str, Any]:
    return {"error": {"message": told_by(asked), "type": told_by(asked), "code": "invalid_api_key"}}


UNKIND: dict[str, Callable[[Asked], Answer]] = {
    "400": lambda asked: Refused(400, {"error": {"message": told_by(asked)}}),
    "401": lambda asked: Refused(401, error(asked)),
    "429": lambda asked: Refused(429, {"message": told_by(asked), "detail": [told_by(asked)]}, {"retry-after": "0"}),
    "500, a page": lambda asked: Refused(500, f"<pre>{told_by(asked)}</pre>", {"content-type": "text/html"}),
    "an unknown JSON": lambda asked: Refused(418, {"unknown": {"shape": [told_by(asked)]}}),
    "a page instead of a stream": lambda asked: Refused(200, f"<p>{told_by(asked)}", {"content-type": "text/html"}),
    "JSON instead of a stream": lambda asked: Refused(200, {"message": told_by(asked)}),
    "a redirect": lambda asked: Refused(307, "", {"location": f"http://x.invalid/?k={QUERY_KEY}"}),
    "an error in the stream": lambda asked: Raw(events(error(asked))),
    "no JSON in the stream": lambda asked: Raw(events(told_by(asked).replace("\n", " "))),
    "no events": lambda asked: Raw(told_by(asked).encode()),
    "a finish reason": lambda asked: Raw(
        events({"choices": [{"delta": {"content": "x"}, "finish_reason": told_by(asked)}]})
    ),
    "a usage": lambda asked: Raw(
        events(
            {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": told_by(asked)}},
        )
    ),
    "a request id": lambda asked: Refused(
        400,
        {"error": {"message": "no"}},
        {"x-request-id": asked.request.headers.get("authorization", "")[7:] or "none"},
    ),
}
# How the key gets there: more of the provider's table, what is put before the host, options of the command.
WAYS: dict[str, tuple[str, str, list[str]]] = {
    "environment": ("", "", []),
    "command": (f'api_key_command = ["printf", "{COMMAND_KEY}"]', "", []),
    "option": ("", "", ["--api-key", OPTION_KEY]),
    "headers": (HEADERS, "", []),
    "URL": ("", "canary-user:canary%20pass%2Fword@", []),
}


def config(desk: Desk, port: int, way: str) -> list[str]:
    """Configure the way; the options that belong to it."""
    table, user, options = WAYS[way]
    query = f"?key={QUERY_KEY}" if way == "URL" else ""
    desk.use(f"http://{user}127.0.0.1:{port}/v1{query}", provider=table, retry="base_s = 0.001\nmax_retries = 1")
    if way == "command":
        text = (desk.home / "config.toml").read_text().replace('api_key_env = "LOCAL_API_KEY"', "")
        desk.configure(text)
    return options


def leaks(desk: Desk, *said: bytes) -> dict[str, list[str]]:
    """Which canaries stand where: in what was said, and in every file that is left, but the configuration itself."""
    places = {f"output {number}": data for number, data in enumerate(said)}
    for folder in (desk.home, desk.folder):
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.toml"]
        places |= {str(path.relative_to(folder)): path.read_bytes() for path in files}
    found = {place: [word for word in CANARIES if word.encode() in data] for place, data in places.items()}
    return {place: words for place, words in found.items() if words}


async def runs_of(desk: Desk, way: str, play: Callable[[Asked], Answer]) -> tuple[bytes, ...]:
    """Everything that the command says in json mode, and for the most usual way also in text mode."""
    async with chat_server(play) as server:
        arguments = config(desk, server.port, way)
        as_json = await desk.run("--mode", "json", *arguments, "go", environ=ENVIRON)
        as_text = await desk.run(*arguments, "-c", "go on", environ=ENVIRON) if way == "environment" else as_json
        assert as_json.faults == []
        assert server.asked
        assert any(word in told_by(server.asked[0]) for word in CANARIES), "the canary did not reach the server"
    return as_json.stdout, as_json.stderr.encode(), as_text.stdout, as_text.stderr.encode()


async def test_no_key_is_shown_or_kept_when_all_goes_well_and_a_child_looks_at_its_environment(desk: Desk) -> None:
    def play(asked: Asked) -> Answer:
        return Said(calls=[LOOKS, *([SPAWN] if asked.agent == "root" else [])]) if asked.number == 1 else Said("done")

    async def check(desk: Desk, way: str) -> dict[str, list[str]]:
        said = await runs_of(desk, way, play)
        assert b"SAPWOOD" in said[0] or b"PATH=" in said[0], "the tool did not run"
        return leaks(desk, *said)

    assert await each(desk, {way: way for way in WAYS}, check) == {way: {} for way in WAYS}


async def test_no_key_is_shown_or_kept_whatever_a_server_repeats(desk: Desk) -> None:
    cases = {
        f"{way}, {name}": (way, play)
        for way in ("environment", "headers", "URL")
        for name, play in UNKIND.items()
        if way == "environment" or name in {"401", "no JSON in the stream", "no events", "a finish reason"}
    }

    async def check(desk: Desk, case: tuple[str, Callable[[Asked], Answer]]) -> dict[str, list[str]]:
        return leaks(desk, *await runs_of(desk, *case))

    assert await each(desk, cases, check) == {name: {} for name in cases}


async def test_no_key_is_shown_when_a_run_does_not_begin(desk: Desk) -> None:
    cases: dict[str, tuple[Mapping[str, str], str, list[str]]] = {
        "the command fails": ({}, f'api_key_command = ["sh", "-c", "echo {COMMAND_KEY}; exit 3"]', []),
        "the command is not there": ({}, f'api_key_command = ["/nowhere/{COMMAND_KEY}"]', []),
        "the command says nothing": ({}, 'api_key_command = ["true"]', []),
        "a header that cannot be sent": ({}, 'headers = { X-Api-Key = "canary\\nof the header" }', []),
        "a key that cannot be sent": ({"LOCAL_API_KEY": "canary\nof the environment"}, "", []),
        "a URL that is none": ({"OPENAI_BASE_URL": f"http://canary:{PASSWORD}@[half/v1"}, "", ["-m", "openai/x"]),
        "a port that is none": ({"OPENAI_BASE_URL": "http://canary:canary@h:port/v1"}, "", ["-m", "openai/x"]),
        "nobody is there": ({"OPENAI_BASE_URL": "http://canary:canary@127.0.0.1:9/v1"}, "", ["-m", "openai/x"]),
    }

    async def check(desk: Desk, case: tuple[Mapping[str, str], str, list[str]]) -> tuple[bool, dict[str, list[str]]]:
        environ, table, arguments = case
        desk.use("http://127.0.0.1:9/v1", provider=table)
        if "command" in table:
            text = (desk.home / "config.toml").read_text().replace('api_key_env = "LOCAL_API_KEY"', "")
            desk.configure(text)
        done = await desk.run("--mode", "json", *arguments, "go", environ={"OPENAI_API_KEY": ENV_KEY, **environ})
        assert done.stderr
        assert "Traceback" not in done.stderr
        assert ("exit status 3" in done.stderr) is ("exit 3" in table)
        return done.status in {1, 2}, leaks(desk, done.stdout, done.stderr.encode())

    assert await each(desk, cases, check) == dict.fromkeys(cases, (True, {}))
