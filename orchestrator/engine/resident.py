"""`sapwood serve`: a host that outlives its clients, and goes on after its own death with what was interrupted."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import trio

from actors.flusher import Flusher
from orchestrator.engine.client import HostInfo, hosts
from orchestrator.engine.config import load_config
from orchestrator.engine.control.desk import Desk
from orchestrator.engine.control.endpoint import Endpoint
from orchestrator.engine.control.places import run_folder
from orchestrator.engine.errors import EngineError, NothingLeft, NotOurs
from orchestrator.engine.host import Host
from orchestrator.engine.jobs import Jobs
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.scheduler import Scheduler
from orchestrator.engine.signals import Signals
from store.disk.fs import open_own, read_whole
from store.disk.home import Home
from store.disk.ownership import start_of
from store.disk.schedules import Schedules
from store.errors import StoreError
from store.ids import checked_session_id

IDLE_S = 900.0
START_S = 20.0
LOOK_AGAIN_S = 0.05


@attrs.define(eq=False)
class Resident:
    """One per home. `say`: what somebody who looks at its terminal or log reads. `_owed`: roots that were not looked at yet."""

    home: Home
    environ: Mapping[str, str]
    say: Callable[[str], None]
    _owed: list[str] = attrs.field(factory=list)

    async def run(self) -> int:
        """Serve until told to end; the exit status. Raises NotOurs where the home has a resident host already; OSError."""
        self.home.make_folder(self.home.root)
        self.home.make_folder(run_folder(self.home))
        lock, _ = open_own(self.home.fs, run_folder(self.home) / "resident.lock", os.O_RDWR | os.O_CREAT)
        try:
            if not self.home.fs.lock(lock):
                raise NotOurs(f"{self.home.root} has a resident host already; see `sapwood status`")
            return await self._serve()
        finally:
            self.home.fs.close(lock)

    async def _serve(self) -> int:
        level = load_config(self.home.config_path, self.home.root).durability
        host = Host(self.home, flusher=Flusher(level=level), is_resident=True)
        signals = Signals(host.leave)
        async with host.working(), trio.open_nursery() as outer:
            keeper = Keeper(host, Jobs(self.home, self.environ), outer, IDLE_S, lambda: self._remember(host))
            endpoint = Endpoint(Desk(host, keeper=keeper), self.environ)
            async with endpoint.open():
                await outer.start(signals.hear, outer.cancel_scope)
                if endpoint.socket is not None:
                    self._go_on(keeper)
                    outer.start_soon(Scheduler(keeper, Schedules(self.home), self.say).run)
                    self.say(f"host {os.getpid()} serves {self.home.root}")
                    await host.leaving.wait()
                    self.say(signals.reason or "told to end")
                await host.rested()
            outer.cancel_scope.cancel()
        if endpoint.socket is None:
            raise EngineError(f"the resident host has no socket: {endpoint.trouble}")
        return 0 if signals.number is None else 128 + signals.number

    # What it had at work when it died

    @property
    def _memory(self) -> Path:
        return run_folder(self.home) / "resident.roots"

    def _remember(self, host: Host) -> None:
        """The roots that are at hand, so that the next resident host finds those that this one leaves interrupted."""
        if host.leaving.is_set():
            return
        new = self._memory.with_suffix(".new")
        with suppress(OSError, StoreError):
            self.home.fs.unlink(new) if new.exists() else None
            fd = self.home.fs.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                self.home.fs.write(fd, "".join(f"{root_id}\n" for root_id in (*host.trees, *self._owed)).encode())
            finally:
                self.home.fs.close(fd)
            self.home.fs.rename(new, self._memory)

    def _remembered(self) -> list[str]:
        try:
            fd, found = open_own(self.home.fs, self._memory, os.O_RDONLY)
        except (OSError, StoreError):
            return []
        try:
            names = read_whole(self.home.fs, fd, found.size).decode(errors="replace").split()
        finally:
            self.home.fs.close(fd)
        known: list[str] = []
        for name in names:
            with suppress(StoreError):
                known.append(checked_session_id(name))
        return known

    def _go_on(self, keeper: Keeper) -> None:
        """Trees that the last resident host left in the middle of something go on where their journals end."""
        self._owed = self._remembered()
        while self._owed:
            root_id = self._owed.pop(0)
            try:
                keeper.go_on(root_id)
            except NothingLeft:
                continue
            except (EngineError, StoreError, OSError) as error:
                self.say(f"session {root_id} cannot go on: {error}")
            else:
                self.say(f"session {root_id} was interrupted, and goes on")


async def resident_of(home: Home) -> HostInfo | None:
    """The resident host of this home, if one answers."""
    return next((host for host in await hosts(home) if host.is_resident), None)


async def started(home: Home, environ: Mapping[str, str]) -> HostInfo:
    """The resident host, begun in the background where there is none. Raises EngineError."""
    found = await resident_of(home)
    if found is not None:
        return found
    home.make_folder(home.root)
    home.make_folder(run_folder(home))
    log = run_folder(home) / "resident.log"
    process = _begun(log, environ)
    with trio.move_on_after(START_S):
        while process.poll() in {None, NotOurs.status}:  # the latter: another one was faster, and will answer soon
            found = await resident_of(home)
            if found is not None:
                return found
            await trio.sleep(LOOK_AGAIN_S)
    if process.poll() == NotOurs.status:
        raise EngineError("there is a resident host, and it does not answer; `sapwood status` names its process")
    raise EngineError(f"the resident host did not start; {log} says why")


def _begun(log: Path, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """A process of its own session, which no terminal ends. Raises OSError."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator.cli.main", "serve"],
            cwd="/",
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=fd,
            stderr=fd,
            start_new_session=True,
        )
    finally:
        os.close(fd)


async def ended(home: Home, host: HostInfo, patience_s: float) -> bool:
    """Whether the process of a host has ended, at the latest after so long. One that nobody has waited for yet has, too."""
    began = start_of(home.fs, host.pid)
    with trio.move_on_after(patience_s):
        while True:
            if began is None or start_of(home.fs, host.pid) != began:
                return True
            await trio.sleep(LOOK_AGAIN_S)
    return False
