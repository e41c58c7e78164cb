"""`sapwood run`: one tree, from its prompt to its exit status."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from orchestrator.cli import run_options
from orchestrator.cli.common import home_from_env, newest_root, session_named
from orchestrator.cli.declared import as_declared
from orchestrator.cli.detaching import detach
from orchestrator.cli.ended import must_be_writable, show_end, watched, write_answer
from orchestrator.cli.resuming import as_before
from orchestrator.dialects.projection import Projection
from orchestrator.engine.config import load_config
from orchestrator.engine.declared.plan import must_fit
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.one_shot import run_job
from orchestrator.engine.prompt import piped_text, prompt_content, readable
from orchestrator.engine.rpc import run_rpc
from orchestrator.engine.stdout import hold_standard_descriptors
from orchestrator.engine.telling import PiSpeech
from orchestrator.engine.terms import is_given, terms_given, under
from orchestrator.views.text import sanitize_terminal
from store.disk.home import Home
from store.disk.listing import place_of
from store.messages import Visible

_SPOKEN = ("native", "pi", "selesai")


@click.command()
@click.argument("prompt", nargs=-1, metavar="[PROMPT…] [@FILE…]")
@run_options.output
@run_options.model
@run_options.sessions
@run_options.work
@run_options.limits
@run_options.trial
def command(prompt: tuple[str, ...], **options: Any) -> None:
    """Run a tree of agents until it is quiet. Piped text and @files join the prompt.

    \b
      sapwood run "What does this project do?"
      git diff | sapwood run "Review this"
      sapwood run -c "And now the tests"
      sapwood run --tree release.toml
      sapwood run --gate "make check" "Mend the failing tests"
      sapwood run --detach "Port the billing module"
      sapwood run --resume release          # after a crash: with all that was interrupted
      sapwood run --mode json "List files" | jq -c 'select(.type == "message_end")'
      echo '{"type":"get_state"}' | sapwood run --mode rpc
    """
    hold_standard_descriptors()
    try:
        home = place_of(home_from_env(), options["session_dir"])
        folder = work_folder(options["cwd"])
        if options["output"] is not None:
            must_be_writable(options["output"])
        stored = _stored(options, home, folder)
        is_rpc = options["mode"] == "rpc"
        piped = "" if is_rpc else _piped(has_prompt=bool(prompt or options["tree"]))
        if stored is not None and not (prompt or piped.strip() or is_rpc):
            options = as_before(home, stored, options)
            folder = work_folder(options["cwd"])
        config = load_config(home.config_path, folder)
        models = Models(config, os.environ, folder, options["api_key"])
        job = _job(prompt, piped, stored, options, home, folder, models)
        if options["detach"]:
            detach(job, home, options)
            sys.exit(0)
        progress = watched(job, is_quiet=options["quiet"])
        if options["mode"] == "rpc":
            ended = run_rpc(job, home, models, _speech(options))
        else:
            ended = run_job(job, home, models, progress)
    except EngineError as error:
        click.echo(f"sapwood: {sanitize_terminal(str(error))}", err=True)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)
    if progress is not None:
        progress.final()
    is_written = write_answer(options["output"], ended)
    show_end(job, ended)
    sys.exit(ended.status if is_written else 1)


def work_folder(named: str | None) -> Path:
    """The folder to work in, from the root down: journals keep it, and the configuration is looked for above it."""
    try:
        folder = Path(os.path.abspath(named or os.getcwd()))
        str(folder).encode()
    except FileNotFoundError as error:
        raise WrongUsage("the folder that this was started in is not there any more; name one with -C") from error
    except UnicodeEncodeError as error:
        raise WrongUsage(f"expected a folder whose name is UTF-8, found {os.fsencode(folder)!r}") from error
    return folder


def _job(
    words: tuple[str, ...],
    piped: str,
    stored: str | None,
    options: dict[str, Any],
    home: Home,
    folder: Path,
    models: Models,
) -> Job:
    is_rpc = options["mode"] == "rpc"
    plan = None
    if options["tree"] is not None:
        plan, options, words = as_declared(Path(options["tree"]), options, words, piped)
        for node in plan.nodes():
            if node.model is not None:
                models.get(node.model)
    has_stored = stored is not None or options["fork"] is not None
    model, thinking = models.chosen(options["model"], options["provider"], options["thinking"], has_stored=has_stored)
    config = models.config
    is_json = options["is_json"] or options["mode"] != "text"
    bounds = under(options, config)
    if plan is not None:
        must_fit(plan, bounds["limits"])
    return Job(
        prompt=prompt_content(words, piped, folder) if words or piped.strip() else _unsaid(is_rpc, stored, folder),
        model=model,
        cwd=folder,
        environ=os.environ,
        session=stored,
        fork=session_named(home, options["fork"]).id if options["fork"] is not None else None,
        name=readable(options["name"]) if options["name"] else None,
        tree=plan,
        terms=terms_given(options),
        thinking=thinking,
        is_kept=not options["no_session"],
        durability=options["durability"] or config.durability,
        is_json=is_json,
        stream=_stream(options, is_json),
        **bounds,
    )


def _unsaid(is_rpc: bool, stored: str | None, folder: Path) -> str | tuple[Visible, ...] | None:
    """What a run without a prompt is to do: hear what comes, go on with what was interrupted, or nothing: raises WrongUsage."""
    if is_rpc:
        return ""
    return None if stored is not None else prompt_content((), "", folder)


def _piped(*, has_prompt: bool) -> str:
    return piped_text(0, has_prompt, lambda text: click.echo(f"sapwood: {text}", err=True))


def _stream(options: dict[str, Any], is_json: bool) -> Projection:
    """How the stream is told. Raises WrongUsage for what only a stream can heed."""
    asked = {
        "--dialect": options["dialect"] != "native",
        "--json-deltas": options["json_deltas"],
        "--events": options["shown"] is not None,
    }
    for option in (name for name, is_asked in asked.items() if is_asked and not is_json):
        raise WrongUsage(f"{option} is about the stream of events; it requires --mode json")
    if options["mode"] == "rpc" and (options["dialect"] not in _SPOKEN or asked["--json-deltas"] or asked["--events"]):
        raise WrongUsage(f"--mode rpc speaks {', '.join(_SPOKEN)}, and each in its own way")
    return Projection.of(options["dialect"], has_deltas=options["json_deltas"], shown=options["shown"])


def _speech(options: dict[str, Any]) -> PiSpeech | None:
    """In whose words the client talks; None: ours."""
    return PiSpeech() if options["dialect"] in {"pi", "selesai"} else None


def _stored(options: dict[str, Any], home: Home, folder: Path) -> str | None:
    """The id of the stored session to go on with, if one is asked for. Raises WrongUsage."""
    ways = [way for way in ("is_continue", "resume", "session", "fork", "no_session") if is_given(options[way])]
    if len(ways) > 1:
        raise WrongUsage("expected at most one of -c, -r, --session, --fork, --no-session")
    if options["tree"] is not None and ways not in ([], ["no_session"]):
        raise WrongUsage("expected --tree alone: a stored session goes on with the tree that was declared for it")
    if options["is_continue"]:
        return newest_root(home, str(folder)).id
    named = options["resume"] if options["resume"] is not None else options["session"]
    if named is None:
        return None
    path = Path(named)
    if path.suffix == ".jsonl":
        if path.absolute().parent != home.sessions:
            raise WrongUsage(
                f"{path} is not a journal in {home.sessions}; `--session-dir {path.parent}` opens journals elsewhere, "
                "`sapwood sessions import` reads files of other programs"
            )
        named = path.stem
    return session_named(home, named).id
