"""Keeps the drawing of the packages true: who may import whom, which packages are pure, and no import cycle.

A rule reads the syntax trees of a checkout and yields what breaks it, as `path:line: why`. Imports count wherever they
stand: in a function, under TYPE_CHECKING, or as a literal name in `importlib.import_module`. Each rule is also tried on
small checkouts, wrong ones and right ones.
"""

import ast
import shutil
import tomllib
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("orchestrator", "actors", "store")

# --- the drawing ------------------------------------------------------------------------------------------------------

PURE_STORE = {"store"}
STORE = {"store", "store/disk"}
ACTORS = {"actors", "actors/protocol"}

# What a room may import besides itself. A file lives in the longest room that its path begins with. A pure room sees
# only the pure files of the store. `orchestrator` itself holds the version, which every room in it may read.
ROOMS: dict[str, set[str]] = {
    "store": set(),
    "store/disk": PURE_STORE,
    "actors/protocol": PURE_STORE,
    "actors": {"actors/protocol"} | STORE,
    "orchestrator": set(),
    "orchestrator/providers": {"orchestrator", "actors/protocol"} | STORE,
    "orchestrator/tools": {"orchestrator", "actors/protocol"} | STORE,
    "orchestrator/dialects": {"orchestrator"} | PURE_STORE,
    "orchestrator/views": {"orchestrator"} | PURE_STORE,
    "orchestrator/engine": {
        "orchestrator",
        "orchestrator/providers",
        "orchestrator/tools",
        "orchestrator/dialects",
        "orchestrator/views",
    }
    | ACTORS
    | STORE,
    "orchestrator/web": {"orchestrator", "orchestrator/views"},
    "orchestrator/cli": {
        "orchestrator",
        "orchestrator/engine",
        "orchestrator/views",
        "orchestrator/web",
        "orchestrator/dialects",
    }
    | STORE,
}
PURE_ROOMS = {"store", "actors/protocol", "orchestrator/dialects", "orchestrator/views"}

# A clock, a file, a socket, a process, chance, or a loop: handed in as values, never fetched by a pure file.
IMPURE_MODULES = (
    "anyio",
    "asyncio",
    "concurrent",
    "ctypes",
    "fcntl",
    "getpass",
    "glob",
    "http.client",
    "http.server",
    "httpx",
    "httpx2",
    "importlib",
    "io",
    "locale",
    "logging",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "platform",
    "queue",
    "random",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "trio",
    "urllib.request",
)
PURE_NAMES = {
    "io.BytesIO",
    "io.StringIO",
    "pathlib.PurePath",
    "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
}
IMPURE_NAMES = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "sys.stderr",
    "sys.stdin",
    "sys.stdout",
    "uuid.getnode",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid.uuid6",
    "uuid.uuid7",
}
IMPURE_CALLS = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}

# Path → why it may call `splitlines`, which splits at 0x0D, form feeds, U+2028 and more: records end at 0x0A alone.
SPLITLINES_ALLOWED: dict[str, str] = {}


# --- reading a checkout -----------------------------------------------------------------------------------------------


@attrs.frozen
class Import:
    """`target` is the module, with the imported name behind it where there is one: `store.ids.short`."""

    target: str
    line: int


@attrs.frozen
class Module:
    name: str
    path: str
    tree: ast.Module
    imports: tuple[Import, ...]

    @property
    def room(self) -> str:
        return room_of(self.name)


@attrs.frozen
class Checkout:
    root: Path
    modules: dict[str, Module]

    def module_of(self, target: str) -> Module | None:
        """The module that an import of `target` runs: itself, or the one that holds the name."""
        return self.modules.get(target) or self.modules.get(target.rpartition(".")[0])


def read_checkout(root: Path) -> Checkout:
    modules = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root)
            is_package = path.name == "__init__.py"
            name = ".".join(path.parent.parts if is_package else path.with_suffix("").parts)
            tree = ast.parse(file.read_bytes(), str(path))
            home = name if is_package else name.rpartition(".")[0]
            modules[name] = Module(name, path.as_posix(), tree, tuple(imports_in(tree, home)))
    return Checkout(root, modules)


def imports_in(tree: ast.Module, home: str) -> Iterator[Import]:
    """All imports below `tree`, the relative ones seen from the package `home`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, node.lineno)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join(home.split(".")[: len(home.split(".")) - level + 1]) if level else ""
                source = ".".join(part for part in (base, module) if part)
                for alias in names:
                    yield Import(source if alias.name == "*" else f"{source}.{alias.name}", node.lineno)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield Import(target, node.lineno)


def room_of(dotted: str) -> str:
    """The longest room that a dotted name begins with; "" for what is not ours."""
    path = dotted.replace(".", "/") + "/"
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default="")


def begins_with(dotted: str, module: str) -> bool:
    return dotted == module or dotted.startswith(module + ".")


def names_used(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names from other modules where they are imported or used, with the aliases of the imports undone."""
    origins = {}
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    package = alias.name.partition(".")[0]
                    origins[alias.asname or package] = alias.name if alias.asname else package
            case ast.ImportFrom(module=str(source), names=names, level=0):
                for alias in names:
                    origins[alias.asname or alias.name] = f"{source}.{alias.name}"
                    yield f"{source}.{alias.name}", node.lineno
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            local, _, rest = ast.unparse(node).partition(".")
            if local in origins:
                yield f"{origins[local]}.{rest}", node.lineno


# --- the rules --------------------------------------------------------------------------------------------------------


def arrows_point_one_way(checkout: Checkout) -> Iterator[str]:
    for module in checkout.modules.values():
        for used in module.imports:
            room = room_of(used.target)
            if room and room != module.room and room not in ROOMS[module.room]:
                yield f"{module.path}:{used.line}: {module.room} must not import {room} ({used.target})"
            elif used.target.partition(".")[0] in {"tests", "examples"}:
                yield f"{module.path}:{used.line}: {module.room} is installed without {used.target}"


def every_folder_of_orchestrator_has_its_row(checkout: Checkout) -> Iterator[str]:
    for module in checkout.modules.values():
        if module.room == "orchestrator" and module.path.count("/") > 1:
            yield f"{module.path}:1: no row in the table of rooms says what this folder may import"


def pure_rooms_touch_nothing(checkout: Checkout) -> Iterator[str]:
    for module in checkout.modules.values():
        if module.room not in PURE_ROOMS:
            continue
        for used in module.imports:
            if used.target not in PURE_NAMES and any(begins_with(used.target, impure) for impure in IMPURE_MODULES):
                yield f"{module.path}:{used.line}: {module.room} is pure and must not import {used.target}"
        for name, line in names_used(module):
            if name in IMPURE_NAMES:
                yield f"{module.path}:{line}: {module.room} is pure and must not use {name}"
        for node in ast.walk(module.tree):
            match node:
                case ast.AsyncFunctionDef(name=name):
                    yield f"{module.path}:{node.lineno}: {module.room} is pure and must not have `async def {name}`"
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    yield f"{module.path}:{node.lineno}: {module.room} is pure and must not call {name}()"


def the_store_knows_no_loop(checkout: Checkout) -> Iterator[str]:
    for module in checkout.modules.values():
        if module.room not in STORE:
            continue
        for used in module.imports:
            if used.target.partition(".")[0] in {"trio", "anyio", "asyncio"}:
                yield f"{module.path}:{used.line}: the store is synchronous and must not import {used.target}"


def one_module_imports_httpx(checkout: Checkout) -> Iterator[str]:
    importers = {
        module.path: used.line
        for module in checkout.modules.values()
        for used in module.imports
        if used.target.partition(".")[0] in {"httpx", "httpx2"}
    }
    if len(importers) > 1:
        for path, line in importers.items():
            yield f"{path}:{line}: httpx is imported in one module only, found {len(importers)}"


def imports_make_no_cycle(checkout: Checkout) -> Iterator[str]:
    graph = {
        name: {
            other.name for used in module.imports if (other := checkout.module_of(used.target)) and other is not module
        }
        for name, module in checkout.modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = list(reversed(error.args[1]))  # graphlib names what is imported first
        yield f"{checkout.modules[cycle[0]].path}:1: import cycle: {' imports '.join(cycle)}"


def records_are_split_at_newlines_only(checkout: Checkout) -> Iterator[str]:
    for module in checkout.modules.values():
        if module.name.partition(".")[0] == "actors" or module.path in SPLITLINES_ALLOWED:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr == "splitlines":
                yield f"{module.path}:{node.lineno}: split at b'\\n'; splitlines also splits inside of records"


def no_package_among_the_tests(checkout: Checkout) -> Iterator[str]:
    for file in sorted((checkout.root / "tests").rglob("__init__.py")):
        yield f"{file.relative_to(checkout.root).as_posix()}:1: tests are imported by path and have no __init__.py"


Rule = Callable[[Checkout], Iterator[str]]
RULES: tuple[Rule, ...] = (
    arrows_point_one_way,
    every_folder_of_orchestrator_has_its_row,
    pure_rooms_touch_nothing,
    the_store_knows_no_loop,
    one_module_imports_httpx,
    imports_make_no_cycle,
    records_are_split_at_newlines_only,
    no_package_among_the_tests,
)


# --- this checkout ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def here() -> Checkout:
    return read_checkout(ROOT)


@pytest.mark.parametrize("rule", RULES)
def test_this_checkout_keeps(rule: Rule, here: Checkout) -> None:
    assert list(rule(here)) == []


def test_the_rules_read_all_that_is_installed(here: Checkout) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert tuple(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == PACKAGES
    assert {module.name.partition(".")[0] for module in here.modules.values()} == set(PACKAGES)
    assert not [module.path for module in here.modules.values() if not module.room]


def test_splitlines_is_allowed_only_where_it_is_used(here: Checkout) -> None:
    users = {
        module.path
        for module in here.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    }
    assert set(SPLITLINES_ALLOWED) <= users
    assert all(SPLITLINES_ALLOWED.values())


def test_each_pure_file_of_this_checkout_is_held_to_the_whole_list(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    pure = [file for file in (tmp_path / "store").rglob("*.py") if "disk" not in file.relative_to(tmp_path).parts]
    pure += (tmp_path / "actors" / "protocol").rglob("*.py")
    for file in pure:
        imports = "".join(f"    import {name}\n" for name in IMPURE_MODULES)
        probe = f"\n\nasync def probe():\n{imports}    print(open(0))\n"
        file.write_text(file.read_text(encoding="utf-8") + probe, encoding="utf-8")

    found = {violation.replace(":", " ", 1) for violation in pure_rooms_touch_nothing(read_checkout(tmp_path))}

    wanted = [f"import {name}" for name in IMPURE_MODULES] + ["call print()", "call open()", "have `async def probe`"]
    assert len(pure) > 5
    for file in pure:
        path = file.relative_to(tmp_path).as_posix()
        ends = [violation for violation in found if violation.startswith(f"{path} ")]
        assert not [end for end in wanted if not any(violation.endswith(f"must not {end}") for violation in ends)], path


# --- each rule on small checkouts -------------------------------------------------------------------------------------

# rule, files, and where the rule must point; nothing where all is well.
CASES: list[tuple[Rule, dict[str, str], list[str]]] = [
    (arrows_point_one_way, {"store/a.py": "import actors"}, ["store/a.py:1"]),
    (arrows_point_one_way, {"store/a.py": "import json\nimport store.disk.journal"}, ["store/a.py:2"]),
    (arrows_point_one_way, {"store/a.py": "from store import disk"}, ["store/a.py:1"]),
    (arrows_point_one_way, {"store/a.py": "from . import disk"}, ["store/a.py:1"]),
    (arrows_point_one_way, {"store/a.py": "from .disk.journal import Journal"}, ["store/a.py:1"]),
    (arrows_point_one_way, {"store/disk/a.py": "from ..ids import short\nfrom store import ids"}, []),
    (arrows_point_one_way, {"store/disk/a.py": "from actors.protocol import mail"}, ["store/disk/a.py:1"]),
    (arrows_point_one_way, {"store/a.py": "def f():\n    from orchestrator import cli"}, ["store/a.py:2"]),
    (
        arrows_point_one_way,
        {"store/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from actors.mailbox import Mailbox"},
        ["store/a.py:3"],
    ),
    (arrows_point_one_way, {"store/a.py": "import importlib\nimportlib.import_module('actors')"}, ["store/a.py:2"]),
    (arrows_point_one_way, {"store/a.py": "__import__('actors.mailbox')"}, ["store/a.py:1"]),
    (arrows_point_one_way, {"store/a.py": "import storehouse, actors_of_others"}, []),
    (arrows_point_one_way, {"actors/protocol/a.py": "from store.entries import Entry"}, []),
    (arrows_point_one_way, {"actors/protocol/a.py": "from store.disk import journal"}, ["actors/protocol/a.py:1"]),
    (arrows_point_one_way, {"actors/protocol/a.py": "from actors.mailbox import M"}, ["actors/protocol/a.py:1"]),
    (arrows_point_one_way, {"actors/protocol/a.py": "from ..mailbox import M"}, ["actors/protocol/a.py:1"]),
    (arrows_point_one_way, {"actors/a.py": "from actors.protocol import mail\nfrom store.disk import journal"}, []),
    (arrows_point_one_way, {"actors/a.py": "from orchestrator.engine import host"}, ["actors/a.py:1"]),
    (arrows_point_one_way, {"actors/a.py": "from orchestrator import __version__"}, ["actors/a.py:1"]),
    *(
        (arrows_point_one_way, {f"orchestrator/{room}/a.py": f"import {allowed}"}, [])
        for room, all_allowed in {
            "providers": "actors.protocol.mail store.usage orchestrator",
            "tools": "actors.protocol.mail store.usage store.disk.journal",
            "dialects": "store.entries orchestrator",
            "views": "store.entries",
            "engine": "actors.session actors.protocol.mail store store.disk.tail orchestrator.providers.sse "
            "orchestrator.tools.bash orchestrator.dialects.pi orchestrator.views.live",
            "web": "orchestrator.views.agents",
            "cli": "orchestrator.engine orchestrator.views orchestrator.web orchestrator.dialects store store.disk",
        }.items()
        for allowed in all_allowed.split()
    ),
    *(
        (arrows_point_one_way, {f"orchestrator/{room}/a.py": f"import {banned}"}, [f"orchestrator/{room}/a.py:1"])
        for room, all_banned in {
            "providers": "actors actors.session orchestrator.tools orchestrator.engine orchestrator.dialects",
            "tools": "actors actors.children orchestrator.providers orchestrator.engine orchestrator.cli",
            "dialects": "store.disk.journal actors.protocol.mail actors orchestrator.views orchestrator.engine",
            "views": "store.disk.journal actors.protocol.mail actors orchestrator.dialects orchestrator.web",
            "engine": "orchestrator.web orchestrator.cli tests.helpers examples.trees",
            "web": "store store.disk actors orchestrator.engine orchestrator.dialects orchestrator.cli",
            "cli": "actors actors.protocol.mail orchestrator.providers.sse orchestrator.tools.bash",
        }.items()
        for banned in all_banned.split()
    ),
    (arrows_point_one_way, {"orchestrator/a.py": "import orchestrator.engine"}, ["orchestrator/a.py:1"]),
    (every_folder_of_orchestrator_has_its_row, {"orchestrator/hut/a.py": ""}, ["orchestrator/hut/a.py:1"]),
    (every_folder_of_orchestrator_has_its_row, {"orchestrator/a.py": "", "orchestrator/cli/sessions/a.py": ""}, []),
    *(
        (pure_rooms_touch_nothing, {f"{room}/a.py": source}, [f"{room}/a.py:1"])
        for room in ("store", "store/nouns", "actors/protocol", "orchestrator/dialects", "orchestrator/views")
        for source in (
            "import trio",
            "import os.path",
            "from time import monotonic",
            "from urllib import request",
            "from pathlib import Path",
            "from io import open",
            "from sys import stdout",
            "from uuid import uuid4",
            "open('a')",
            "print()",
            "async def f(): ...",
        )
    ),
    (pure_rooms_touch_nothing, {"store/a.py": "def f():\n    import random"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "import datetime as d\nd.datetime.now(d.UTC)"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "from datetime import datetime as D\nx = D.utcnow"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "import datetime\ndatetime.date.today()"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "import sys\nsys.stderr.write('')"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "import uuid\nuuid.uuid4()"}, ["store/a.py:2"]),
    (pure_rooms_touch_nothing, {"store/a.py": "import re, uuid, timeit2, osmium, urllib.parse\nuuid.UUID(int=1)"}, []),
    (pure_rooms_touch_nothing, {"store/a.py": "from pathlib import PurePosixPath\nfrom io import StringIO"}, []),
    (pure_rooms_touch_nothing, {"store/a.py": "class U:\n    input = 0\n    def open(self): self.now()"}, []),
    (pure_rooms_touch_nothing, {"store/disk/a.py": "import os, time, random\nopen('a')"}, []),
    (pure_rooms_touch_nothing, {"actors/a.py": "import trio\nasync def f(): ..."}, []),
    (the_store_knows_no_loop, {"store/disk/a.py": "import os\nimport trio"}, ["store/disk/a.py:2"]),
    (the_store_knows_no_loop, {"store/disk/a.py": "def f():\n    from trio.lowlevel import X"}, ["store/disk/a.py:2"]),
    (the_store_knows_no_loop, {"store/a.py": "import anyio"}, ["store/a.py:1"]),
    (the_store_knows_no_loop, {"store/disk/a.py": "import triolet", "actors/a.py": "import trio"}, []),
    (
        one_module_imports_httpx,
        {"orchestrator/providers/a.py": "import httpx", "orchestrator/cli/b.py": "def f():\n    from httpx2 import T"},
        ["orchestrator/providers/a.py:1", "orchestrator/cli/b.py:2"],
    ),
    (one_module_imports_httpx, {"orchestrator/providers/a.py": "import httpx\nfrom httpx import Timeout"}, []),
    (
        imports_make_no_cycle,
        {
            "store/a.py": "import store.b",
            "store/b.py": "if x:\n    from store.c import x",
            "store/c.py": "from . import a",
        },
        ["store/a.py:1"],
    ),
    (
        imports_make_no_cycle,
        {"store/__init__.py": "from store.a import x", "store/a.py": "from store import x"},
        ["store/__init__.py:1"],
    ),
    (
        imports_make_no_cycle,
        {"store/__init__.py": "", "store/a.py": "from store import b", "store/b.py": "import store\nimport json"},
        [],
    ),
    (records_are_split_at_newlines_only, {"store/disk/a.py": "x = b''.splitlines()"}, ["store/disk/a.py:1"]),
    (records_are_split_at_newlines_only, {"orchestrator/cli/a.py": "f = str.splitlines"}, ["orchestrator/cli/a.py:1"]),
    (records_are_split_at_newlines_only, {"store/a.py": "x = b''.split(b'\\n')"}, []),
    (no_package_among_the_tests, {"tests/store/__init__.py": "", "tests/test_a.py": ""}, ["tests/store/__init__.py:1"]),
    (no_package_among_the_tests, {"tests/store/test_a.py": "", "store/__init__.py": ""}, []),
]


def write_checkout(root: Path, files: dict[str, str]) -> Checkout:
    for path, source in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(source, encoding="utf-8")
    return read_checkout(root)


@pytest.mark.parametrize(("rule", "files", "places"), CASES)
def test_a_rule_points_at_what_breaks_it(rule: Rule, files: dict[str, str], places: list[str], tmp_path: Path) -> None:
    checkout = write_checkout(tmp_path, files)

    assert sorted(":".join(violation.split(":")[:2]) for violation in rule(checkout)) == sorted(places)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_tried_on_a_wrong_checkout_and_on_a_right_one(rule: Rule) -> None:
    assert {bool(places) for tried, _, places in CASES if tried is rule} == {True, False}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_nothing_to_say_about_packages_that_do_not_exist_yet(rule: Rule, tmp_path: Path) -> None:
    assert list(rule(read_checkout(tmp_path))) == []


def test_an_import_cycle_is_shown_in_the_order_of_its_imports(tmp_path: Path) -> None:
    checkout = write_checkout(
        tmp_path, {"store/a.py": "import store.b", "store/b.py": "import store.c", "store/c.py": "import store.a"}
    )

    [violation] = imports_make_no_cycle(checkout)

    steps = violation.partition("cycle: ")[2].split(" imports ")
    assert steps[0] == steps[-1]
    assert set(pairwise(steps)) == {
        ("store.a", "store.b"),
        ("store.b", "store.c"),
        ("store.c", "store.a"),
    }


def test_a_file_with_a_reason_may_call_splitlines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = write_checkout(tmp_path, {"store/a.py": "''.splitlines()", "store/b.py": "''.splitlines()"})
    monkeypatch.setitem(SPLITLINES_ALLOWED, "store/a.py", "text for people")

    assert [violation.split(":")[0] for violation in records_are_split_at_newlines_only(checkout)] == ["store/b.py"]
