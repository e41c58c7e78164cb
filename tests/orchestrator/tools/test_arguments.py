import math
from typing import Any

import pytest

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolResult
from orchestrator.tools.arguments import checked_arguments, object_schema
from orchestrator.tools.registry import builtin_tools

SPEC = ToolSpec(
    "tool",
    "",
    object_schema(
        ("path",),
        path={"type": "string", "minLength": 1},
        limit={"type": "integer", "minimum": 1},
        timeout_s={"type": "number", "exclusiveMinimum": 0},
        share={"type": "number", "minimum": 0, "maximum": 1},
        mode={"type": "string", "enum": ["all", "any"]},
        names={"type": "array", "items": {"type": "string"}},
        wait={"type": "boolean"},
        anything={},
    ),
)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"path": "a"}, {"path": "a"}),
        ({"path": "a", "limit": None, "wait": None}, {"path": "a"}),
        ({"path": "a", "limit": 5.0}, {"path": "a", "limit": 5}),
        ({"path": "a", "timeout_s": 5}, {"path": "a", "timeout_s": 5}),
        ({"path": "a", "names": [], "mode": "any"}, {"path": "a", "names": [], "mode": "any"}),
        ({"path": "a", "wait": False, "share": 1}, {"path": "a", "wait": False, "share": 1}),
        ({"path": "a", "anything": {"b": 1}}, {"path": "a", "anything": {"b": 1}}),
    ],
)
def test_arguments_that_fit_are_taken(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert checked_arguments(SPEC, given) == taken


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, "`path` is missing: expected a string of at least 1 character"),
        ({}, "`path` is missing"),
        ("", "expected an object of arguments, found the string ''"),
        ([], "expected an object of arguments, found an array of 0"),
        ({"path": None}, "`path`: expected a string of at least 1 character, found null"),
        ({"path": ""}, "`path`: expected a string of at least 1 character, found an empty one"),
        ({"path": 5}, "`path`: expected a string of at least 1 character, found the number 5"),
        ({"path": "\ud800"}, "`path`: expected Unicode text, found a lone surrogate"),
        ({"path": "a", "pth": 1}, "unknown argument 'pth': did you mean `path`?"),
        ({"path": "a", "zzz": 1}, "unknown argument 'zzz': known are path, limit"),
        ({"path": "a", "limit": "5"}, "`limit`: expected an integer of at least 1, found the string '5'"),
        ({"path": "a", "limit": 0}, "`limit`: expected an integer of at least 1, found the number 0"),
        ({"path": "a", "limit": 1.5}, "`limit`: expected an integer of at least 1, found the number 1.5"),
        ({"path": "a", "limit": True}, "`limit`: expected an integer of at least 1, found true"),
        ({"path": "a", "limit": 10**5000}, "found the number beyond"),
        ({"path": "a", "timeout_s": 0}, "`timeout_s`: expected a number above 0, found the number 0"),
        ({"path": "a", "timeout_s": math.nan}, "`timeout_s`: expected a number above 0, found the number nan"),
        ({"path": "a", "timeout_s": math.inf}, "`timeout_s`: expected a number above 0, found the number inf"),
        ({"path": "a", "share": 2}, "`share`: expected a number of at least 0 of at most 1, found the number 2"),
        ({"path": "a", "mode": "ani"}, "`mode`: expected one of 'all', 'any', found the string 'ani'; did you mean"),
        ({"path": "a", "names": "b"}, "`names`: expected an array, each item a string, found the string 'b'"),
        ({"path": "a", "names": ["b", 1]}, "`names`[1]: expected a string, found the number 1"),
        ({"path": "a", "wait": "yes"}, "`wait`: expected a boolean, found the string 'yes'"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(given: Any, problem: str) -> None:
    result = checked_arguments(SPEC, given)
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert problem in result.content[0].text  # type: ignore[union-attr]


def test_all_that_is_wrong_is_said_at_once() -> None:
    result = checked_arguments(SPEC, {"limit": "x", "wait": 1, "nam": []})
    assert isinstance(result, ToolResult)
    assert result.content[0].text.count("\n- ") == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("arguments", [None, "", [], 5, {"": None}, {"path": None, "command": None, "prompt": None}])
@pytest.mark.parametrize("name", ["bash", "read", "write", "edit", "spawn_agent"])
async def test_arguments_that_other_programs_broke_are_an_error_result_of_every_tool(
    place: Any, name: str, arguments: Any
) -> None:
    result = await builtin_tools()[name].run(arguments, place.context)
    assert result.is_error
    assert result.content[0].text.startswith(f"{name}: ")  # type: ignore[union-attr]
