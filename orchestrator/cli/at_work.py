"""Changes of stored sessions that somebody has at work: their host makes them, as mail."""

from typing import Any

from store.disk.home import Home
from store.disk.ownership import liveness
from store.entries import Header


def told_its_host(home: Home, session: Header, kind: str, **members: Any) -> dict[str, Any] | None:
    """The answer of the host that has the tree of this session; None: nobody has, or it cannot be reached. Raises EngineError."""
    if liveness(home.fs, home, session.root_id).state != "alive":
        return None
    # Imported here: a session that lies on the disk alone is changed without a loop.
    from orchestrator.cli.live import asked_of_owner

    return asked_of_owner(home, session.root_id, {"type": kind, "sessionId": session.id, **members})
