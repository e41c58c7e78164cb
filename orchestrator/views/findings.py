"""What is told of session files: the rows of `sessions import`, `check` and `repair`, and their lines for people."""

from collections.abc import Iterator, Sequence

import msgspec

from orchestrator.views.text import one_line
from store.checks import Gap
from store.entries import ForkedFrom
from store.legacy.report import Salvaged, Skipped

_SHOWN = 20


class ImportRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What became of one file. `refusal`: why it is no session here; then there is no `sessionId`."""

    session_id: str | None
    entries: int
    skipped: Sequence[Skipped]
    salvaged: Sequence[Salvaged]
    path: str
    parent_session_id: str | None = None
    imported_before: bool = False
    copied_from: ForkedFrom | None = None
    refusal: str | None = None


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One session, or one file. `skipped`: bytes that hold nothing; `faults`: what its entries do not agree on."""

    session_id: str | None
    entries: int
    skipped: Sequence[Skipped | Gap]
    salvaged: Sequence[Salvaged | Skipped]
    faults: Sequence[Skipped]
    path: str
    refusal: str | None = None

    @property
    def is_sound(self) -> bool:
        return not (self.skipped or self.salvaged or self.faults or self.refusal)


class RepairRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One journal. `kept`: where the damaged file is now; null where nothing had to be done."""

    session_id: str
    entries: int
    skipped: Sequence[Gap]
    salvaged: Sequence[Salvaged | Skipped]
    path: str
    kept: str | None


def import_lines(row: ImportRow) -> Iterator[str]:
    """What became of a file, and every place in it where something was lost or mended. Safe for a terminal."""
    path = one_line(row.path)
    if row.refusal is not None:
        yield f"{path}: not imported: {one_line(row.refusal)}"
        return
    if row.imported_before:
        yield f"{path}: was imported before, as {row.session_id}; --again imports it once more"
        return
    under = f" under {row.parent_session_id}" if row.parent_session_id else ""
    yield f"{path}: {row.entries} entries, now session {row.session_id}{under}"
    if row.copied_from is not None:
        copied = row.copied_from
        yield f"  the first {copied.records} are copies from session {copied.session_id}; their cost counts there"
    yield from _notes([*row.skipped, *row.salvaged])


def check_lines(row: CheckRow) -> Iterator[str]:
    """A line that says how the file is, and one for each finding."""
    name = one_line(row.session_id or row.path)
    if row.is_sound:
        yield f"{name}: sound, {row.entries} entries"
        return
    notes = [*row.skipped, *row.salvaged, *row.faults]
    count = len(notes) + (row.refusal is not None)
    yield f"{name}: {count} finding{'' if count == 1 else 's'}, {row.entries} entries can be read"
    if row.refusal is not None:
        yield f"  {one_line(row.refusal)}"
    yield from _notes(notes)


def repair_lines(row: RepairRow) -> Iterator[str]:
    if row.kept is None:
        yield f"{row.session_id}: nothing is damaged, {row.entries} entries"
        return
    yield f"{row.session_id}: written anew with {row.entries} entries; the damaged file is {one_line(row.kept)}"
    yield from _notes([*row.skipped, *row.salvaged])


def _notes(notes: Sequence[Skipped | Salvaged | Gap]) -> Iterator[str]:
    for note in sorted(notes, key=lambda each: (each.line, each.offset))[:_SHOWN]:
        match note:
            case Gap():
                where, what = f"bytes {note.offset} to {note.end}", f"damaged: {note.reason}"
            case Skipped():
                where, what = f"byte {note.offset}", note.reason
            case Salvaged():
                where, what = f"byte {note.offset}", f"kept: {note.what}"
        yield f"  line {note.line} ({where}): {one_line(what)}"
    if len(notes) > _SHOWN:
        yield f"  and {len(notes) - _SHOWN} more; --json shows all"
