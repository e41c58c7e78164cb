"""The schedules of a home: one file each, changed under one lock, so that no two processes take the same tick."""

import os
import re
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import msgspec

from store.disk.fs import open_own, read_whole, write_whole
from store.disk.home import Home
from store.disk.zones import zone_named
from store.errors import BadWhen, OwnedElsewhere, StoreError
from store.schedules import VERSION, Schedule, Tick, claimed, ended
from store.wire import encode

MAX_BYTES = 1 << 20
PATIENCE_S = 5.0
"""So long another process is waited for, which holds the lock for a few flushes."""
_LOOK_AGAIN_S = 0.01
_ID = re.compile(r"[0-9a-f]{8}")
_SUFFIX = ".json"


@attrs.frozen
class Schedules:
    """All methods raise OSError and StoreError where the folder or its lock is not to be had."""

    home: Home

    @property
    def folder(self) -> Path:
        return self.home.root / "schedules"

    def stamp(self) -> int:
        """Another number after every change, also one of another process; 0: there are none."""
        try:
            return self.home.fs.lstat(self.folder).mtime_ns
        except FileNotFoundError:
            return 0

    def all(self) -> tuple[list[Schedule], dict[str, str]]:
        """Those that can be read, the next one first, and by name what is wrong with the others."""
        found: list[Schedule] = []
        troubles: dict[str, str] = {}
        for id in self._ids():
            try:
                found.append(self._read(id))
            except FileNotFoundError:
                continue
            except (OSError, StoreError) as error:
                troubles[id] = str(error)
        return sorted(found, key=lambda each: (each.next_at is None, each.next_at, each.id)), troubles

    def add(self, schedule: Schedule) -> None:
        """Keep a new one, durably."""
        self.home.make_folder(self.home.root)
        self.home.make_folder(self.folder)
        with self._locked():
            self._write(schedule)

    def cancel(self, id: str) -> bool:
        """Whether there was one. It does not come again."""
        with self._locked():
            return self._remove(id)

    def cancel_of(self, sessions: Container[str]) -> list[str]:
        """Cancel all that are for these sessions; which they were."""
        return [each.id for each in self.all()[0] if each.session_id in sessions and self.cancel(each.id)]

    def claim(self, now: float, may: Callable[[Schedule], bool]) -> list[Tick]:
        """The due ticks of those that `may` names, each taken durably before anybody hears of it, and so once.

        One whose file is damaged is passed over; `all` says so.
        """
        if not any(is_due(schedule, now) for schedule in self._those(may)):
            return []
        ticks: list[Tick] = []
        with self._locked():
            for schedule in self._those(may):
                after, tick = _after(schedule, now)
                try:
                    if after != schedule:
                        self._write(after)
                except OSError:
                    if ticks:
                        break  # what was taken has to be delivered
                    raise
                if tick is not None:
                    ticks.append(tick)
        return ticks

    def _those(self, may: Callable[[Schedule], bool]) -> list[Schedule]:
        return [schedule for schedule in self.all()[0] if may(schedule)]

    def end(self, tick: Tick, error: str | None = None) -> None:
        """Note what became of a tick. One that was the last, and was delivered, is kept no longer."""
        with self._locked():
            try:
                schedule = self._read(tick.schedule.id)
            except FileNotFoundError:
                return
            after = ended(schedule, tick, error)
            if after.next_at is None and after.outcome == "delivered":
                self._remove(after.id)
            elif after != schedule:
                self._write(after)

    # One file

    def _ids(self) -> list[str]:
        try:
            names = self.home.fs.listdir(self.folder)
        except FileNotFoundError:
            return []
        ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return sorted(id for id in ids if _ID.fullmatch(id))

    def _path(self, id: str) -> Path:
        if not _ID.fullmatch(id):
            raise StoreError(f"expected the id of a schedule (8 hex digits), found {id[:80]!r}")
        return self.folder / f"{id}{_SUFFIX}"

    def _read(self, id: str) -> Schedule:
        fd, found = open_own(self.home.fs, self._path(id), os.O_RDONLY)
        try:
            data = read_whole(self.home.fs, fd, min(found.size, MAX_BYTES))
        finally:
            self.home.fs.close(fd)
        try:
            schedule = msgspec.json.decode(data, type=Schedule)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(f"{self._path(id)}: expected a schedule: {error}") from error
        if schedule.version > VERSION or schedule.id != id:
            raise StoreError(f"{self._path(id)}: expected schedule {id} of version {VERSION}, found another")
        return schedule

    def _write(self, schedule: Schedule) -> None:
        """In one step, and durable."""
        fs, path = self.home.fs, self._path(schedule.id)
        new = path.with_suffix(".new")
        with suppress(FileNotFoundError):
            fs.unlink(new)  # of a process that died
        fd, _ = open_own(fs, new, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        try:
            write_whole(fs, fd, encode(schedule) + b"\n")
            fs.fdatasync(fd)
        except BaseException:
            with suppress(OSError):
                fs.unlink(new)
            raise
        finally:
            fs.close(fd)
        fs.rename(new, path)
        fs.sync_dir(self.folder)

    def _remove(self, id: str) -> bool:
        try:
            self.home.fs.unlink(self._path(id))
        except FileNotFoundError:
            return False
        self.home.fs.sync_dir(self.folder)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            fd, _ = open_own(self.home.fs, self.folder / "lock", os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # no folder, so there is nothing to change
            yield
            return
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not self.home.fs.lock(fd):
                if time.monotonic() > deadline:
                    raise OwnedElsewhere(f"{self.folder}: another process has had the lock for {PATIENCE_S:.0f} s")
                time.sleep(_LOOK_AGAIN_S)
            yield
        finally:
            self.home.fs.close(fd)


def is_due(schedule: Schedule, now: float) -> bool:
    """Whether a claim would change something: also where the clock was set back."""
    return _after(schedule, now)[0] != schedule


def _after(schedule: Schedule, now: float) -> tuple[Schedule, Tick | None]:
    """The schedule as it is from now on, and its due tick. One that cannot be read any more does not come again."""
    try:
        return claimed(schedule, now, zone_named(schedule.zone))
    except BadWhen as error:
        return msgspec.structs.replace(schedule, next_at=None, outcome="failed", error=str(error)), None
