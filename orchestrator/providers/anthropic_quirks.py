"""Where models and compatible servers of Anthropic's messages differ: data, looked up by model id and by server."""

import re
from typing import Literal

import msgspec

from orchestrator.providers.lookup import row_of


class Quirks(msgspec.Struct, frozen=True):
    """The ways of one server. The defaults are Anthropic's."""

    key_header: str = "x-api-key"
    takes_unsigned_thoughts: bool = False
    """Wants thinking back, and signs none."""


_BEARER = Quirks(key_header="authorization")
_UNSIGNED = Quirks(takes_unsigned_thoughts=True)
_MOONSHOT = Quirks(key_header="authorization", takes_unsigned_thoughts=True)

# Keys as in `row_of`.
QUIRKS: dict[str, Quirks] = {
    "api.deepseek.com": _UNSIGNED,
    "deepseek": _UNSIGNED,
    "api.minimax.io": _UNSIGNED,
    "api.minimaxi.com": _UNSIGNED,
    "minimax": _UNSIGNED,
    "api.moonshot.ai": _MOONSHOT,
    "api.moonshot.cn": _MOONSHOT,
    "moonshot": _MOONSHOT,
    "api.z.ai": _UNSIGNED,
    "open.bigmodel.cn": _UNSIGNED,
    "zai": _UNSIGNED,
    "openrouter.ai": _BEARER,
    "openrouter": _BEARER,
}


def quirks_of(base_url: str, provider: str) -> Quirks:
    """The ways of the server at `base_url`, which the configuration calls `provider`."""
    return row_of(QUIRKS, base_url, provider, Quirks())


class ModelRow(msgspec.Struct, frozen=True):
    """What a model takes."""

    max_output: int
    """Asked for where the configuration names no maximum; models may give more."""
    thinking: Literal["none", "budget", "adaptive"] = "adaptive"
    """A budget of tokens, or an effort that the model spends as it likes."""
    off: Literal["disabled", "between_tools", "low"] = "disabled"
    """How it is told not to think. `low`: it always thinks, so it is told to make no effort."""
    highest: str = "xhigh"
    """Its word for the effort above high."""
    is_bound: bool = False
    """Its thoughts hold only behind what stood before them when they were thought: compaction and new tools change that.
    The server drops them then, if it is asked to, or else refuses the call."""


UNKNOWN = ModelRow(8_192, "budget")
_BUDGET = ModelRow(32_000, "budget")
_ADAPTIVE = ModelRow(64_000)
_BOUND = ModelRow(64_000, is_bound=True)
_ALWAYS = ModelRow(64_000, off="low")
_ALWAYS_BOUND = ModelRow(64_000, off="low", is_bound=True)

# Family, version from which on, row. The first ids name no family before the version.
# Source: platform.claude.com, "Thinking support, defaults, and rejected configurations by model" and "Preserved thinking".
MODELS: tuple[tuple[str, tuple[int, int], ModelRow], ...] = (
    ("", (0, 0), ModelRow(4_096, "none")),
    ("", (3, 5), ModelRow(8_192, "none")),
    ("", (3, 7), _BUDGET),
    ("opus", (4, 0), _BUDGET),
    ("opus", (4, 6), ModelRow(64_000, highest="max")),
    ("opus", (4, 7), _ADAPTIVE),
    ("opus", (5, 5), _ALWAYS_BOUND),
    ("sonnet", (4, 0), _BUDGET),
    ("sonnet", (4, 6), ModelRow(64_000, highest="max")),
    ("sonnet", (5, 0), _ADAPTIVE),
    ("sonnet", (5, 5), ModelRow(64_000, off="between_tools", is_bound=True)),
    ("haiku", (4, 0), _BUDGET),
    ("haiku", (5, 0), _BOUND),
    ("fable", (0, 0), _ALWAYS),
    ("fable", (5, 1), _ALWAYS_BOUND),
    ("mythos", (0, 0), _ALWAYS),
    ("mythos", (5, 1), _ALWAYS_BOUND),
)
_VERSION = r"(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)"
_ID = re.compile(rf"claude-(?:([a-z]+)(?:-{_VERSION})?|{_VERSION})")


def model_row(id: str) -> ModelRow:
    """The row of the newest version of the family that is not newer than `id`, which may have a vendor's name before it."""
    found = _ID.search(id.lower())
    if found is None:
        return UNKNOWN
    family, *versions = found.groups(default="0")
    family = "" if family == "0" else family
    major, minor = (versions if found[1] else versions[2:])[:2]
    version = int(major), int(minor)
    rows = [(since, row) for name, since, row in MODELS if name == family and since <= version]
    return max(rows, key=lambda pair: pair[0])[1] if rows else UNKNOWN
