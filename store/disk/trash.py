"""The desktop's trash, where there is one: what lies in it can be put back.

Source: freedesktop.org Trash specification 1.0, the home trash.
"""

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

import attrs

from store.disk.fs import Fs, open_own, write_whole
from store.errors import StoreError


class NoTrash(StoreError):
    """There is no trash that these files can be moved to."""


@attrs.frozen
class Trash:
    fs: Fs
    root: Path

    @classmethod
    def of_environment(cls, environ: Mapping[str, str], fs: Fs) -> "Trash | None":
        """The trash of the person; None where the desktop has made none."""
        data = environ.get("XDG_DATA_HOME", "")
        if not data.startswith("/"):
            home = environ.get("HOME", "")
            data = f"{home}/.local/share" if home.startswith("/") else ""
        root = Path(data) / "Trash"
        try:
            return cls(fs, root) if data and fs.lstat(root).is_folder else None
        except OSError:
            return None

    def take(self, path: Path, deleted_at: str) -> Path:
        """Move a file or a folder here; where it is now. `deleted_at`: local time, `2026-01-01T12:00:00`.

        Raises NoTrash where it lies on another disk; OSError.
        """
        for folder in (self.root / "files", self.root / "info"):
            with suppress(FileExistsError):
                self.fs.mkdir(folder)
        for number in count(1):
            name = path.name if number == 1 else f"{path.stem}.{number}{path.suffix}"
            if self._note(name, path, deleted_at):
                break
        info, there = self.root / "info" / f"{name}.trashinfo", self.root / "files" / name
        try:
            self.fs.rename(path, there)
        except OSError as error:
            self.fs.unlink(info)
            if error.errno == errno.EXDEV:
                raise NoTrash(f"{path}: the trash in {self.root} is on another disk") from error
            raise
        return there

    def _note(self, name: str, path: Path, deleted_at: str) -> bool:
        """Claim a name, and write down what it was; False if the name is taken."""
        info = self.root / "info" / f"{name}.trashinfo"
        try:
            fd, _ = open_own(self.fs, info, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        try:
            write_whole(self.fs, fd, f"[Trash Info]\nPath={quote(str(path))}\nDeletionDate={deleted_at}\n".encode())
            self.fs.lstat(self.root / "files" / name)
        except FileNotFoundError:
            return True
        except BaseException:
            self.fs.unlink(info)
            raise
        finally:
            self.fs.close(fd)
        self.fs.unlink(info)
        return False
