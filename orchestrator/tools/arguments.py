"""Arguments of a tool call, checked against the tool's schema, with errors that a model can act on."""

import difflib
import math
from collections.abc import Iterator
from typing import Any

from actors.protocol.model import ToolSpec
from actors.protocol.tools import ToolResult, text_result

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}

# Larger numbers are mistakes, and break what computes with them.
_FAR = 10**18


def object_schema(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def checked_arguments(spec: ToolSpec, arguments: Any) -> dict[str, Any] | ToolResult:
    """The arguments without the optional ones that are null, or an error result that names everything that is wrong.

    No arguments at all (null, as other programs may have stored it) are read as an empty object. The schema may use
    type, properties, required, enum, items, minimum, exclusiveMinimum, maximum and minLength.
    """
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        return text_result(f"{spec.name}: expected an object of arguments, found {shown(given)}", is_error=True)
    problems = list(_problems(spec.parameters, given))
    if problems:
        lines = "\n".join(f"- {problem}" for problem in problems)
        return text_result(f"{spec.name}: the arguments do not fit:\n{lines}", is_error=True)
    properties = spec.parameters["properties"]
    return {name: _exact(value, properties[name]) for name, value in given.items() if value is not None}


def shown(value: Any) -> str:
    """A value as JSON people name it, short enough for an error."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {_short(value)}"
        case int() | float():
            return f"the number {_short(value)}"
        case list() | tuple():
            return f"an array of {len(value)}"
        case dict():
            return f"an object of {len(value)}"
        case _:
            return f"a {type(value).__name__}"


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) > _FAR:
        return "beyond ±10^18"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _exact(value: Any, schema: dict[str, Any]) -> Any:
    """5.0 where an integer is wanted becomes 5."""
    return int(value) if schema.get("type") == "integer" and isinstance(value, float) else value


def _problems(schema: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for name in schema.get("required", ()):
        if name not in given:
            yield f"`{name}` is missing: expected {_expected(properties[name])}"
        elif given[name] is None:
            yield f"`{name}`: expected {_expected(properties[name])}, found null"
    for name, value in given.items():
        if name not in properties:
            yield _unknown(name, properties)
        elif value is not None:
            yield from _misfits(f"`{name}`", value, properties[name])


def _unknown(name: object, properties: dict[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), properties, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(properties) or 'none'}"
    return f"unknown argument {_short(name)}: {hint}"


def _misfits(where: str, value: Any, schema: dict[str, Any]) -> Iterator[str]:
    if not _has_kind(value, schema.get("type")):
        yield f"{where}: expected {_expected(schema)}, found {shown(value)}"
    elif "enum" in schema and value not in schema["enum"]:
        near = difflib.get_close_matches(str(value), schema["enum"], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        yield f"{where}: expected {_expected(schema)}, found {shown(value)}{hint}"
    elif isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield f"{where}: expected {_expected(schema)}, found an empty one"
        if not _is_unicode(value):
            yield f"{where}: expected Unicode text, found a lone surrogate"
    elif isinstance(value, int | float):
        if not _is_within(value, schema):
            yield f"{where}: expected {_expected(schema)}, found {shown(value)}"
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _misfits(f"{where}[{index}]", item, schema.get("items", {}))


def _has_kind(value: Any, kind: str | None) -> bool:
    if kind is None:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _is_within(value: float, schema: dict[str, Any]) -> bool:
    return (
        -_FAR <= value <= _FAR  # so no NaN either
        and value >= schema.get("minimum", -math.inf)
        and value <= schema.get("maximum", math.inf)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expected(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(repr(value) for value in schema["enum"])
    kind = schema.get("type", "value")
    if kind == "array" and "items" in schema:
        return f"an array, each item {_expected(schema['items'])}"
    words = [f"{'an' if kind[0] in 'aio' else 'a'} {kind}"]
    words += [f"of at least {schema['minLength']} character"] if "minLength" in schema else []
    words += [f"of at least {schema['minimum']}"] if "minimum" in schema else []
    words += [f"above {schema['exclusiveMinimum']}"] if "exclusiveMinimum" in schema else []
    words += [f"of at most {schema['maximum']}"] if "maximum" in schema else []
    return " ".join(words)
