"""`sapwood sessions import`, `export`, `check` and `repair`: sessions as files."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from orchestrator.cli.checking import check_all, check_file, check_session
from orchestrator.cli.common import (
    SESSION,
    echo_json,
    echo_lines,
    fail_if_damaged,
    home_from_env,
    id_named,
    session_named,
    told,
    tree_with,
)
from orchestrator.cli.export import pi_files, session_lines, shown_lines, write_file, write_pi, write_stdout
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.views.findings import CheckRow, ImportRow, check_lines, import_lines, repair_lines
from orchestrator.views.text import sanitize_terminal
from store.disk.drawn import new_id
from store.disk.home import Home
from store.disk.importing import Imported, Importer, Refused, read_sources
from store.errors import StoreError
from store.legacy.family import Source
from store.times import iso

IMPORT_HELP = """Make sessions of files of other programs: plain JSONL of versions 1 to 3.

pi, Prime Agent and Base Context write such files. PATH is a file, or a folder whose .jsonl files are all read. With the
session-artifacts folder of Prime Agent beside a session its children come under their parents. The files stay as they
are; what was imported before is told and left alone.

\b
  sapwood sessions import ~/.pi/agent/sessions
  sapwood sessions import old.jsonl --json"""

EXPORT_HELP = """Write a session as a plain file that pi, Prime Agent and Base Context open, or as a page for people.

\b
  sapwood sessions export port-billing -o port-billing.jsonl
  sapwood sessions export port-billing --html -o port-billing.html
  sapwood sessions export port-billing --layout pi ~/.pi/agent/sessions"""

CHECK_HELP = """Say what is wrong with stored sessions, or with a session file of another program.

Exit status 1 if anything is. Without TARGET all sessions are looked at; with one, that session and those below it.

\b
  sapwood sessions check
  sapwood sessions check port-billing --json
  sapwood sessions check ~/Downloads/session.jsonl"""

REPAIR_HELP = """Write the damaged journals of a session and of those below it anew, from what is intact in them.

The old files stay beside the new ones. What a crash left out of the tree is written, too. A tree that another process
owns is left alone.

\b
  sapwood sessions repair port-billing"""

_PATH = click.Path(path_type=Path)
_EACH = "One object per {}, each on a line of its own."


@click.command("import", help=IMPORT_HELP)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=_PATH)
@click.option("--again", is_flag=True, help="Also what was imported before; its cost still counts once.")
@click.option("--json", "as_json", is_flag=True, help=_EACH.format("file"))
@told
def import_command(paths: tuple[Path, ...], again: bool, as_json: bool) -> None:
    """Read all, import tree by tree, tell each file as soon as it is in."""
    home = home_from_env()
    named, inside = _files(paths)
    sources: list[Source] = []
    refused: list[Refused] = []
    for found in read_sources(home.fs, [*named, *inside]):
        if isinstance(found, Source):
            sources.append(found)
        else:
            refused.append(found)
    importer = Importer(home.fs, home, iso(time.time()), lambda: new_id(time.time()), again=again)
    try:
        for tree in importer.run(sources):
            for one in tree:
                _tell(_import_row(one), as_json)
    except (StoreError, OSError) as error:
        raise EngineError(f"the import stopped: {error}. What was told before is in, whole") from error
    failed = [each for each in refused if Path(each.path) in named]
    for each in failed:
        _tell(
            ImportRow(session_id=None, entries=0, skipped=(), salvaged=(), path=each.path, refusal=each.reason), as_json
        )
    others = len(refused) - len(failed)
    if others:
        click.echo(f"sapwood: passed over in these folders, as they are no sessions: {others}", err=True)
    if failed or not sources:
        raise EngineError(
            f"files that were not imported: {len(failed)}" if failed else "there is no session file in there"
        )


def _files(paths: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """Files that were named, and files in folders that were named; each once. Links in folders are not followed."""
    named: dict[Path, None] = {}
    inside: dict[Path, None] = {}
    for path in paths:
        whole = path.resolve()
        if whole.is_dir():
            inside.update(dict.fromkeys(each for each in sorted(whole.rglob("*.jsonl")) if not each.is_symlink()))
        else:
            named[whole] = None
    return list(named), [path for path in inside if path not in named]


def _import_row(one: Imported) -> ImportRow:
    return ImportRow(
        session_id=one.session_id,
        entries=one.entries,
        skipped=one.skipped,
        salvaged=one.salvaged,
        path=one.path,
        parent_session_id=one.parent_id,
        imported_before=one.is_known,
        copied_from=one.copied_from,
    )


def _tell(row: ImportRow, as_json: bool) -> None:
    if as_json:
        echo_json(row)
    else:
        echo_lines(import_lines(row))


@click.command("export", help=EXPORT_HELP)
@SESSION
@click.option("-o", "--output", "target", type=_PATH, help="A file, by default stdout.")
@click.option(
    "--layout", nargs=2, type=(click.Choice(["pi"]), _PATH), metavar="pi DIR", help="Children as well, as pi has them."
)
@click.option("--html", "as_page", is_flag=True, help="A page for people, with the children in it.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@told
def export_command(
    session: str, target: Path | None, layout: tuple[str, Path] | None, as_page: bool, force: bool
) -> None:
    """Read the session in its tree, write."""
    if layout is not None and (as_page or target is not None):
        raise WrongUsage("expected --layout alone, found -o or --html beside it")
    home = home_from_env()
    header = session_named(home, session)
    tree = tree_with(home, header)
    if layout is not None:
        files = pi_files(tree, header.id, layout[1].resolve())
        write_pi(home, files, force=force)
        echo_lines(sanitize_terminal(str(path)) for _, path in files.values())
        fail_if_damaged([tree], files)
        return
    node = tree.nodes.get(header.id)
    if node is None:
        raise EngineError(f"nothing of session {header.id} can be read. Look: sapwood sessions check {header.id}")
    if as_page:
        from orchestrator.views.html import html_page

        parts: Iterator[bytes] = (part.encode() for part in html_page(tree, header.id, time.time()))
    else:
        parts = session_lines(home, node)
        parts = parts if target is not None else shown_lines(parts)
    if target is None:
        write_stdout(parts)
    else:
        write_file(target, parts, force=force)
    fail_if_damaged([tree], [header.id])


@click.command("check", help=CHECK_HELP)
@click.argument("target", required=False)
@click.option("--json", "as_json", is_flag=True, help=_EACH.format("session"))
@told
def check_command(target: str | None, as_json: bool) -> None:
    """Look, tell, exit 1 for findings."""
    sound = found = 0
    for row in _checks(home_from_env(), target):
        sound, found = sound + row.is_sound, found + (not row.is_sound)
        if as_json:
            echo_json(row)
        elif target is not None or not row.is_sound:
            echo_lines(check_lines(row))
    if not as_json and target is None:
        echo_lines([f"sessions: {sound} sound, {found} not"])
    sys.exit(1 if found else 0)


def _checks(home: Home, target: str | None) -> Iterator[CheckRow]:
    if target is None:
        yield from check_all(home)
        return
    path = Path(target)
    if "/" in target or target.endswith(".jsonl"):
        if path.resolve().parent != home.sessions.resolve() or path.stem not in home.session_ids():
            yield check_file(home, path.resolve())
            return
        target = path.stem
    yield from check_session(home, id_named(home, target))


@click.command("repair", help=REPAIR_HELP)
@SESSION
@click.option("--json", "as_json", is_flag=True, help=_EACH.format("journal"))
@told
def repair_command(session: str, as_json: bool) -> None:
    """Repair, tell."""
    from orchestrator.cli.repairing import repair_session  # trio comes with it

    home = home_from_env()
    done = repair_session(home, id_named(home, session), time.time)
    for row in done.rows:
        if as_json:
            echo_json(row)
        else:
            echo_lines(repair_lines(row))
    if done.written and not as_json:
        echo_lines([f"{done.written} entries that a crash had left out of the tree were written"])
    if done.trouble is not None:
        raise EngineError(done.trouble)
