"""Arguments that are still being written: what they say so far is never more than what they will say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.dialects.growing import GrowingJson

leaves = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


def fed(*pieces: str) -> GrowingJson:
    state = GrowingJson()
    for piece in pieces:
        state = state.grown(piece)
    return state


def begins(part: Any, whole: Any) -> bool:
    """Whether `part` may become `whole` by growing at its end."""
    if isinstance(part, dict):
        names = list(whole)[: len(part)] if isinstance(whole, dict) else None
        return list(part) == names and all(begins(part[name], whole[name]) for name in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(map(begins, part, whole)) and len(part) <= len(whole)
    if isinstance(part, str):
        return isinstance(whole, str) and whole.startswith(part)
    return bool(part == whole)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("[1", None),
        ("{", {}),
        ('{"na', {}),
        ('{"name"', {}),
        ('{"name":', {}),
        ('{"name": "ki', {"name": "ki"}),
        ('{"name": "kid"', {"name": "kid"}),
        ('{"name": "kid", "ag', {"name": "kid"}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": [1, {"b": "x', {"a": [1, {"b": "x"}]}),
        (r'{"a": "line\n', {"a": "line\n"}),
        ('{"a": "half\\', {"a": "half"}),
        (r'{"a": "half\u00e', {"a": "half"}),
        (r'{"a": "two \\', {"a": "two \\"}),
        (r'{"a": "\"', {"a": '"'}),
        ('{"a": {}}', {"a": {}}),
        ('{"a": 1} {', None),
    ],
)
def test_the_beginning_of_an_object_says_what_is_certain(text: str, value: dict[str, Any] | None) -> None:
    assert fed(text).value() == value
    assert fed(*text).value() == value


@given(st.dictionaries(st.text(), values, max_size=4), st.booleans(), st.data())
def test_wherever_it_is_cut_it_is_a_beginning_of_the_whole(
    whole: dict[str, Any], is_ascii: bool, data: st.DataObject
) -> None:
    text = json.dumps(whole, ensure_ascii=is_ascii, indent=data.draw(st.sampled_from([None, 1])))
    end = data.draw(st.integers(1, len(text)))
    middle = data.draw(st.integers(0, end))

    value = fed(text[:middle], text[middle:end]).value()

    assert begins(value, whole) or (value is None and is_ascii)  # between the halves of a surrogate pair
    assert end < len(text) or value == whole
