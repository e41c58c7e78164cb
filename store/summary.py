"""What a list shows of a session."""

import msgspec

from store.entries import Header
from store.usage import NOTHING, Spend

LINE_CHARS = 200


class Summary(msgspec.Struct):
    """One session. `origin`: of which it is a fork; its own counts begin behind what it copied, but for `messages`.

    children    ids of those that it spawned, in that order
    answer      first line of the last answer on the current branch; None: none, or not known since the branch changed
    open_since  begin of the run that is open, in Unix seconds; `worked_s`: of the runs that have ended
    outcome     of the last run that has ended, with its `run_error`
    trouble     what is wrong with a journal that cannot be read whole
    """

    session_id: str
    root_id: str
    parent_id: str | None
    depth: int
    cwd: str
    created: str
    origin: str | None = None
    name: str | None = None
    modified: str | None = None
    entries: int = 0
    messages: int = 0
    turns: int = 0
    runs: int = 0
    children: tuple[str, ...] = ()
    leaf_id: str | None = None
    first_prompt: str | None = None
    summary: str | None = None
    task_state: str | None = None
    is_archived: bool = False
    is_open: bool = False
    open_since: float | None = None
    worked_s: float | None = None
    outcome: str | None = None
    run_error: str | None = None
    answer: str | None = None
    answer_error: str | None = None
    model: str | None = None
    context_tokens: int | None = None
    queued: int = 0
    trouble: str = ""
    own: Spend = NOTHING
    total: Spend = NOTHING


class Rest(msgspec.Struct, kw_only=True):
    """What going on needs besides the summary. `seen`: hashes of what must not be counted twice."""

    seen: bytes = b""
    mail: list[str] = msgspec.field(default_factory=list)
    context_base: int = 0
    context_chars: int = 0
    is_context_known: bool = True
    can_go_on: bool = True


def begun(header: Header) -> Summary:
    return Summary(
        session_id=header.id,
        root_id=header.root_id,
        parent_id=header.parent_session_id,
        depth=header.depth,
        cwd=header.cwd,
        created=header.timestamp,
        origin=header.forked_from.session_id if header.forked_from else None,
        name=header.name,
        modified=header.timestamp or None,
    )
