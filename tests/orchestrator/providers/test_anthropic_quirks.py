"""What each model of Anthropic's takes, and how it is asked to think."""

from typing import Any

import pytest

from actors.protocol.model import ModelInfo, ModelRequest
from orchestrator.providers.anthropic_body import beta_of, body_of
from orchestrator.providers.anthropic_quirks import MODELS, QUIRKS, UNKNOWN, ModelRow, Quirks, model_row, quirks_of
from store.messages import UserMessage
from tests.orchestrator.providers.said import Json


def body(model: str, level: str | None, max_output: int = 0) -> Json:
    info = ModelInfo("anthropic", model, "anthropic-messages", max_output=max_output)
    request = ModelRequest("s-1", "root", 0, 1, info, (UserMessage(content="hi"),), thinking=level)
    return body_of(request, Quirks())


DROP = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def effort(word: str, **more: Any) -> Json:
    return {"thinking": {"type": "adaptive", "display": "summarized"} | more, "output_config": {"effort": word}}


@pytest.mark.parametrize(
    ("model", "level", "expected"),
    [
        ("claude-sonnet-4-5", None, {}),
        ("claude-sonnet-4-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-4-5", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 20_480}}),
        ("claude-sonnet-4-5", "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 24_000}}),
        ("glm-5", "medium", {"thinking": {"type": "enabled", "budget_tokens": 6_144}}),
        ("claude-3-5-haiku-20241022", "high", {}),
        ("claude-opus-4-6", "xhigh", effort("max")),
        ("claude-opus-4-8", None, {}),
        ("claude-opus-4-8", "minimal", effort("low")),
        ("claude-opus-4-8", "xhigh", effort("xhigh")),
        ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", None, {"thinking": {"type": "adaptive"} | DROP}),
        ("claude-sonnet-5-5", "off", {"thinking": {"type": "between_tools"}}),
        ("claude-sonnet-5-5", "medium", effort("medium", **DROP)),
        ("claude-haiku-5-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-opus-5-5", "off", {"thinking": {"type": "adaptive"} | DROP, "output_config": {"effort": "low"}}),
        ("claude-fable-5", "off", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ],
)
def test_each_model_is_asked_to_think_in_its_way(model: str, level: str | None, expected: Json) -> None:
    sent = body(model, level)

    assert {key: sent[key] for key in ("thinking", "output_config") if key in sent} == expected
    assert (beta_of(sent) is not None) == ("block_binding" in expected.get("thinking", {}))


@pytest.mark.parametrize("max_output", [1, 1_000, 1_364, 1_366, 2_048, 64_000])
def test_a_budget_leaves_room_for_the_answer_or_is_not_asked_for(max_output: int) -> None:
    sent = body("claude-sonnet-4-5", "xhigh", max_output)
    budget = sent.get("thinking", {}).get("budget_tokens")

    assert sent["max_tokens"] == max_output
    assert budget is None if max_output < 1_366 else 1_024 <= budget < max_output


# --- tables -----------------------------------------------------------------------------------------------------------


def row(family: str, *version: int) -> ModelRow:
    return next(row for name, since, row in MODELS if (name, since) == (family, version))


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("claude-3-opus-20240229", row("", 0, 0)),
        ("claude-3-5-sonnet-latest", row("", 3, 5)),
        ("claude-3-7-sonnet-20250219", row("", 3, 7)),
        ("claude-opus-4-20250514", row("opus", 4, 0)),
        ("claude-opus-4-1-20250805", row("opus", 4, 0)),
        ("claude-haiku-4-5-20251001", row("haiku", 4, 0)),
        ("anthropic/claude-opus-4.6", row("opus", 4, 6)),
        ("us.anthropic.claude-sonnet-4-6-v1:0", row("sonnet", 4, 6)),
        ("claude-opus-4-8", row("opus", 4, 7)),
        ("claude-opus-5", row("opus", 4, 7)),
        ("Claude-Opus-5-5", row("opus", 5, 5)),
        ("claude-opus-9-1", row("opus", 5, 5)),
        ("claude-mythos-preview", row("mythos", 0, 0)),
        ("claude-fable-5-2", row("fable", 5, 1)),
        ("claude-instant-1.2", UNKNOWN),
        ("claude-sonnet-latest", UNKNOWN),
        ("kimi-k3", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_model_is_known_by_its_family_and_version(id: str, expected: ModelRow) -> None:
    assert model_row(id) == expected


@pytest.mark.parametrize(
    ("base_url", "provider", "expected"),
    [
        ("https://api.anthropic.com", "anthropic", Quirks()),
        ("https://openrouter.ai/api", "x", QUIRKS["openrouter.ai"]),
        ("https://api.deepseek.com/anthropic", "x", QUIRKS["deepseek"]),
        ("http://127.0.0.1:8080", "moonshot", QUIRKS["moonshot"]),
        ("http://127.0.0.1:8080", "anthropic", Quirks()),
    ],
)
def test_a_server_is_known_by_its_host_or_its_name(base_url: str, provider: str, expected: Quirks) -> None:
    assert quirks_of(base_url, provider) == expected
