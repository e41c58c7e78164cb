"""Which session a manager is at, and where that is kept."""

from pathlib import Path

from store.disk.home import Home
from store.entries import Header


class Identity:
    header: Header
    home: Home | None

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def cwd(self) -> str:
        return self.header.cwd

    @property
    def file(self) -> Path | None:
        """The journal; of a draft where it will be. None: kept nowhere."""
        return None if self.home is None else self.home.journal_path(self.id)

    @property
    def session_dir(self) -> Path | None:
        return None if self.home is None else self.home.sessions

    @property
    def artifact_dir(self) -> Path | None:
        """Where spilled output and scratch of the session belong. It may not be there yet."""
        return None if self.home is None else self.home.artifact_dir(self.id)

    @property
    def is_persisted(self) -> bool:
        return self.home is not None
