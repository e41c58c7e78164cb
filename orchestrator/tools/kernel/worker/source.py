"""From the text of a cell to Python."""

from __future__ import annotations
import __future__

import ast
import re
import types

CELL = "<cell "
AWAITED = 0x80  # inspect.CO_COROUTINE
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
# Without `await` these still need the loop to be running.
NEEDS_LOOP = re.compile(r"\b(create_task|ensure_future|get_running_loop|current_task|all_tasks)\b")

COMMAND_LINE = re.compile(r"(?P<before>\s*)(?P<mark>!!|!|%)(?P<rest>[^%].*)$")
ASSIGNED = re.compile(r"(?P<before>\s*[^\s=!%][^=!<>]*=\s*)(?P<mark>!|%)(?P<rest>[^=%].*)$")
HELP = re.compile(r"(?P<before>\s*)(?:\?{1,2}(?P<first>[A-Za-z_][\w.]*)|(?P<last>[A-Za-z_][\w.]*)\?{1,2})\s*$")


def as_python(line: str) -> str | None:
    """What a line stands for that is not Python, or None."""
    found = COMMAND_LINE.match(line) or ASSIGNED.match(line)
    if found is None:
        found = HELP.match(line)
        if found is None:
            return None
        return "{}get_ipython().run_line_magic('pinfo', {!r})".format(found["before"], found["first"] or found["last"])
    rest = found["rest"].strip()
    if found["mark"] == "%":
        name, _, line = rest.partition(" ")
        return "{}get_ipython().run_line_magic({!r}, {!r})".format(found["before"], name, line.strip())
    call = "system" if found["mark"] == "!" and not found["before"].strip() else "getoutput"
    return "{}get_ipython().{}({!r})".format(found["before"], call, rest)


def transformed(source: str) -> str:
    """With `!`, `%` and `?` lines as Python. The parser says which they are: in a string it has nothing against them.

    Line numbers stay. Where the parser objects to something else, that is left for it to say again.
    """
    lines = source.split("\n")
    while True:
        text = "\n".join(lines)
        try:
            compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | TOP_LEVEL_AWAIT, True)
            return text
        except SyntaxError as error:
            index = _objectionable(lines, (error.lineno or 1) - 1)
        if index is None:
            return text
        end = index
        while lines[end].endswith("\\") and end + 1 < len(lines):
            end += 1
        joined = " ".join(line[:-1] if line.endswith("\\") else line for line in lines[index : end + 1])
        python = as_python(joined)
        lines[index : end + 1] = [python or joined] + [""] * (end - index)
        if python is None:
            return "\n".join(lines)


def _objectionable(lines: list[str], at: int) -> int | None:
    """The line that is meant: an open quote in it may make the parser object further down."""
    candidates = [index for index, line in enumerate(lines) if as_python(line) is not None]
    return at if at in candidates else max((index for index in candidates if index < at), default=None)


def codes_of(source: str, name: str, flags: int) -> list[types.CodeType]:
    """What to run in turn. The last one has a value if the cell ends in an expression without a semicolon behind it."""
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | TOP_LEVEL_AWAIT | flags, True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)]
    end_line = source.split("\n")[(last.end_lineno or 1) - 1].encode()
    is_silent = end_line[last.end_col_offset :].lstrip(b" \t)").startswith(b";")
    if is_silent:
        return [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)]
    tree.body.pop()
    codes = [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)] if tree.body else []
    return [*codes, compile(ast.Expression(last.value), name, "eval", TOP_LEVEL_AWAIT | flags, True)]
