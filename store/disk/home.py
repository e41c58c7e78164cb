"""Where things lie on disk."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import attrs

from store.disk.fs import FOLDER_MODE, Fs
from store.errors import StoreError
from store.ids import checked_session_id, is_session_id

_JOURNAL = ".jsonl"


@attrs.frozen
class Home:
    """The places of `journal.md`. A path is built from nothing but a checked session id."""

    root: Path
    sessions: Path
    fs: Fs

    @classmethod
    def from_env(cls, environ: Mapping[str, str], fs: Fs) -> Self:
        """`SAPWOOD_HOME` (else `~/.sapwood`) and `SAPWOOD_SESSION_DIR` (else `sessions` in it); empty is not set.

        Raises StoreError for a path that is not absolute: it would mean another place in every folder.
        """
        root = _absolute(environ, "SAPWOOD_HOME") or (_absolute(environ, "HOME") or Path.home()) / ".sapwood"
        return cls(root, _absolute(environ, "SAPWOOD_SESSION_DIR") or root / "sessions", fs)

    @property
    def config_path(self) -> Path:
        return self.root / "config.toml"

    @property
    def catalog_path(self) -> Path:
        return self.root / "catalog.db"

    @property
    def artifacts(self) -> Path:
        return self.root / "session-artifacts"

    def journal_path(self, session_id: str) -> Path:
        """Raises BadId, as all that build a path."""
        return self.sessions / (checked_session_id(session_id) + _JOURNAL)

    def index_path(self, session_id: str) -> Path:
        return self.sessions / (checked_session_id(session_id) + ".idx")

    def lock_path(self, root_id: str) -> Path:
        return self.sessions / (checked_session_id(root_id) + ".lock")

    def artifact_dir(self, session_id: str) -> Path:
        return self.artifacts / checked_session_id(session_id)

    def session_ids(self) -> tuple[str, ...]:
        """Ids of the journals there are, sorted; none where the folder does not exist. Other files are passed over."""
        try:
            names = self.fs.listdir(self.sessions)
        except FileNotFoundError:
            return ()
        stems = (name.removesuffix(_JOURNAL) for name in names if name.endswith(_JOURNAL))
        return tuple(sorted(filter(is_session_id, stems)))

    def create(self) -> None:
        """Make the root and the folder of journals. Raises StoreError (see `make_folder`), OSError."""
        self.make_folder(self.root)
        self.make_folder(self.sessions)

    def make_artifact_dir(self, session_id: str) -> Path:
        """The session's folder for spilled output and kernel scratch, made if need be."""
        folder = self.artifact_dir(session_id)
        self.make_folder(self.root)
        self.make_folder(self.artifacts)
        self.make_folder(folder)
        return folder

    def make_folder(self, folder: Path) -> None:
        """A folder of mode 0700, with its parents.

        One that is there is taken if it is ours. In the root a mode that lets others in is narrowed, since transcripts hold
        what people typed; one elsewhere may serve others too, and each file in it is private by itself. Raises StoreError
        for what is no folder or not ours (a link is neither), OSError.
        """
        try:
            self._check_folder(folder)
            return
        except FileNotFoundError:
            pass
        missing = [folder]
        while not self._exists(missing[-1].parent):
            missing.append(missing[-1].parent)
        for each in reversed(missing):
            try:
                self.fs.mkdir(each)
            except FileExistsError:  # another process was faster
                self._check_folder(each)
            self.fs.sync_dir(each.parent)

    def _check_folder(self, folder: Path) -> None:
        found = self.fs.lstat(folder)
        if not found.is_folder:
            raise StoreError(f"{folder}: expected a folder, found something else (a link? then name where it leads)")
        if found.uid != os.geteuid():
            raise StoreError(f"{folder}: expected a folder of user {os.geteuid()}, found one of user {found.uid}")
        if found.mode & 0o077 and folder.is_relative_to(self.root):
            fd = self.fs.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self.fs.chmod(fd, FOLDER_MODE)
            finally:
                self.fs.close(fd)

    def _exists(self, path: Path) -> bool:
        try:
            self.fs.lstat(path)
        except FileNotFoundError:
            return False
        return True


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name, "")
    if not text:
        return None
    path = Path(text)
    if not path.is_absolute():
        raise StoreError(f"{name}: expected an absolute path, found {text!r}")
    return path
