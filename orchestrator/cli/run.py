"""`sapwood run`: one tree, from its prompt to its exit status."""

import os
import sys
from pathlib import Path

import click
import msgspec

from orchestrator.cli.common import home_from_env, known_session
from orchestrator.engine.config import load_config
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.host import Ended, Job, run_job
from orchestrator.engine.models import Models
from orchestrator.views.text import sanitize_terminal


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("prompt", nargs=-1)
@click.option("-m", "--model", envvar="SAPWOOD_MODEL", metavar="PROVIDER/ID", help="scripted/FILE.toml plays a script.")
@click.option("--mode", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--json", "is_json", is_flag=True, help="The same as --mode json.")
@click.option("-p", "--print", "is_print", is_flag=True, help="Accepted for people who are used to it.")
@click.option("-r", "--resume", metavar="SESSION", help="Go on with a stored session.")
@click.option("--name", help="A name for the session.")
@click.option("-C", "--cwd", type=click.Path(exists=True, file_okay=False), help="Work in this folder.")
@click.option("--max-depth", type=click.IntRange(0), envvar="SAPWOOD_MAX_DEPTH", help="Levels of children.")
@click.option("--max-children", type=click.IntRange(0), envvar="SAPWOOD_MAX_CHILDREN", help="Children in all.")
@click.option(
    "--max-live-children", type=click.IntRange(1), envvar="SAPWOOD_MAX_LIVE_CHILDREN", help="Above it children wait."
)
@click.option("--max-turns", type=click.IntRange(1), envvar="SAPWOOD_MAX_TURNS", help="Model calls of the whole tree.")
def command(
    prompt: tuple[str, ...],
    model: str | None,
    mode: str,
    is_json: bool,
    is_print: bool,
    resume: str | None,
    name: str | None,
    cwd: str | None,
    **limits: int | None,
) -> None:
    """Run a tree of agents until it is quiet.

    \b
      sapwood run -m scripted/script.toml "Survey this folder"
      sapwood run --mode json -r 1f3a9c2e "And now the tests"
    """
    try:
        if not prompt or not " ".join(prompt).strip():
            raise WrongUsage('no prompt; try: sapwood "What does this project do?" (or `sapwood demo`)')
        folder = Path(cwd or os.getcwd())
        home = home_from_env()
        config = load_config(home.config_path, folder)
        given = {key: value for key, value in limits.items() if value is not None}
        job = Job(
            prompt=" ".join(prompt),
            model=model or (None if resume else config.model),
            cwd=folder,
            environ=os.environ,
            limits=msgspec.structs.replace(config.limits, **given),
            retry=config.retry,
            session=known_session(home, resume).id if resume else None,
            name=name,
            is_json=is_json or mode == "json",
        )
        ended = run_job(job, home, Models(config, os.environ, folder))
    except EngineError as error:
        click.echo(f"sapwood: {sanitize_terminal(str(error))}", err=True)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)
    show_end(job, ended)
    sys.exit(ended.status)


def show_end(job: Job, ended: Ended) -> None:
    """In text mode the answer alone on stdout, or nothing there and the reason on stderr."""
    if ended.status != 0 and ended.error:
        click.echo(f"sapwood: {ended.outcome}: {sanitize_terminal(ended.error)}", err=True)
    elif not job.is_json:
        answer = ended.answer if not sys.stdout.isatty() else sanitize_terminal(ended.answer)
        click.echo(answer)
