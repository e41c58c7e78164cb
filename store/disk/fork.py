"""A fork: a new session that begins with what another one's current branch holds."""

from collections.abc import Sequence

from store.entries import VERSION, ForkedFrom, Header
from store.records import Record


def fork_header(
    source: Header,
    path: Sequence[Record],
    session_id: str,
    timestamp: str,
    cwd: str,
    source_path: str,
    name: str | None,
) -> Header:
    """The header of a fork of `source` at the end of `path`. It says which records are copied: they are not billed again."""
    return Header(
        version=VERSION,
        id=session_id,
        timestamp=timestamp,
        cwd=cwd,
        parent_session=source_path,
        forked_from=ForkedFrom(session_id=source.id, entry_id=path[-1].id if path else None, records=len(path)),
        rlm_depth=0,
        name=name or source.name,
    )
