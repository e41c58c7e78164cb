"""The command `sapwood`: looks at the first argument, imports that command alone."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from orchestrator import __version__
from orchestrator.cli.lazy import LazyGroup
from orchestrator.cli.stdout import drop_stdout, leave
from orchestrator.views.text import sanitize_terminal

COMMANDS = {
    "run": ("orchestrator.cli.run", "Run a tree of agents until it is quiet (what sapwood does without a command)."),
    "attach": ("orchestrator.cli.attach:attach", "Look at one session as it works, and talk to it."),
    "spawn": ("orchestrator.cli.talk:spawn", "Give a session a child, wherever it is at work."),
    "send": ("orchestrator.cli.talk:send", "Give a session a prompt."),
    "steer": ("orchestrator.cli.talk:steer", "Tell a session something before its next step."),
    "abort": ("orchestrator.cli.talk:abort", "End what a session does."),
    "stop": ("orchestrator.cli.talk:stop", "End a session."),
    "compact": ("orchestrator.cli.talk:compact", "Summarise what a session holds."),
    "serve": ("orchestrator.cli.serve:serve", "The resident host: trees that outlive their terminals."),
    "status": ("orchestrator.cli.serve:status", "Which hosts run, and what they are at."),
    "shutdown": ("orchestrator.cli.serve:shutdown", "End the resident host."),
    "agents": ("orchestrator.cli.agents", "The agents view: the trees of sessions, one row each."),
    "dashboard": ("orchestrator.cli.dashboard", "The agents in a browser, live, with what can be done to them."),
    "usage": ("orchestrator.cli.usage", "Own and total tokens and cost, per session of a tree."),
    "sessions": (
        "orchestrator.cli.sessions",
        "Stored sessions: list, show, search, rename, fork, export, import, check, repair …",
    ),
    "events": ("orchestrator.cli.events", "Event streams: replay a stored tree, follow live ones, validate a stream."),
    "schedule": ("orchestrator.cli.schedule", "Prompts that come again, or later: add, list, cancel."),
    "models": ("orchestrator.cli.models", "Models that can be named, with their windows and prices."),
    "doctor": ("orchestrator.cli.doctor", "What is wrong with the home: dead sockets, lost sessions …; mends it."),
    "config": ("orchestrator.cli.config", "What is set, and where it comes from."),
    "completion": ("orchestrator.cli.completion", "A script that lets bash, zsh or fish complete our commands."),
    "demo": ("orchestrator.cli.demo", "A scripted tree on the folder that it is started in: no key, no network."),
}

USAGE = """Run trees of LLM agents.

\b
  sapwood "What does this project do?"
  sapwood run --mode json "List files"
  sapwood demo

Without a command's name everything is given to `run`; see `sapwood run --help`."""


class ReaderGone(Exception):
    """Stands for BrokenPipeError, which click would make a status of 1."""


@contextmanager
def no_broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class Commands(LazyGroup):
    """Knows a reader that has gone from an error of ours."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if extra.get("resilient_parsing") and args:  # a shell that completes what may be given to `run`
            args = with_command(args)
        with no_broken_pipe():
            return super().make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The options of `run` can be given without its name."""
        found = super().shell_complete(ctx, incomplete)
        run = self.get_command(ctx, "run") if incomplete.startswith("-") else None
        return found if run is None else found + run.shell_complete(ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        with no_broken_pipe():
            return super().invoke(ctx)


@click.group(cls=Commands, table=COMMANDS, help=USAGE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sapwood")
def group() -> None:
    """The whole program."""


def with_command(arguments: list[str]) -> list[str]:
    """`arguments` with `run` in front, unless the first is a command or asks for help or version of the whole."""
    if not arguments:
        return ["run"]
    if arguments[0] in COMMANDS:
        return arguments
    if len(arguments) == 1 and arguments[0] in {"--help", "-h", "--version"}:
        return arguments
    return ["run", *arguments]


def main(arguments: list[str] | None = None) -> NoReturn:
    """Entry point. Exit statuses: see `orchestrator/engine/status.py`."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        status = group.main(args=with_command(given), prog_name="sapwood", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            sys.exit(130)
        click.echo("Aborted!", err=True)
        sys.exit(1)
    except (ReaderGone, BrokenPipeError):
        leave()
    except OSError as error:
        drop_stdout()
        what = "stdout could not be written" if error.filename is None else os.fsdecode(error.filename)
        click.echo(f"sapwood: {sanitize_terminal(what)}: {error.strerror or error}", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    main()
