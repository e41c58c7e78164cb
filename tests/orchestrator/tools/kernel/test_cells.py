"""What cells are: Python with state, values, awaits and errors. The same without IPython and with it."""

import ast
import sys
from pathlib import Path
from typing import Any

from orchestrator.tools.kernel.link import WORKER


async def test_the_value_of_the_last_expression_is_shown(bench: Any) -> None:
    assert await bench.text("1 + 1") == "2"
    assert await bench.text("'text'") == "'text'"
    assert await bench.text("print('first'); 'last'") == "first\n'last'"
    assert await bench.text("1\n2\n3") == "3"
    assert await bench.text("[\n 1,\n 2,\n]  # a comment") == "[1, 2]"


async def test_what_has_no_value_shows_none(plain: Any) -> None:
    for code in ("None", "x = 1", "1;", "(1);", "# nothing", "\n\n", "def f(): pass", "1\nif True: 2"):
        assert await plain.text(code) == "(no output)", code


async def test_a_long_container_takes_several_lines_and_no_more_than_it_needs(bench: Any) -> None:
    shown = await bench.text("list(range(100))")
    assert shown.split() == str(list(range(100))).split()
    assert 2 <= shown.count("\n") + 1 <= 10
    assert await bench.text("{'z': 'x' * 200, 'a': 1}") == "{'z': '" + "x" * 200 + "',\n 'a': 1}"


async def test_variables_imports_and_functions_stay(bench: Any) -> None:
    assert await bench.text("import math\nx = 5\ndef half(n):\n    return n / 2") == "(no output)"
    assert await bench.text("half(x) + math.floor(0.5)") == "2.5"
    assert await bench.text("_") == "2.5"


async def test_cells_are_counted(bench: Any) -> None:
    for number in (1, 2, 3):
        result = await bench.run("1/0")
        assert result.details["executionCount"] == number
        assert result.details["status"] == "error"
        assert result.details["kernelRestarted"] is False
        assert result.details["durationMs"] >= 0


async def test_an_error_is_told_from_the_cell_on(bench: Any) -> None:
    await bench.text("def f(n):\n    return 1 / n")
    told = await bench.error("x = 3\nf(0)")
    lines = told.split("\n")
    assert lines[:3] == ["Traceback (most recent call last):", '  File "<cell 2>", line 2, in <module>', "    f(0)"]
    assert '  File "<cell 1>", line 2, in f' in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert WORKER not in told
    assert "IPython" not in told
    assert await bench.text("x") == "3"


async def test_an_error_in_a_cell_that_awaits_is_told_from_the_cell_on(bench: Any) -> None:
    told = await bench.error("import asyncio\nawait asyncio.sleep(0)\n1/0")
    assert told.split("\n")[1] == '  File "<cell 1>", line 3, in <module>'
    assert "base_events" not in told


async def test_bad_syntax_is_an_error_and_nothing_more(plain: Any) -> None:
    for code in ("x = = 1", "def f(:", "'open", "(", "return 1", "a\0b", "if True:\nx"):
        assert "Error: " in await plain.error(code), code
    assert await plain.text("1") == "1"


async def test_bad_syntax_is_shown_where_it_is(bench: Any) -> None:
    told = await bench.error("x = 1\ny = = 2")
    assert '  File "<cell 1>", line 2' in told
    assert "    y = = 2" in told
    assert told.endswith("SyntaxError: invalid syntax")
    assert "Traceback" not in told


async def test_a_value_that_cannot_be_shown_is_an_error(bench: Any) -> None:
    told = await bench.error("class Odd:\n    def __repr__(self):\n        raise ValueError('no')\nOdd()")
    assert told.endswith("ValueError: no")


async def test_cells_may_await(bench: Any) -> None:
    assert await bench.text("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7") == "(no output)"
    assert await bench.text("await f()") == "7"
    assert await bench.text("x = await f()\nx + 1") == "8"
    assert await bench.text("[await f() for _ in range(2)]") == "[7, 7]"
    assert await bench.text("for _ in range(2):\n    print(await f())") == "7\n7"
    assert await bench.text("sum(await asyncio.gather(*(f() for _ in range(50))))") == "350"


async def test_tasks_go_on_between_the_cells(bench: Any, until: Any) -> None:
    file = bench.place.folder / "file"
    await bench.text(f"""import asyncio, pathlib
async def write():
    await asyncio.sleep(0.01)
    pathlib.Path({str(file)!r}).write_text('done')
    return 'value'
task = asyncio.create_task(write())""")
    await until(file.exists)
    assert await bench.text("await task") == "'value'"


async def test_a_cell_without_await_may_run_a_loop_of_its_own(bench: Any) -> None:
    await bench.text("import asyncio\nasync def f():\n    return 'ran'")
    assert await bench.text("asyncio.run(f())") == "'ran'"
    assert await bench.text("await f()") == "'ran'"
    assert await bench.text("loop = asyncio.get_event_loop()\nloop.close()") == "(no output)"
    assert await bench.text("await f()") == "'ran'"


async def test_a_task_that_would_end_the_process_ends_neither_that_nor_the_cell(plain: Any) -> None:
    await plain.text("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    raise SystemExit('why')")
    await plain.text("t = asyncio.create_task(f())")
    assert await plain.text("await asyncio.wait([t])\n5") == "[SystemExit: why; the kernel goes on]\n5"
    await plain.text("def stop():\n    raise SystemExit('again')\nasyncio.get_event_loop().call_later(0.01, stop);")
    told = ""
    while "again" not in told:  # between the cells, or in the next one
        told += await plain.text("await asyncio.sleep(0.01)")


async def test_exit_leaves_the_kernel_there(bench: Any) -> None:
    await bench.text("x = 1")
    assert "the kernel goes on" in await bench.text("exit()")
    assert "the kernel goes on" in await bench.error("import sys; sys.exit('why')")
    assert await bench.text("x") == "1"


async def test_stdin_is_empty(bench: Any) -> None:
    assert (await bench.error("input('name? ')")).endswith("EOFError: EOF when reading a line")
    assert await bench.text("import sys; sys.stdin.read()") == "''"
    assert await bench.text("!cat") == "(no output)"


async def test_what_cells_define_can_be_pickled_and_given_to_other_processes(bench: Any) -> None:
    await bench.text("import pickle, multiprocessing\nclass C: pass\ndef square(n): return n * n")
    assert await bench.text("isinstance(pickle.loads(pickle.dumps(C())), C)") == "True"
    code = "with multiprocessing.get_context('fork').Pool(2) as pool:\n    got = pool.map(square, range(4))\ngot"
    assert await bench.text(code) == "[0, 1, 4, 9]"


async def test_a_fork_that_runs_out_of_the_cell_is_no_second_kernel(bench: Any) -> None:
    assert await bench.text("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)") == "(no output)"
    assert await bench.text("pid > 0") == "True"


async def test_modules_of_the_folder_are_found_and_none_of_ours(bench: Any) -> None:
    bench.place.file("mine.py", "value = 'mine'")
    bench.place.file("queue.py", "raise Exception('not to be imported by the kernel itself')")
    assert await bench.text("import mine; mine.value") == "'mine'"
    assert "No module named 'link'" in await bench.error("import link")


async def test_source_of_a_cell_is_there_for_tools(bench: Any) -> None:
    await bench.text("def f():\n    return 'x'")
    assert await bench.text("import inspect; print(inspect.getsource(f))") == "def f():\n    return 'x'\n"


async def test_futures_hold_for_later_cells(bench: Any) -> None:
    await bench.text("from __future__ import annotations")
    await bench.text("def f(x: nonsense): pass")
    assert await bench.text("f.__annotations__") == "{'x': 'nonsense'}"


async def test_arguments_are_checked(plain: Any) -> None:
    assert "`code` is missing" in (await plain.place.run(plain.tool)).content[0].text
    assert "above 0" in await plain.error("1", timeout_s=0)
    assert len(plain.tool.kernels) == 0


def test_the_worker_needs_the_standard_library_alone_from_python_3_8_on() -> None:
    imported: set[str] = set()
    for file in Path(WORKER).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 8))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"IPython"}
