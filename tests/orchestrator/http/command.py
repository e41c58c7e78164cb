"""The installed command in a process of its own: what it is given, what comes out."""

import io
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import attrs
import msgspec
import pytest
import trio

from store.disk.forest import StoredTree, read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.stream import check_stream

PROGRAM = Path(sys.executable).with_name("sapwood")
PATIENCE_S = 60.0
"""A run takes half a second; what has not ended by then never will."""
KEY = "sk-canary-0123456789abcdef"
AT_ONCE = max(2, min(4, os.cpu_count() or 2))
T = TypeVar("T")
Result = TypeVar("Result")
CONFIG = """
model = "local/fake-chat"

[retry]
{retry}

[providers.local]
base_url = "{url}"
api_key_env = "LOCAL_API_KEY"
{provider}

[[providers.local.models]]
id = "fake-chat"
cost = {{ input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }}
"""


@attrs.frozen
class Done:
    """A run that has ended."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def lines(self) -> list[bytes]:
        return io.BytesIO(self.stdout).readlines()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    @property
    def faults(self) -> list[str]:
        """What is wrong with the stream, its agreement with the status included."""
        found = check_stream(self.lines, exit_status=self.status)
        return [f"{each.line} {each.rule}: {each.text}" for each in found]

    @property
    def root_id(self) -> str:
        return str(self.events[0]["id"])

    @property
    def names(self) -> dict[str, str]:
        """The names of the sessions of the stream, by id. The root is `root`."""
        spawned = {event["childSessionId"]: event["name"] for event in self.of("child_spawned")}
        return {self.root_id: "root", **spawned}

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in kinds]


@attrs.define
class Desk:
    """A person's home and the folder that they work in. `environ` is all that a command sees."""

    home: Path
    folder: Path
    environ: dict[str, str]

    def apart(self, name: str) -> "Desk":
        """Another home and another folder, for a run beside this one."""
        root = self.home.parent / re.sub("[^a-z0-9]+", "-", name.lower())
        (root / "work").mkdir(parents=True)
        return Desk(root / "home", root / "work", self.environ | {"SAPWOOD_HOME": str(root / "home")})

    def configure(self, text: str) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(text, "utf-8")

    def use(self, url: str, *, provider: str = "", retry: str = "base_s = 0.001") -> None:
        """The server at `url` as the provider `local`, its model as the default; `provider`: more of its table."""
        self.configure(CONFIG.format(url=url, provider=provider, retry=retry))

    async def run(
        self,
        *arguments: str | bytes,
        stdin: bytes | int = subprocess.DEVNULL,
        stdout: IO[bytes] | None = None,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Done:
        """Run `sapwood` to its end. What goes to the file `stdout` is not in the answer."""
        given: dict[str, Any] = {"stdin": stdin} | ({"stdout": stdout} if stdout else {"capture_stdout": True})
        with trio.fail_after(PATIENCE_S):
            done = await trio.run_process(
                [PROGRAM, *arguments],
                cwd=cwd or self.folder,
                env=self.environ | dict(environ or {}),
                capture_stderr=True,
                check=False,
                **given,
            )
        return Done(done.returncode, done.stdout or b"", done.stderr.decode())

    @asynccontextmanager
    async def started(self, *arguments: str) -> AsyncIterator["Running"]:
        """A run that goes on meanwhile; if it has not ended by the end, it is killed. `line` starts it."""
        running = Running(self, arguments)
        try:
            yield running
        finally:
            running.kill()

    @property
    def store(self) -> Home:
        return Home(self.home, self.home / "sessions", RealFs())

    def files(self) -> list[Path]:
        """What the home keeps, without the catalog: an index of it that any command may build anew."""
        return sorted(
            path for path in self.home.rglob("*") if path.is_file() and not path.name.startswith("catalog.db")
        )

    def stored(self, root_id: str) -> StoredTree:
        """The tree as a process that comes later reads it."""
        return read_tree(RealFs(), self.store, root_id)


@attrs.define
class Running:
    """A run that has not ended."""

    desk: Desk
    arguments: tuple[str, ...]
    _process: trio.Process | None = None
    _said: bytearray = attrs.field(factory=bytearray)

    @property
    def process(self) -> trio.Process:
        assert self._process is not None
        return self._process

    @property
    def root_id(self) -> str:
        return str(msgspec.json.decode(self._said.partition(b"\n")[0])["id"])

    async def line(self, word: bytes) -> None:
        """Return when stdout has a line with this in it."""
        with trio.fail_after(PATIENCE_S):
            if self._process is None:
                self._process = await trio.lowlevel.open_process(
                    [PROGRAM, *self.arguments],
                    cwd=self.desk.folder,
                    env=self.desk.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                )
            while not any(word in line for line in self._said.split(b"\n")[:-1]):
                assert await self._read(), f"the run ended without a line with {word!r}"

    async def end(self) -> Done:
        """The run when it has ended; its stderr is that of the tests."""
        with trio.fail_after(PATIENCE_S):
            while await self._read():
                pass
            return Done(await self.process.wait(), bytes(self._said), "")

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    async def _read(self) -> bool:
        assert self.process.stdout is not None
        piece = await self.process.stdout.receive_some()
        self._said += piece
        return bool(piece)


async def each(desk: Desk, cases: Mapping[str, T], run: Callable[[Desk, T], Awaitable[Result]]) -> dict[str, Result]:
    """What `run` says of every case, each at a desk of its own: a process takes its time, so several work side by side."""
    results: dict[str, Result] = {}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(name: str, case: T) -> None:
        async with limit:
            results[name] = await run(desk.apart(name), case)

    async with trio.open_nursery() as nursery:
        for name, case in cases.items():
            nursery.start_soon(one, name, case)
    return results


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """An empty home and an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    path = os.environ.get("PATH", os.defpath)
    environ = {
        "PATH": path,
        "HOME": str(tmp_path / "user"),
        "SAPWOOD_HOME": str(tmp_path / "home"),
        "LOCAL_API_KEY": KEY,
        "LANG": "C.UTF-8",
    }
    return Desk(tmp_path / "home", folder, environ)
