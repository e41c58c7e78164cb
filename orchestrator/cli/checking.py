"""What is wrong with stored sessions and with files: read, compared, told in rows."""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.cli.common import stored_tree, tree_with
from orchestrator.cli.forest import Forest
from orchestrator.engine.errors import EngineError
from orchestrator.views.findings import CheckRow
from orchestrator.views.money import exact_dollars
from orchestrator.views.stored import Member, Stored, members, subtree
from orchestrator.views.usage_report import usage_report
from store.aggregates import aggregates_apart
from store.attribution import account
from store.checks import Check, check_journal
from store.disk.forest import read_header
from store.disk.home import Home
from store.disk.importing import read_data
from store.disk.repairing import read_check
from store.errors import StoreError
from store.legacy.read import read_legacy
from store.legacy.report import Skipped


def check_all(home: Home) -> Iterator[CheckRow]:
    """Every session that is stored, tree by tree. Raises EngineError."""
    for stored in Forest.of(home).trees():
        yield from check_tree(home, stored, stored.root_id)


def check_session(home: Home, session_id: str) -> Iterator[CheckRow]:
    """A session and all below it. Raises EngineError."""
    try:
        header = read_header(home.fs, home, session_id)
    except OSError as error:
        raise EngineError(f"session {session_id} cannot be read: {error}") from error
    stored = tree_with(home, header) if header is not None else stored_tree(home, session_id)
    yield from check_tree(home, stored, session_id)


def check_tree(home: Home, stored: Stored, session_id: str) -> Iterator[CheckRow]:
    """The sessions of a tree from `session_id` down."""
    part = subtree(members(stored), session_id)
    missing = {member.session_id for member in part if member.node is None and session_id != member.session_id}
    for place, member in enumerate(part):
        if member.session_id in missing and member.session_id not in stored.troubles:
            continue
        below = [each for each in part if each.parent_id == member.session_id and each.session_id in missing]
        gone = [] if stored.owner == "alive" else [each for each in below if each.session_id not in stored.troubles]
        yield _row(home, stored, member.session_id, gone, place == 0)


def _row(home: Home, stored: Stored, session_id: str, gone: list[Member], is_top: bool) -> CheckRow:
    path = str(home.journal_path(session_id))
    try:
        check = read_check(home.fs, home, session_id)
    except (StoreError, OSError) as error:
        trouble = getattr(error, "strerror", None) or str(error)
        return CheckRow(
            session_id=session_id, entries=0, skipped=(), salvaged=(), faults=(), path=path, refusal=trouble
        )
    faults = list(_faults(check, stored))
    faults += [_missing(check, member) for member in gone]
    if is_top and not check.gaps:
        faults += _of_the_tree(stored, session_id)
    return _row_of(check, session_id, path, tuple(faults))


def _row_of(check: Check, session_id: str, path: str, faults: tuple[Skipped, ...]) -> CheckRow:
    return CheckRow(
        session_id=session_id,
        entries=len(check.records),
        skipped=check.gaps,
        salvaged=check.salvaged,
        faults=faults,
        path=path,
        refusal=check.recovery.refusal,
    )


def _faults(check: Check, stored: Stored) -> Iterator[Skipped]:
    """What is wrong with one journal besides damage."""
    if check.header is None and not check.recovery.refusal:
        yield Skipped(1, 0, "it has no header")
    if check.torn is not None and stored.owner == "dead":
        yield Skipped(check.torn.line, check.torn.offset, f"{check.torn.reason}; the next opening takes them away")
    if check.recovery.header is not None:
        places = {record.id: place for record, place in zip(check.records, check.places, strict=True)}
        for entry in account(check.recovery.header, check.records).refused:
            yield Skipped(*places[entry], f"entry {entry} has a usage that cannot be; it is counted nowhere")
        for entry in aggregates_apart(check.recovery.header, check.records):
            yield Skipped(*places[entry], f"the aggregateUsage of entry {entry} is not what its parts add up to")


def _missing(check: Check, member: Member) -> Skipped:
    for record, place in zip(check.records, check.places, strict=True):
        if record.type == "child_spawned" and member.session_id.encode() in record.raw:
            return Skipped(*place, f"its child {member.session_id} has no journal here")
    return Skipped(1, 0, f"its child {member.session_id} has no journal here")


def _of_the_tree(stored: Stored, session_id: str) -> Iterator[Skipped]:
    """What the sessions of a tree do not agree on."""
    if stored.unrepaired and session_id == stored.root_id:
        yield Skipped(1, 0, f"a crash left {stored.unrepaired} entries of this tree out; the next opening writes them")
    report = usage_report(stored, session_id)
    if not report.verified and not stored.troubles:
        apart = report.difference
        money = exact_dollars(apart.total_pico)
        yield Skipped(
            1, 0, f"its total and the sum of what its sessions cost are {money}, {apart.tokens} tokens, apart"
        )


def check_file(home: Home, path: Path) -> CheckRow:
    """A file that is no stored session: one of another program, or a journal that lies elsewhere. Raises EngineError."""
    try:
        data = read_data(home.fs, path)
    except (StoreError, OSError) as error:
        raise EngineError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    legacy = read_legacy(data)
    if legacy.header is not None and b'"framing":1' in data.partition(b"\n")[0]:
        return _row_of(check_journal(data, legacy.header.id), legacy.header.id, str(path), ())
    return CheckRow(
        session_id=legacy.header.id if legacy.header else None,
        entries=len(legacy.records),
        skipped=legacy.skipped,
        salvaged=legacy.salvaged,
        faults=(),
        path=str(path),
        refusal=legacy.refusal,
    )
