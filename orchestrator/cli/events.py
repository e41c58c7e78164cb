"""`sapwood events`: streams of JSON lines."""

import difflib
import sys
from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec
from click.shell_completion import CompletionItem

from orchestrator.cli.common import (
    echo_json,
    echo_lines,
    fail_if_damaged,
    home_from_env,
    known_names,
    newest_root,
    session_named,
    told,
    tree_with,
    write_bytes,
)
from orchestrator.dialects.projection import Projection, project
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.views.stored import Stored, members, subtree
from orchestrator.views.text import one_line
from store.dialects import DIALECTS
from store.forest_stream import ForestChecker
from store.kinds import KNOWN
from store.replay import replay_lines
from store.stream import Finding

HELP = """Event streams: JSON lines as `sapwood --mode json` prints them.

With the name of a session, or with none: the stored tree, replayed from its journals.

\b
  sapwood events 53e9c608
  sapwood events --follow
  sapwood events --type child_settled --type run_settled
  sapwood --mode json "List files" | sapwood events validate"""

REPLAY_HELP = """Replay a stored tree as one stream, numbered anew, without deltas. No SESSION: the newest tree.

With --follow: what live hosts tell from now on, until those of these sessions have ended; all hosts, also those that come, where
none is named. A `gap` line says how many lines were missed.

\b
  sapwood events --follow
  sapwood events --follow 53e9c608 --type message_end
  sapwood events show 53e9c608 | jq -c 'select(.type == "message_end")'"""

VALIDATE_HELP = """Say what is wrong with a stream, with line numbers; exit status 1 if anything is.

FILE `-`, or none, is stdin.

\b
  sapwood events validate run.jsonl
  sapwood events validate run.jsonl --exit-status 0
  pi --mode json "List files" | sapwood events validate --dialect pi"""

LINE_LIMIT_BYTES = 64 << 20


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    file: str
    sound: bool
    lines: int
    sessions: int
    findings: list[Finding]


class _Head(msgspec.Struct):
    type: str = ""
    id: str = ""


_head: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


class Streams(click.Group):
    """`events SESSION` is `events show SESSION`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_own = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        is_asked_for = not args and ctx.resilient_parsing  # by a shell that completes
        return super().parse_args(ctx, args if is_own or is_asked_for else ["show", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        words = [param for param in show.params if isinstance(param, click.Argument)]
        own = super().shell_complete(ctx, incomplete) + show.shell_complete(ctx, incomplete)
        return own + [item for word in words for item in word.shell_complete(ctx, incomplete)]


@click.group(cls=Streams, help=HELP)
def command() -> None:
    """The group."""


@command.command(help=REPLAY_HELP)
@click.argument("sessions", nargs=-1, metavar="[SESSION…]", shell_complete=known_names)
@click.option("-f", "--follow", "is_live", is_flag=True, help="What happens from now on; all hosts, or these sessions.")
@click.option("--type", "types", multiple=True, help="Only events of this type (repeatable).")
@click.option(
    "--since", type=click.IntRange(0), metavar="SEQ", help="With --follow: what came behind this number, too."
)
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default="native", show_default=True)
@click.option("--json-deltas", is_flag=True, help="No snapshots in message_update, in the dialects that have them.")
@click.option("--events", "shown", type=click.Choice(["tree", "root"]), help="The sessions that are shown.")
@told
def show(
    sessions: tuple[str, ...],
    is_live: bool,
    types: tuple[str, ...],
    since: int | None,
    dialect: str,
    json_deltas: bool,
    shown: str | None,
) -> None:
    """Trees one after the other; a child's name gives what is below it."""
    _fail_if_unknown(types)
    if since is not None and not (is_live and len(sessions) == 1):
        raise WrongUsage("--since counts the lines of one live tree: use it with --follow and one SESSION")
    home = home_from_env()
    projection = Projection.of(dialect, has_deltas=json_deltas, shown=shown, types=types)
    if is_live:
        from orchestrator.cli.following import follow  # a replay needs no loop

        follow(home, sessions, projection, since)
        return
    headers = {header.id: header for header in [session_named(home, name) for name in sessions] or [newest_root(home)]}
    trees: list[Stored] = []
    told_ids: set[str] = set()
    for header in headers.values():
        state = projection
        tree = tree_with(home, header)
        trees.append(tree)
        fail_if_damaged([tree], {header.id} - set(tree.nodes))
        for line in replay_lines(tree.nodes, header.id):
            state, told_line = project(state, line)
            if told_line:
                write_bytes(told_line)
        told_ids.update(member.session_id for member in subtree(members(tree), header.id))
    fail_if_damaged(trees, told_ids)


def _fail_if_unknown(types: tuple[str, ...]) -> None:
    """Raises WrongUsage: a type that no event has would give nothing, which looks like an answer."""
    known = KNOWN | {dialect.queue_event for dialect in DIALECTS.values()}
    for kind in types:
        if kind not in known:
            near = difflib.get_close_matches(kind, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise WrongUsage(f"no event has the type {one_line(kind)!r}; {hint}")


@command.command(help=VALIDATE_HELP)
@click.argument("file", default="-")
@click.option("--dialect", type=click.Choice(list(DIALECTS)), default="native", show_default=True)
@click.option(
    "--exit-status", type=int, help="The exit status of the program that wrote the stream, to be checked too."
)
@click.option(
    "--filtered", "is_filtered", is_flag=True, help="Some sessions of the tree were left out (--events root)."
)
@click.option("--json", "as_json", is_flag=True, help="The verdict as one JSON object.")
@told
def validate(file: str, dialect: str, exit_status: int | None, is_filtered: bool, as_json: bool) -> None:
    """Read, check, print each finding as it comes."""
    checker = ForestChecker(DIALECTS[dialect], is_filtered)
    count = 0
    sessions: set[str] = set()
    kept: list[Finding] = []
    name = "stdin" if file == "-" else one_line(file)
    found = 0
    for findings, line in _checked(checker, _lines(file), exit_status):
        count += line is not None
        if line is not None and b'"session"' in line:
            sessions.update(_session_named(line))
        found += len(findings)
        if as_json:
            kept += findings
        elif findings:
            echo_lines(f"{name}:{each.line}: {each.rule}: {one_line(each.text)}" for each in findings)
    if as_json:
        echo_json(Verdict(file=name, sound=not found, lines=count, sessions=len(sessions), findings=kept))
    elif not found:
        lines = "1 line" if count == 1 else f"{count} lines"
        echo_lines([f"sound: {lines}, {len(sessions)} session{'' if len(sessions) == 1 else 's'}"])
    if found:
        sys.exit(1)


def _checked(
    checker: ForestChecker, lines: Iterator[bytes | None], exit_status: int | None
) -> Iterator[tuple[list[Finding], bytes | None]]:
    """Each line with what was found at it; at last what is found at the end, without a line."""
    for line in lines:
        if line is None:
            yield checker.pass_over(f"expected lines of at most {LINE_LIMIT_BYTES} bytes, found a longer one"), b""
        else:
            yield checker.feed(line), line
    yield checker.end(exit_status), None


def _lines(file: str) -> Iterator[bytes | None]:
    """The lines of a binary file: cut at byte 0A and nowhere else, newline included. None: one that is too long to be read."""
    try:
        stream: BinaryIO = sys.stdin.buffer if file == "-" else open(file, "rb")  # noqa: SIM115
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from error
    with stream:
        while True:
            try:
                line = stream.readline(LINE_LIMIT_BYTES + 1)
                is_too_long = len(line) > LINE_LIMIT_BYTES
                while is_too_long and line and not line.endswith(b"\n"):
                    line = stream.readline(LINE_LIMIT_BYTES)
            except OSError as error:
                raise EngineError(f"{file}: {error.strerror}") from error
            if not line and not is_too_long:
                return
            yield None if is_too_long else line


def _session_named(line: bytes) -> set[str]:
    try:
        head = _head.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return set()
    return {head.id} if head.type == "session" else set()
