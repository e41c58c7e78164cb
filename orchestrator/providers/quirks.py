"""Where servers that are compatible with OpenAI's chat completions differ: data, looked up by host or provider name."""

from typing import Literal

import msgspec

from orchestrator.providers.lookup import row_of


class Quirks(msgspec.Struct, frozen=True):
    """The ways of one server. The defaults are what most of them take."""

    key_header: str = "authorization"
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reports_usage: bool = True
    """Takes `stream_options.include_usage`."""
    thinking: Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", "none"] = "reasoning_effort"
    """Which member asks for thinking: `reasoning: {effort}`, `thinking: {type}`, `enable_thinking`, or none at all."""
    efforts: tuple[tuple[str, str], ...] = (("minimal", "low"), ("xhigh", "high"))
    """Levels that go by another word there."""
    wants_reasoning_back: bool = False
    """Thinking goes back in the member in which it came, else the server refuses calls or loses the thread."""
    is_reasoning_extra: bool = False
    """`completion_tokens` is without the reasoning tokens."""
    call_id_chars: int = 40
    is_call_id_exact: bool = False
    """Ids of calls have exactly `call_id_chars` letters and digits."""
    names_results: bool = False
    """A tool's result carries the name of the tool."""
    takes_cache_key: bool = False


_OPENAI = Quirks(max_tokens="max_completion_tokens", efforts=(), takes_cache_key=True)
_DEEPSEEK = Quirks(thinking="thinking", wants_reasoning_back=True)
_MISTRAL = Quirks(reports_usage=False, thinking="none", call_id_chars=9, is_call_id_exact=True, names_results=True)
_MOONSHOT = Quirks(thinking="thinking", wants_reasoning_back=True)
_OPENROUTER = Quirks(thinking="reasoning", efforts=())
_QWEN = Quirks(thinking="enable_thinking")
_XAI = Quirks(is_reasoning_extra=True)
_ZAI = Quirks(thinking="thinking", wants_reasoning_back=True)

# Keys as in `row_of`. No row is named "openai": that may be any server, OPENAI_BASE_URL is how people point at one.
QUIRKS: dict[str, Quirks] = {
    "api.openai.com": _OPENAI,
    "openai.azure.com": Quirks(key_header="api-key", max_tokens="max_completion_tokens", efforts=()),
    "api.cerebras.ai": Quirks(max_tokens="max_completion_tokens"),
    "api.groq.com": Quirks(max_tokens="max_completion_tokens"),
    "api.deepseek.com": _DEEPSEEK,
    "deepseek": _DEEPSEEK,
    "api.mistral.ai": _MISTRAL,
    "mistral": _MISTRAL,
    "api.moonshot.ai": _MOONSHOT,
    "api.moonshot.cn": _MOONSHOT,
    "moonshot": _MOONSHOT,
    "openrouter.ai": _OPENROUTER,
    "openrouter": _OPENROUTER,
    "dashscope.aliyuncs.com": _QWEN,
    "dashscope-intl.aliyuncs.com": _QWEN,
    "api.x.ai": _XAI,
    "xai": _XAI,
    "api.z.ai": _ZAI,
    "open.bigmodel.cn": _ZAI,
    "zai": _ZAI,
}


def quirks_of(base_url: str, provider: str) -> Quirks:
    """The ways of the server at `base_url`, which the configuration calls `provider`."""
    return row_of(QUIRKS, base_url, provider, Quirks())
