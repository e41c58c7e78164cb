"""Plain session files in few words: a header, entries of one letter, and what a reading of them tells."""

import json

from store.context import build_context
from store.legacy.read import Legacy, read_legacy
from store.tree import EntryTree

SESSION = "01a229ab-af10-75d4-b1a0-3b61285b09a5"
HEADER = f'{{"type":"session","version":3,"id":"{SESSION}","timestamp":"2026-11-29T23:37:27.057Z","cwd":"/w"}}'


def entry(name: str, parent: str | None, text: str = "x", at: str = "2026-11-29T23:37:28.000Z") -> str:
    message = {"role": "user", "content": text, "timestamp": 1}
    return json.dumps(
        {"type": "message", "id": name, "parentId": parent, "timestamp": at, "message": message}, separators=(",", ":")
    )


A, B, C, D = entry("a", None), entry("b", "a"), entry("c", "b"), entry("d", "c")
TORN = '{"type":"message","id":"b","parentId":"a","mess'


def read(*lines: str | bytes, end: bytes = b"\n") -> Legacy:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return read_legacy(end.join(raw) + end)


def ids(legacy: Legacy) -> list[str]:
    return [record.id for record in legacy.records]


def links(legacy: Legacy) -> dict[str, str | None]:
    return {record.id: record.parent_id for record in legacy.records}


def skips(legacy: Legacy) -> list[int]:
    return [note.line for note in legacy.skipped]


def tells(legacy: Legacy) -> list[tuple[int, str]]:
    return [(note.line, note.what) for note in legacy.salvaged]


def texts(legacy: Legacy) -> list[str]:
    path = EntryTree.of(list(legacy.records)).path(legacy.records[-1].id)
    return [str(getattr(message, "content", "")) for message in build_context(path).messages]
