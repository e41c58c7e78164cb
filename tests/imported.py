"""Files of other programs brought into a home, and out again, in few words."""

import itertools
from collections.abc import Callable
from pathlib import Path

from store.disk.forest import decoded
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.importing import Imported, Importer, header_line, read_source
from store.disk.journal import read_journal
from store.legacy.family import Source
from store.legacy.read import read_legacy
from store.plain import plain_lines
from store.records import Record

DATA = Path(__file__).resolve().parent / "data" / "sessions"
FILES = sorted(path.name for path in DATA.glob("*.jsonl"))
NESTED = [f"prime.nested_depth2.{name}.session.jsonl" for name in ("parent", "child0.depth1", "child1.depth2")]
SINCE = "2026-12-01T00:00:00.000Z"


def ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"0198f0aa-0000-7000-8000-{next(numbers):012d}"


def bring(home: Home, *sources: Source, again: bool = False, new_id: Callable[[], str] | None = None) -> list[Imported]:
    importer = Importer(home.fs, home, SINCE, new_id or ids(), again=again)
    return [one for tree in importer.run(sources) for one in tree]


def file(name: str) -> Source:
    found = read_source(RealFs(), DATA / name)
    assert isinstance(found, Source)
    return found


def text(*lines: str, path: str = "/elsewhere/x.jsonl", digest: str = "") -> Source:
    data = "".join(f"{line}\n" for line in lines).encode()
    return Source.of(path, read_legacy(data), digest or str(hash(data)))


def stored(home: Home, session: str) -> list[Record]:
    return list(decoded(read_journal(home.fs, home.journal_path(session), session).records))


def exported(home: Home, session: str) -> bytes:
    return b"".join(plain_lines(header_line(home.fs, home, session), stored(home, session)))
