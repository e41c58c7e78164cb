"""What the dashboard needs of the rest: something to watch, somewhere to read, hands to act with."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import msgspec

from orchestrator.views.feed import FeedLine
from orchestrator.views.rows import AgentRow
from orchestrator.views.stored import Stored

Verb = Literal["message", "answer", "steer", "abort", "stop", "rename", "archive", "unarchive"]


class Told(msgspec.Struct, frozen=True):
    """An event of a session as the feed shows it. `at` in Unix seconds; `seq` is the number that its host gave it."""

    session_id: str
    seq: int
    at: float
    line: FeedLine


class Wrote(msgspec.Struct, frozen=True):
    """A piece of the answer that a session is writing. Answers of a session are told apart by `message_id`."""

    session_id: str
    message_id: int
    text: str


class Began(msgspec.Struct, frozen=True):
    """The first piece of an answer, whatever it is. `at` in Unix seconds."""

    session_id: str
    at: float


class Missed(msgspec.Struct, frozen=True):
    """Events that a host dropped, since we were slow."""

    count: int


class HostEnded(msgspec.Struct, frozen=True, rename="camel"):
    """A host is gone; `root_ids` are the trees that it ran. `at` in Unix seconds."""

    pid: int
    at: float
    root_ids: tuple[str, ...]


News = Told | Wrote | Began | Missed | HostEnded


class Forest(Protocol):
    """The trees of all hosts, and stored ones that no host runs. Used by one task."""

    @property
    def left_out(self) -> int:
        """How many trees are not shown, since they ended long ago."""
        ...

    def rows(self) -> Sequence[AgentRow]:
        """All rows, trees one after the other, parents before children. A row that did not change is the same object."""
        ...

    def news(self) -> AsyncIterator[Sequence[News]]:
        """What happens from now on, in batches; an empty one where only rows changed. `rows()` is up to date then."""
        ...

    def show_all(self) -> None:
        """From now on also what ended long ago; it comes as news."""
        ...


class Journals(Protocol):
    """What is stored. Each raises KeyError for a session that is not there, OSError where it cannot be read."""

    async def session(self, session_id: str) -> Stored:
        """One session alone, as a tree of its own."""
        ...

    async def tree(self, session_id: str) -> Stored:
        """The whole tree that the session is in."""
        ...


class Order(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An action on a session. `text`: what is said, or the new name."""

    verb: Verb
    session_id: str
    text: str = ""


class Refused(Exception):
    """The host, or the session, did not do it; the text says why."""


class Hands(Protocol):
    """Carries out actions."""

    async def do(self, order: Order) -> None:
        """Returns when the host has confirmed. Raises Refused."""
        ...
