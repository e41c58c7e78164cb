"""`sapwood sessions rename|label|fork|branch|archive|delete`: changing what is stored."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from orchestrator.cli.at_work import told_its_host
from orchestrator.cli.common import (
    AS_JSON,
    SESSION,
    echo_json,
    echo_lines,
    home_from_env,
    id_named,
    options_of,
    session_named,
    told,
    translated,
)
from orchestrator.cli.sessions_find import TREE_LIMITS, entry_named
from orchestrator.engine.errors import WrongUsage
from orchestrator.views.text import one_line
from store.disk.home import Home
from store.disk.manager import SessionManager
from store.disk.removal import remove
from store.disk.schedules import Schedules
from store.disk.trash import Trash
from store.ids import short
from store.times import iso

RENAME_HELP = """Give a session another name.

\b
  sapwood sessions rename 4f1c09aa port-billing"""

LABEL_HELP = """Put a label on an entry, or take it away.

\b
  sapwood sessions label port-billing 1f before-the-rewrite
  sapwood sessions label port-billing before-the-rewrite --clear"""

FORK_HELP = """Begin a new session with what the current branch of another one holds, or with what leads to an entry.

What was copied is not billed again.

\b
  sapwood sessions fork port-billing
  sapwood sessions fork port-billing --at 1f --name second-try"""

CLONE_HELP = """Begin a new session with all that the current branch of another one holds: the fork at its leaf.

\b
  sapwood sessions clone port-billing --name second-try"""

BRANCH_HELP = """Go back to an earlier entry: the session goes on from there, and the branch that is left stays in it.

ENTRY `root` is before the first one.

\b
  sapwood sessions branch port-billing 1f
  sapwood sessions branch port-billing 1f --summary "The first way was too slow." """

ARCHIVE_HELP = """Take a session out of the list, or put it back.

\b
  sapwood sessions archive port-billing
  sapwood sessions archive port-billing --undo"""

DELETE_HELP = """Move sessions, and all below them, to the trash of the desktop.

A child is deleted only when the sessions above it hold what it has spent. Without a trash --force deletes for good.

\b
  sapwood sessions delete port-billing
  sapwood sessions delete 4f1c09aa 51b2e003 --force"""

_ROOT = "root"


@contextmanager
def opened(home: Home, session_id: str, *, repairs: bool = False) -> Iterator[SessionManager]:
    """A session of ours for a moment; what was appended is durable behind it. `repairs`: what was interrupted is lost."""
    with translated(), SessionManager.open(home.journal_path(session_id), home=home, repairs=repairs) as manager:
        yield manager


def _entry(home: Home, session_id: str, name: str) -> str:
    """The id of an entry that is named by id, beginning of an id or label. Raises WrongUsage."""
    with translated():
        manager = SessionManager.open_read_only(home.journal_path(session_id), home=home)
        with manager.captured(TREE_LIMITS) as capture:
            return entry_named(capture, name)


@click.command("rename", help=RENAME_HELP)
@SESSION
@click.argument("name")
@AS_JSON
@told
def rename_command(session: str, name: str, as_json: bool) -> None:
    """Append the name."""
    name = name.strip()
    if not name:
        raise WrongUsage("expected a name, found none")
    home = home_from_env()
    found = session_named(home, session)
    if told_its_host(home, found, "set_session_name", name=name) is None:
        with opened(home, found.id) as manager:
            manager.append_session_info(name)
    _tell(as_json, {"sessionId": found.id, "name": name}, f"{short(found.id)} is {name}")


@click.command("label", help=LABEL_HELP)
@SESSION
@click.argument("entry")
@click.argument("label", required=False)
@click.option("--clear", is_flag=True, help="Take the label away.")
@AS_JSON
@told
def label_command(session: str, entry: str, label: str | None, clear: bool, as_json: bool) -> None:
    """Append the label."""
    label = (label or "").strip() or None
    if (label is None) != clear:
        raise WrongUsage("expected a LABEL or --clear, found " + ("neither" if label is None else "both"))
    home = home_from_env()
    found = session_named(home, session)
    target = _entry(home, found.id, entry)
    if told_its_host(home, found, "set_label", entryId=target, label=label) is None:
        with opened(home, found.id) as manager:
            manager.append_label_change(target, label)
    text = f"{target} has no label" if label is None else f"{target} is {label}"
    _tell(as_json, {"sessionId": found.id, "entryId": target, "label": label}, text)


_of_the_copy = options_of(
    click.option("--name", help="Of the new session, by default the old one's."),
    click.option("-C", "--cwd", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Its folder."),
)


@click.command("fork", help=FORK_HELP)
@SESSION
@click.option("--at", "entry", metavar="ENTRY", help="Copy what leads to this entry, by default to the leaf.")
@_of_the_copy
@AS_JSON
@told
def fork_command(session: str, entry: str | None, name: str | None, cwd: Path | None, as_json: bool) -> None:
    """Copy, tell its id."""
    _copy(session, entry, name, cwd, as_json=as_json)


@click.command("clone", help=CLONE_HELP)
@SESSION
@_of_the_copy
@AS_JSON
@told
def clone_command(session: str, name: str | None, cwd: Path | None, as_json: bool) -> None:
    """The fork at the leaf."""
    _copy(session, None, name, cwd, as_json=as_json)


def _copy(session: str, entry: str | None, name: str | None, cwd: Path | None, *, as_json: bool) -> None:
    home = home_from_env()
    found = session_named(home, session)
    path = home.journal_path(found.id)
    if entry is not None:
        entry = _entry(home, found.id, entry)
    with translated():
        folder = str(cwd.resolve()) if cwd is not None else found.cwd
        with SessionManager.fork_from(path, folder, from_id=entry, name=name or None, home=home) as fork:
            header, file = fork.header, str(fork.file)
    row = {
        "sessionId": header.id,
        "path": file,
        "cwd": header.cwd,
        "name": header.name,
        "forkedFrom": header.forked_from,
    }
    _tell(as_json, row, f"{header.id}   go on with it: sapwood run -r {short(header.id)}")


def _branch_summarised(home: Home, manager: SessionManager, target: str | None) -> None:
    """Imported here: the other commands need no model."""
    from orchestrator.engine.branching import NoSummary, summarised_branch
    from orchestrator.engine.config import load_config
    from orchestrator.engine.models import Models

    folder = Path(manager.cwd)
    config = load_config(home.config_path, folder)
    current = manager.read_branch()
    kept = [] if target is None else manager.read_branch(target)
    session = (manager.id, manager.name or "root")
    models = Models(config, os.environ, folder)
    try:
        told = summarised_branch(current, kept, models, session, config.compaction, config.retry)
    except NoSummary as error:
        if error.billed is not None:
            manager.append_batch([error.billed])
        raise
    manager.branch_with_summary(target, told.text, told.details, usage=told.usage)


@click.command("branch", help=BRANCH_HELP)
@SESSION
@click.argument("entry")
@click.option("--summary", metavar="TEXT", help="What the model is told of the branch that is left.")
@click.option(
    "--summarize", is_flag=True, help="Let the session's model say what the branch held; that call is billed."
)
@AS_JSON
@told
def branch_command(session: str, entry: str, summary: str | None, summarize: bool, as_json: bool) -> None:
    """Move the leaf."""
    if summary and summarize:
        raise WrongUsage("expected --summary TEXT or --summarize, not both")
    home = home_from_env()
    found = session_named(home, session)
    target = None if entry == _ROOT else _entry(home, found.id, entry)
    moved = None
    if not summarize:
        moved = told_its_host(home, found, "branch", entryId=target, summary=summary)
    leaf = _branched(home, found.id, target, summary, is_summarised=summarize) if moved is None else moved["leafId"]
    text = f"{short(found.id)} goes on from {target or 'the beginning'}"
    _tell(as_json, {"sessionId": found.id, "entryId": target, "leafId": leaf}, text)


def _branched(
    home: Home, session_id: str, target: str | None, summary: str | None, *, is_summarised: bool
) -> str | None:
    """Move the leaf of a session that nobody has at work; where it is then."""
    with opened(home, session_id, repairs=True) as manager:
        if is_summarised:
            _branch_summarised(home, manager, target)
        elif summary:
            manager.branch_with_summary(target, summary)
        else:
            manager.branch_to(target)
        return manager.leaf_id


@click.command("archive", help=ARCHIVE_HELP)
@SESSION
@click.option("--undo", is_flag=True, help="Put it back.")
@AS_JSON
@told
def archive_command(session: str, undo: bool, as_json: bool) -> None:
    """Append the state."""
    home = home_from_env()
    found = session_named(home, session)
    status = "active" if undo else "archived"
    if told_its_host(home, found, "archive", undo=undo) is None:
        with opened(home, found.id) as manager:
            manager.append_session_state({"status": status})
    _tell(as_json, {"sessionId": found.id, "status": status}, f"{short(found.id)} is {status}")


@click.command("delete", help=DELETE_HELP)
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="For good, where there is no trash; and what cannot be read.")
@AS_JSON
@told
def delete_command(sessions: tuple[str, ...], force: bool, as_json: bool) -> None:
    """All are named before the first one goes."""
    home = home_from_env()
    ids = dict.fromkeys(id_named(home, name) for name in sessions)
    trash = Trash.of_environment(os.environ, home.fs)
    now = time.time()
    deleted_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now))
    gone: list[str] = []
    for session_id in ids:
        if session_id in gone:
            continue
        with translated():
            removed = remove(home, session_id, trash, iso(now), deleted_at, is_forced=force)
            cancelled = Schedules(home).cancel_of(removed.session_ids)
        gone += removed.session_ids
        where = "in the trash" if removed.trashed else "gone for good"
        row = {"sessionIds": removed.session_ids, "trashed": removed.trashed, "schedules": cancelled}
        too = f"; cancelled its schedules {', '.join(cancelled)}" if cancelled else ""
        _tell(as_json, row, f"{', '.join(map(short, removed.session_ids))}: {where}{too}")


def _tell(as_json: bool, row: object, text: str) -> None:
    if as_json:
        echo_json(row)
    else:
        echo_lines([one_line(text)])
