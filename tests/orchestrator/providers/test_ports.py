"""Which wire format a provider of the configuration is called by, and with what."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.engine.config import Config, ModelConfig, ProviderConfig
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.models import Models
from orchestrator.providers.ports import PORTS
from tests.orchestrator.http.command import Desk
from tests.orchestrator.providers.apis import APIS, CANARY, Api
from tests.orchestrator.providers.said import Said
from tests.raw_server import Answer, head, raw_server

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def models(tmp_path: Path, environ: dict[str, str] | None = None, **providers: ProviderConfig) -> Models:
    return Models(Config(providers=providers), environ or {}, tmp_path)


@each_api
async def test_a_provider_is_called_by_its_api(api: Api, tmp_path: Path) -> None:
    mine = ProviderConfig(
        api=api.name,
        base_url="http://127.0.0.1:1",
        headers={"X-Extra": "1"},
        service_tier="flex",
        models=(ModelConfig("m", 1_000, 99),),
    )
    model, info = models(tmp_path, mine=mine).get("mine/m")

    assert type(model) is PORTS[api.name] is api.port
    assert (info.api, info.context_window, info.max_output) == (api.name, 1_000, 99)
    assert (model.headers, model.service_tier) == ({"X-Extra": "1"}, "flex")


@pytest.mark.parametrize(
    ("name", "api", "base_url", "most_output"),
    [
        ("anthropic/claude-opus-4-8", "anthropic-messages", "https://api.anthropic.com", 64_000),
        ("openai/gpt-5.4", "openai-completions", "https://api.openai.com/v1", 0),
    ],
)
async def test_the_usual_providers_need_a_key_and_nothing_else(
    name: str, api: str, base_url: str, most_output: int, tmp_path: Path
) -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-ant", "OPENAI_API_KEY": "sk-oa"}
    model, info = models(tmp_path, environ).get(name)
    assert (info.api, getattr(model, "base_url", ""), info.max_output) == (api, base_url, most_output)

    with pytest.raises(WrongUsage, match="_API_KEY, --api-key"):
        models(tmp_path).get(name)


async def test_a_usual_provider_may_be_told_more_about_and_keeps_its_api(tmp_path: Path) -> None:
    priced = ProviderConfig(models=(ModelConfig("claude-opus-4-8", max_output=7),))
    _, info = models(tmp_path, {"ANTHROPIC_API_KEY": "k"}, anthropic=priced).get("anthropic/claude-opus-4-8")
    assert (info.api, info.max_output) == ("anthropic-messages", 7)

    other = ProviderConfig(api="openai-responses")
    _, info = models(tmp_path, {"OPENAI_API_KEY": "k"}, openai=other).get("openai/gpt-5.4")
    assert info.api == "openai-responses"


def test_an_api_that_is_not_known_is_refused_with_those_that_are(tmp_path: Path) -> None:
    mine = ProviderConfig(api="anthropic", base_url="http://127.0.0.1:1")

    with pytest.raises(WrongUsage, match="openai-completions, openai-responses, anthropic-messages, found 'anthropic'"):
        models(tmp_path, mine=mine).get("mine/m")


@pytest.mark.parametrize("tier", ["fast", "", 5])
def test_a_tier_that_is_not_known_is_refused(tier: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"service_tier": tier}, ProviderConfig)


# --- keys -------------------------------------------------------------------------------------------------------------


def unkind(api: Api) -> dict[str, Answer]:
    """Answers that repeat the key."""
    told = f"wrong key: {CANARY}, Bearer {CANARY}"
    error = msgspec.json.encode({"type": "error", "error": {"type": CANARY, "message": told}, "request_id": CANARY})
    return {
        "401": [head(401, request_id=CANARY, x_request_id=CANARY) + error],
        "500 as a page": [head(500, content_type="text/html") + told.encode()],
        "an error in the stream": [head() + api.failure(CANARY, told)],
        "an error behind text": [head() + api.speak(Said(text="a")).partition(b"\n\n")[0] + b"\n\n" + error],
        "no JSON in the stream": [head() + f"data: {told}\n\n".encode()],
        "JSON instead of a stream": [head(content_type="application/json") + error],
    }


@each_api
async def test_a_key_that_the_server_repeats_is_neither_shown_nor_kept(api: Api, desk: Desk) -> None:
    environ = {"LOCAL_API_KEY": CANARY}
    for name, answer in unkind(api).items():
        own = desk.apart(name)
        async with raw_server(answer) as server:
            own.use(f"{server.url}{api.base}", provider=f'api = "{api.name}"', retry="max_retries = 1\nbase_s = 0.001")
            done = await own.run("--mode", "json", "hi", environ=environ)
            text = await own.run("hi", environ=environ)

        assert (done.status, text.status, text.stdout) == (1, 1, b""), name
        assert CANARY in str(server.requests[0].headers), name
        for shown in (done.stdout, done.stderr.encode(), text.stderr.encode()):
            assert b"sk-canary" not in shown, name
        for file in own.home.rglob("*"):
            assert not file.is_file() or b"sk-canary" not in file.read_bytes(), (name, file)
