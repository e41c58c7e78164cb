"""What can be read from a session, within limits: each answer is complete, or ReadLimit says that it would be too large."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Literal

import msgspec

from store.context import Context, build_context
from store.disk.history import USUAL, Capture, ReadLimits, TreeNode
from store.entries import Header
from store.frame import U32_MAX
from store.records import Record, name_given

UNLIMITED = ReadLimits(entries=U32_MAX, source_bytes=1 << 63)


class Retention(msgspec.Struct, frozen=True):
    """Where an entry comes from: written by this session, or copied into it when it began as a fork of `session_id`."""

    source: Literal["own", "inherited"]
    session_id: str
    seq: int
    source_bytes: int


class Reads(ABC):
    """All of them raise ReadLimit; JournalDamaged where a record is not what was written; JournalRefused, OSError."""

    header: Header

    @abstractmethod
    def captured(self, limits: ReadLimits = USUAL) -> AbstractContextManager[Capture]:
        """A look at the session as it is now. All that is read in it counts together, each record once."""

    @property
    def name(self) -> str | None:
        """The latest name that it was given, else the one that it was born with."""
        with self.captured(UNLIMITED) as capture:
            record = capture.last_of("session_info")
        return name_given(self.header, record)

    def read_leaf_entry(self, max_source_bytes: int | None = None) -> Record | None:
        with self.captured(_of_bytes(max_source_bytes)) as capture:
            return capture.leaf_entry()

    def read_entry(self, entry_id: str, max_source_bytes: int | None = None) -> Record | None:
        """None where no entry has this id."""
        with self.captured(_of_bytes(max_source_bytes)) as capture:
            return capture.entry(entry_id)

    def read_branch(self, from_id: str | None = None, limits: ReadLimits = USUAL) -> list[Record]:
        """The entries from the root to `from_id`, by default to the leaf. Raises StoreError where no entry has this id."""
        with self.captured(limits) as capture:
            return capture.branch(from_id)

    def read_branches(self, leaf_ids: Iterable[str], limits: ReadLimits = USUAL) -> list[list[Record]]:
        """Several paths of one capture. What they have in common counts once."""
        with self.captured(limits) as capture:
            return capture.branches(leaf_ids)

    def read_tree(self, limits: ReadLimits = USUAL) -> list[TreeNode]:
        """All entries as a tree: its roots."""
        with self.captured(limits) as capture:
            return capture.tree()

    def read_entries(self, limits: ReadLimits = USUAL) -> list[Record]:
        """All entries in the order of the file, without the header."""
        with self.captured(limits) as capture:
            return capture.all_entries()

    def read_last_entries(self, count: int, limits: ReadLimits = USUAL) -> list[Record]:
        with self.captured(limits) as capture:
            return capture.last_entries(count)

    def read_label(self, entry_id: str, max_source_bytes: int | None = None) -> str | None:
        with self.captured(_of_bytes(max_source_bytes)) as capture:
            return capture.label(entry_id)

    def read_entry_retention(self, entry_id: str) -> Retention | None:
        """Where an entry comes from; None where no entry has this id, which says nothing about who wrote it."""
        with self.captured() as capture:
            seq = capture.index.find(entry_id)
            if seq is None:
                return None
            origin = self.header.forked_from
            length = capture.index.row(seq).length
            if origin is not None and seq <= origin.records:
                return Retention("inherited", origin.session_id, seq, length)
            return Retention("own", self.header.id, seq, length)

    def build_session_context(self) -> Context:
        """What the next model call is made of. Its size is bounded by the model's window, so by no limit here."""
        with self.captured(UNLIMITED) as capture:
            return build_context(capture.branch())


def _of_bytes(max_source_bytes: int | None) -> ReadLimits:
    return USUAL if max_source_bytes is None else ReadLimits(USUAL.entries, max_source_bytes)
