from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.model import BlockEnded, CallArguments, CallStarted, Chunk
from orchestrator.providers.tool_calls import CallReader


def read(*deltas: Any) -> list[Chunk]:
    numbers = count()
    reader = CallReader("call_1", lambda: next(numbers))
    return [chunk for delta in deltas for chunk in reader.take(delta)] + list(reader.end())


def calls(chunks: list[Chunk]) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call."""
    started = [chunk for chunk in chunks if isinstance(chunk, CallStarted)]
    assert [call.index for call in started] == list(range(len(started)))
    return [
        (
            call.id,
            call.name,
            "".join(chunk.json for chunk in chunks if isinstance(chunk, CallArguments) and chunk.index == call.index),
        )
        for call in started
    ]


def delta(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    """One member of `tool_calls`, without what is not given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {key: value for key, value in (("index", index), ("id", id), ("function", function)) if value is not None}


WEATHER = ("a", "weather", '{"city":"Paris"}')
TIME = ("b", "time", '{"tz":"JST"}')


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [delta(0, "a", "weather", ""), delta(0, arguments='{"city"'), delta(0, arguments=':"Paris"}')],
            [WEATHER],
            id="the usual way",
        ),
        pytest.param(
            [
                delta(0, "a", "weather", '{"city":'),
                delta(1, "b", "time", '{"tz"'),
                delta(0, arguments='"Paris"}'),
                delta(1, arguments=':"JST"}'),
            ],
            [WEATHER, TIME],
            id="two that take turns",
        ),
        pytest.param(
            [
                delta(None, "a", "weather", '{"city":'),
                delta(arguments='"Paris"}'),
                delta(None, "b", "time", '{"tz"'),
                delta(arguments=':"JST"}'),
            ],
            [WEATHER, TIME],
            id="no index",
        ),
        pytest.param(
            [
                delta(0, "a", "weather", '{"city":'),
                delta(arguments='"Paris"}'),
                delta(None, "b", "time"),
                delta(arguments='{"tz":"JST"}'),
            ],
            [WEATHER, TIME],
            id="an index only at first",
        ),
        pytest.param(
            [delta(None, "a", "weather"), delta(0, arguments='{"city":"Paris"}')],
            [WEATHER],
            id="an index only later",
        ),
        pytest.param(
            [delta(None, "a", "weather", '{"city":'), delta(None, "a", "weather", '"Paris"}')],
            [WEATHER],
            id="id and name in each",
        ),
        pytest.param(
            [delta(0, "a", "weather", '{"city":'), delta(0, "a", "weather", '"Paris"}')],
            [WEATHER],
            id="index, id and name in each",
        ),
        pytest.param(
            [delta(0, "a", "weather", WEATHER[2]), delta(0, "b", "time", TIME[2])],
            [WEATHER, TIME],
            id="index 0 for all",
        ),
        pytest.param(
            [delta(0, "a", "weather", "{}"), delta(0, "b", "weather", "{}")],
            [("a", "weather", "{}"), ("b", "weather", "{}")],
            id="index 0 and the same tool",
        ),
        pytest.param(
            [delta(name="weather", arguments=WEATHER[2]), delta(name="weather", arguments="{}")],
            [("call_1_1", "weather", WEATHER[2]), ("call_1_2", "weather", "{}")],
            id="whole ones by name alone",
        ),
        pytest.param(
            [delta(name="now", arguments=""), delta(name="time", arguments="")],
            [("call_1_1", "now", "{}"), ("call_1_2", "time", "{}")],
            id="names alone",
        ),
        pytest.param([delta(0, "", "weather", WEATHER[2])], [("call_1_1", *WEATHER[1:])], id="an empty id"),
        pytest.param(
            [delta(0, "x", "a", "{}"), delta(1, "x", "b", "{}")],
            [("x", "a", "{}"), ("call_1_2", "b", "{}")],
            id="one id for two",
        ),
        pytest.param(
            [delta(0, "a"), delta(0, arguments='{"city":'), delta(0, None, "weather", '"Paris"}')],
            [WEATHER],
            id="a late name",
        ),
        pytest.param([delta(0, "a", arguments="{}")], [("a", "", "{}")], id="never a name"),
        pytest.param([delta(3, "a", "weather", WEATHER[2])], [WEATHER], id="indexes that do not begin at 0"),
        pytest.param([delta(0, "a", "weather", {"city": "Paris"})], [WEATHER], id="an object for arguments"),
        pytest.param([delta(0, "a", "weather", '{"city"')], [("a", "weather", '{"city"')], id="broken JSON stays"),
        pytest.param([delta(0, "a", "weather", "[]")], [("a", "weather", "[]")], id="what is no object stays"),
        pytest.param(
            [delta(0, "a", "say", '"\ud83c'), delta(0, arguments='\udf33"')],
            [("a", "say", '"🌳"')],
            id="an emoji cut in two",
        ),
    ],
)
def test_calls_are_told_apart(deltas: list[Any], expected: list[tuple[str, str, str]]) -> None:
    assert calls(read(*deltas)) == expected


@pytest.mark.parametrize("blank", [None, "", " ", "\n"])
def test_blank_arguments_are_an_empty_object(blank: str | None) -> None:
    [(_, _, arguments)] = calls(read(delta(0, "a", "now", blank)))

    assert arguments.strip() == "{}"


def test_calls_end_together_since_their_pieces_may_mix() -> None:
    assert read(delta(0, "a", "x", "{"), delta(1, "b", "y", "{}"), delta(0, arguments="}")) == [
        CallStarted(0, "a", "x"),
        CallArguments(0, "{"),
        CallStarted(1, "b", "y"),
        CallArguments(1, "{}"),
        CallArguments(0, "}"),
        BlockEnded(0),
        BlockEnded(1),
    ]


ODD = (
    st.none() | st.booleans() | st.integers(-1, 2) | st.text("ab{}\ud83c", max_size=3) | st.lists(st.none(), max_size=1)
)
ODD_DELTAS = ODD | st.fixed_dictionaries(
    {},
    optional={
        "index": ODD,
        "id": ODD,
        "function": ODD | st.fixed_dictionaries({}, optional={"name": ODD, "arguments": ODD}),
    },
)


@given(deltas=st.lists(ODD_DELTAS, max_size=8))
def test_whatever_comes_ids_are_unique_and_blocks_are_whole(deltas: list[Any]) -> None:
    chunks = read(*deltas)
    told = calls(chunks)

    assert len({id for id, _, _ in told}) == len(told)
    assert [chunk.index for chunk in chunks if isinstance(chunk, BlockEnded)] == list(range(len(told)))
    assert all(arguments.strip() for _, _, arguments in told)
    str(told).encode()
