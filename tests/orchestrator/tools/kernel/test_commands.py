"""Commands of the shell and magics, without IPython and with it."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.tools.kernel.worker.source import as_python, transformed


async def test_a_command_shows_what_it_says_in_its_order(bench: Any) -> None:
    assert await bench.text("print('a', end='')\n!echo b; echo c >&2; echo d\nprint('e')") == "ab\nc\nd\ne"


async def test_a_command_that_fails_says_so_and_the_cell_goes_on(bench: Any) -> None:
    assert await bench.text("!exit 3\nprint('on')") == "[exit status 3]\non"
    assert await bench.text("_exit_code") == "3"


async def test_values_of_python_are_put_into_a_command(bench: Any) -> None:
    await bench.text("x = 5\nfolder = 'a b'")
    assert await bench.text("!echo $x {x + 1} {folder!r} $HOME ${HOME} {nothing}") == (
        f"5 6 {{folder!r}} {bench.place.folder} {bench.place.folder} {{nothing}}"
    )
    assert await bench.text("def f(n):\n    !echo {n} $n\nf(3)") == "3 3"
    assert await bench.text("!echo a b | awk '{print $2}'") == "b"


async def test_the_lines_of_a_command_are_a_value(bench: Any) -> None:
    assert await bench.text("lines = !seq 3\nlines") == "['1', '2', '3']"
    assert await bench.text("lines.n, lines.s, len(lines)") == "('1\\n2\\n3', '1 2 3', 3)"
    assert await bench.text("for n in range(2):\n    got = !echo {n}; echo err >&2\n    print(got)") == (
        "['0', 'err']\n['1', 'err']"
    )


async def test_a_bash_cell(bench: Any) -> None:
    assert await bench.text('%%bash\nfor n in 1 2; do\n  echo $n\ndone\necho "it\'s" >&2') == "1\n2\nit's"
    assert await bench.error("%%bash\necho out\nexit 3") == "out\n[exit status 3]"
    assert await bench.error("%%bash -e\nfalse\necho not reached") == "[exit status 1]"
    assert await bench.text("%%bash\n: " + "x" * 200_000 + "\necho long") == "long"
    assert await bench.text("%%sh\necho $0") == "/bin/sh"


async def test_the_folder_changes_for_good(bench: Any) -> None:
    folder = bench.place.folder / "a b"
    folder.mkdir()
    assert await bench.text("%cd a b") == str(folder)
    assert await bench.text("!pwd") == str(folder)
    assert await bench.text("%pwd") == repr(str(folder))
    assert (await bench.text("%cd -")).endswith(str(bench.place.folder))
    assert "nowhere" in (await bench.run("%cd nowhere")).content[0].text
    assert await bench.text("import os; os.getcwd()") == repr(str(bench.place.folder))


async def test_magics_in_a_block(bench: Any) -> None:
    assert await bench.text("if True:\n    %cd /\n    !pwd") == "/\n/"


async def test_what_looks_like_a_command_in_a_string_is_one_no_more(bench: Any) -> None:
    assert await bench.text("s = '''\n!keep\n%keep\n'''\n!echo \"it's\"\ns") == "it's\n'\\n!keep\\n%keep\\n'"
    assert await bench.text("7 \\\n% 4") == "3"


async def test_pip_is_told_not_run(bench: Any) -> None:
    assert "%pip is not run here" in await bench.error("%pip install x")


async def test_a_magic_that_is_not_there_is_named(bench: Any) -> None:
    assert "%nonsense" in await bench.error("%nonsense 1")


async def test_a_question_mark_shows_the_documentation(bench: Any) -> None:
    await bench.text("def f(x):\n    'What f is.'")
    assert "What f is." in await bench.text("f?")


async def test_the_rest_of_the_magics_that_need_no_ipython(plain: Any) -> None:
    assert await plain.text("%%writefile a.txt\none\n") == "Wrote a.txt"
    assert await plain.text("%%writefile -a a.txt\ntwo") == "Appended to a.txt"
    assert (plain.place.folder / "a.txt").read_text() == "one\ntwo"
    assert await plain.text("%env A=b\n!echo $A") == "b"
    assert (await plain.text("%time 6 * 7")).endswith("\n42")
    assert await plain.text("%matplotlib inline") == "(no output)"
    assert "needs IPython" in await plain.error("%%timeit\n1")


@pytest.mark.parametrize("settings", ["rich"], indirect=True)
async def test_the_magics_of_ipython_are_there(bench: Any) -> None:
    assert "per loop" in await bench.text("%timeit -n 1 -r 1 1")
    assert await bench.text("display([1], 'two')") == "[1]\n'two'"


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("!ls -l", "get_ipython().system('ls -l')"),
        ("    !ls", "    get_ipython().system('ls')"),
        ("!!ls", "get_ipython().getoutput('ls')"),
        ("a = !ls", "a = get_ipython().getoutput('ls')"),
        ("a.b[0] = !ls", "a.b[0] = get_ipython().getoutput('ls')"),
        ("a = %pwd", "a = get_ipython().run_line_magic('pwd', '')"),
        ("%cd  x y ", "get_ipython().run_line_magic('cd', 'x y')"),
        ("a.b??", "get_ipython().run_line_magic('pinfo', 'a.b')"),
        ("?a", "get_ipython().run_line_magic('pinfo', 'a')"),
        ("a != b", None),
        ("a == !b", None),
        ("a % b", None),
        ("a %= b", None),
        ("x = 5 % 3", None),
        ("%%bash", None),
        ("", None),
    ],
)
def test_lines_that_are_not_python(line: str, python: str | None) -> None:
    assert as_python(line) == python


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("x = 1", "x = 1"),
        ("'''\n!a\n'''\n!b", "'''\n!a\n'''\nget_ipython().system('b')"),
        ("!a \\\n  b\nc", "get_ipython().system('a    b')\n\nc"),
        ("f(a\n%x\n)\n!y", "f(a\n%x\n)\nget_ipython().system('y')"),
        ("!echo '''\nx = 1", "get_ipython().system(\"echo '''\")\nx = 1"),
        ("!echo (\n!echo )", "get_ipython().system('echo (')\nget_ipython().system('echo )')"),
        ("x = = 1\n!a", "x = = 1\n!a"),
        ("for a in b:\n  !c\nelse:\n  d = !e", None),
    ],
)
def test_only_what_the_parser_objects_to_is_changed(source: str, python: str | None) -> None:
    found = transformed(source)
    assert found.count("\n") == source.count("\n")
    if python is None:
        compile(found, "", "exec")
    else:
        assert found == python


def old_pythons() -> list[str]:
    """Interpreters of other versions that this machine has."""
    found = []
    for minor in (8, 9, 10, 12, 13, 14):
        places = [f"/usr/bin/python3.{minor}", *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))]
        for place in places:
            command = f"{shlex.quote(place)} -c 'import asyncio'"
            if Path(place).exists() and subprocess.run(command, shell=True, capture_output=True).returncode == 0:
                found.append(place)
                break
    return found


@pytest.mark.parametrize("python", old_pythons() or [None])
async def test_other_versions_of_python_do_as_well(place: Any, tree: Any, python: str | None) -> None:
    from orchestrator.tools.ipython import IpythonTool
    from orchestrator.tools.kernel.interpreter import KernelSettings
    from orchestrator.tools.kernel.kernels import Kernels

    if python is None:
        pytest.skip("there is no other Python on this machine")
    place.family = tree
    tree.let_settle.set()
    tool = IpythonTool(Kernels(KernelSettings(python=python)))
    try:
        for code, shown in [
            ('x = !echo "it\'s"\nx', '["it\'s"]\n'),
            ("import asyncio\nawait asyncio.sleep(0)\n5", "5\n"),
            ("for n in range(2):\n    !echo {n}", "0\n1\n"),
            ("(await (await rlm('task', name='a')).result()).text", "'answer to task'\n"),
            ("len(await asyncio.gather(*(rlm('t') for _ in range(8))))", "8\n"),
        ]:
            assert (await place.run(tool, code=code)).content[0].text == shown
        told = (await place.run(tool, code="def f():\n    1/0\nf()")).content[0].text
        assert told.startswith('Traceback (most recent call last):\n  File "<cell 6>", line 3, in <module>\n    f()\n')
        assert (await place.run(tool, code="while True: pass", timeout_s=0.1)).details["status"] == "timeout"
        assert (await place.run(tool, code="await asyncio.sleep(60)", timeout_s=0.1)).details["status"] == "timeout"
        assert (await place.run(tool, code="x")).content[0].text == '["it\'s"]\n'
    finally:
        await tool.kernels.aclose()
