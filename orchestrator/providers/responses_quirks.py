"""Where models and compatible servers of OpenAI's responses differ: data, looked up by model id and by server."""

import re
from typing import Literal

import msgspec

from orchestrator.providers.lookup import row_of


class Quirks(msgspec.Struct, frozen=True):
    """The ways of one server. The defaults are what most of them take."""

    key_header: str = "authorization"
    system: Literal["instructions", "system"] = "instructions"
    """Where the prompt goes: a member of its own, or the first message."""
    encrypts_reasoning: bool = True
    """Takes `include`, and hands out its reasoning in a form that can be sent back."""
    takes_cache_key: bool = False


# Keys as in `row_of`. No row is named "openai": that may be any server, OPENAI_BASE_URL is how people point at one.
QUIRKS: dict[str, Quirks] = {
    "api.openai.com": Quirks(takes_cache_key=True),
    "openai.azure.com": Quirks(key_header="api-key"),
    "api.groq.com": Quirks(encrypts_reasoning=False),
    "groq": Quirks(encrypts_reasoning=False),
    "api.x.ai": Quirks(system="system"),
    "xai": Quirks(system="system"),
}


def quirks_of(base_url: str, provider: str) -> Quirks:
    """The ways of the server at `base_url`, which the configuration calls `provider`."""
    return row_of(QUIRKS, base_url, provider, Quirks())


class ModelRow(msgspec.Struct, frozen=True):
    """What a model takes."""

    efforts: tuple[tuple[str, str], ...] = ()
    """Levels that go by another word there, or that have to make do with the nearest. `off` only where it is listed."""
    is_reasoner: bool = False
    """Known to reason unasked, and to hand out its reasoning encrypted."""


_LOW_TO_HIGH = (("off", "low"), ("minimal", "low"), ("xhigh", "high"))
_LOW_TO_XHIGH = (("off", "low"), ("minimal", "low"))
_NONE_TO_HIGH = (("off", "none"), ("minimal", "low"), ("xhigh", "high"))
_NONE_TO_XHIGH = (("off", "none"), ("minimal", "low"))
_MINIMAL_TO_HIGH = (("off", "minimal"), ("xhigh", "high"))
_MEDIUM_TO_XHIGH = (("off", "medium"), ("minimal", "medium"), ("low", "medium"))
_HIGH = (("off", "high"), ("minimal", "high"), ("low", "high"), ("medium", "high"), ("xhigh", "high"))

# The first that an id begins with, behind a vendor's name.
# Source: the reasoning guide at developers.openai.com; what the API itself says in refusing a word.
MODELS: tuple[tuple[str, ModelRow], ...] = (
    ("gpt-oss", ModelRow(_LOW_TO_HIGH)),
    (r"o\d|codex-mini", ModelRow(_LOW_TO_HIGH, is_reasoner=True)),
    ("gpt-5-pro", ModelRow(_HIGH, is_reasoner=True)),
    (r"gpt-\d+(\.\d+)?-pro", ModelRow(_MEDIUM_TO_XHIGH, is_reasoner=True)),
    (r"gpt-5-codex|gpt-5\.1-codex(?!-max)", ModelRow(_LOW_TO_HIGH, is_reasoner=True)),
    (r"gpt-5\.\d+-codex", ModelRow(_LOW_TO_XHIGH, is_reasoner=True)),
    (r"gpt-5(?![.\d])", ModelRow(_MINIMAL_TO_HIGH, is_reasoner=True)),
    (r"gpt-5\.1(?!\d)", ModelRow(_NONE_TO_HIGH, is_reasoner=True)),
    (r"gpt-5\.\d|gpt-[6-9]", ModelRow(_NONE_TO_XHIGH, is_reasoner=True)),
)


def model_row(id: str) -> ModelRow:
    own = id.lower().rpartition("/")[2]
    return next((row for pattern, row in MODELS if re.match(pattern, own)), ModelRow())
