"""What a run shows of itself to people: its tree while it works, its answer or its failure when it has ended."""

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli.stdout import drop_stdout, leave
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.job import Ended, Job
from orchestrator.views.text import safe_lines, sanitize_terminal
from store.usage import pico_usd

if TYPE_CHECKING:
    from orchestrator.cli.notes import Notes
    from orchestrator.cli.progress import Progress


def watched(job: Job, *, is_quiet: bool) -> "Progress | Notes | None":
    """The live tree on stderr, for people at a terminal who asked for text; else the warnings, where no stream tells them."""
    if is_quiet or sys.stderr is None or (job.is_json and job.stream.dialect.is_native):
        return None
    if job.is_json or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        from orchestrator.cli.notes import Notes

        return Notes() if job.is_json else Notes(frozenset({"warning"}))  # an error is what the run ends with
    from orchestrator.cli.progress import Progress

    limit_usd = job.budgets.get("max_cost")
    return Progress(None if limit_usd is None else pico_usd(limit_usd))


def show_end(job: Job, ended: Ended) -> None:
    """In text mode the answer alone on stdout, if there is one; why it did not end well on stderr. Exits where stdout fails."""
    if ended.status != 0 and ended.error:
        click.echo(f"sapwood: {ended.outcome}: {sanitize_terminal(ended.error)}", err=True)
    if ended.has_answer and not job.is_json:
        try:
            _print(ended.answer)
        except BrokenPipeError:
            leave()
        except OSError as error:
            drop_stdout()
            click.echo(f"sapwood: stdout could not be written: {error.strerror}", err=True)
            sys.exit(1)


def _print(answer: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    safe = "\n".join(safe_lines(answer)) if sys.stdout.isatty() else answer
    click.echo(safe.encode(sys.stdout.encoding, "replace"))


def must_be_writable(path: str) -> None:
    """Raises WrongUsage: an answer that there is no place for is told before it is paid for."""
    parent = Path(path).absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise WrongUsage(f"expected a path for the answer, found {path}, and no file can be written in {parent}")


def write_answer(path: str | None, ended: Ended) -> bool:
    """False: it should be there and is not."""
    if path is None or not ended.has_answer:
        return True
    try:
        Path(path).write_text(ended.answer + "\n", "utf-8")
    except OSError as error:
        click.echo(f"sapwood: the answer could not be written to {path}: {error.strerror}", err=True)
        return False
    return True
