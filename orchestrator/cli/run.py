"""`sapwood run`: one tree, from its prompt to its exit status."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.common import home_from_env, known_names, newest_root, options_of, session_named
from orchestrator.cli.declared import as_declared
from orchestrator.cli.detaching import detach
from orchestrator.cli.ended import show_end, watched, write_answer
from orchestrator.cli.resuming import as_before
from orchestrator.dialects.projection import Projection
from orchestrator.engine.config import load_config
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.job import DURABILITY, Job
from orchestrator.engine.models import Models
from orchestrator.engine.one_shot import run_job
from orchestrator.engine.prompt import piped_text, prompt_content, readable
from orchestrator.engine.rpc import run_rpc
from orchestrator.engine.stdout import hold_standard_descriptors
from orchestrator.engine.telling import PiSpeech
from orchestrator.engine.terms import is_given, terms_given, under
from orchestrator.views.text import sanitize_terminal
from store.dialects import DIALECTS
from store.disk.home import Home
from store.disk.listing import place_of
from store.messages import Visible

_SPOKEN = ("native", "pi", "selesai")
THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")


_output = options_of(
    click.option(
        "--mode",
        type=click.Choice(["text", "json", "rpc"]),
        default="text",
        show_default=True,
        help="Output: the answer, the stream of events, or the control protocol on stdin and stdout.",
    ),
    click.option("--json", "is_json", is_flag=True, help="The same as --mode json."),
    click.option(
        "--dialect",
        type=click.Choice(list(DIALECTS)),
        default="native",
        show_default=True,
        help="Whose stream --mode json writes: our own, or that of a relative; pi's clients can drive --mode rpc, too.",
    ),
    click.option("--json-deltas", is_flag=True, help="With --mode json: no snapshots in message_update."),
    click.option(
        "--events",
        "shown",
        type=click.Choice(["tree", "root"]),
        help="With --mode json: the sessions that are shown. The whole tree, with tags; or the root alone.",
    ),
    click.option("-p", "--print", "is_print", is_flag=True, help="Accepted for people who are used to it."),
    click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the last answer there, too."),
    click.option("-q", "--quiet", is_flag=True, help="No progress on stderr."),
    click.option(
        "--detach", is_flag=True, help="Hand the work to the resident host, which is started if need be, and return."
    ),
)
_model = options_of(
    click.option("-m", "--model", envvar="SAPWOOD_MODEL", metavar="PROVIDER/ID[:THINKING]", help="The model."),
    click.option("--provider", envvar="SAPWOOD_PROVIDER", help="The provider of a model that is named without one."),
    click.option("--thinking", type=click.Choice(THINKING), envvar="SAPWOOD_THINKING", help="How long to think."),
    click.option("--fallback-model", envvar="SAPWOOD_FALLBACK_MODEL", help="When that one is overloaded or used up."),
    click.option("--wait-for-reset", is_flag=True, help="Wait as long as the provider says, also over a restart."),
    click.option("--api-key", help="Key of the provider; a variable keeps it out of the list of processes."),
)
_sessions = options_of(
    click.option("-c", "--continue", "is_continue", is_flag=True, help="Go on with the newest session of this folder."),
    click.option(
        "-r",
        "--resume",
        metavar="SESSION",
        shell_complete=known_names,
        help="Go on with this session (id, its beginning or end, name); without a prompt, with what was interrupted.",
    ),
    click.option(
        "--session",
        metavar="SESSION|PATH",
        shell_complete=known_names,
        help="The same, also by the path of its journal.",
    ),
    click.option("--fork", metavar="SESSION", shell_complete=known_names, help="Go on with a copy of this session."),
    click.option("--no-session", is_flag=True, help="Keep nothing."),
    click.option("--session-dir", type=click.Path(file_okay=False), help="Where journals lie."),
    click.option("--name", help="A name for the session."),
    click.option(
        "--durability",
        type=click.Choice(DURABILITY),
        envvar="SAPWOOD_DURABILITY",
        help="Go on when a record is written (flushed once a second), flushed with others (default), or flushed alone.",
    ),
)
_work = options_of(
    click.option(
        "--tree",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Start the agents that this TOML file declares: [[children]] with name, prompt and, as wanted, model, thinking, "
        "tools, limits, after (names of siblings; their answers come in front of the prompt, or where it says "
        "{{child.NAME}}) and children of their own. Its own prompt is asked of the root when all have ended.",
    ),
    click.option("-t", "--tools", help="Only these tools, comma-separated."),
    click.option("--no-tools", is_flag=True, help="No tools at all."),
    click.option("-C", "--cwd", type=click.Path(exists=True, file_okay=False), help="Work in this folder."),
    click.option("--system-prompt", help="Instead of our own instructions."),
    click.option("--append-system-prompt", help="After all other instructions."),
    click.option("--no-context-files", is_flag=True, help="Leave AGENTS.md and CLAUDE.md out."),
)
_limits = options_of(
    click.option("--max-depth", type=click.IntRange(0), envvar="SAPWOOD_MAX_DEPTH", help="Levels of children."),
    click.option("--max-children", type=click.IntRange(0), envvar="SAPWOOD_MAX_CHILDREN", help="Children in all."),
    click.option(
        "--max-live-children",
        type=click.IntRange(1),
        envvar="SAPWOOD_MAX_LIVE_CHILDREN",
        help="So many children work at the same time; the others wait.",
    ),
    click.option(
        "--max-turns",
        type=click.IntRange(1),
        envvar="SAPWOOD_MAX_TURNS",
        help="Model calls of the tree, before the last ones that hand back.",
    ),
    click.option(
        "--max-cost",
        "--max-budget-usd",
        type=click.FloatRange(0, min_open=True),
        envvar="SAPWOOD_MAX_COST",
        help="Dollars for the tree; a call is begun only if it fits at its worst.",
    ),
    click.option("--max-tokens", type=click.IntRange(1), envvar="SAPWOOD_MAX_TOKENS", help="Tokens for the tree."),
    click.option(
        "--timeout", type=click.FloatRange(0, min_open=True), envvar="SAPWOOD_TIMEOUT", help="Seconds for this run."
    ),
)
_trial = options_of(
    click.option(
        "--gate",
        "--autonomous-gate",
        "gates",
        multiple=True,
        metavar="CMD",
        help="A shell command that has to succeed before the run may end well; its failure goes back to the model.",
    ),
    click.option(
        "--gate-retries",
        "--autonomous-gate-retries",
        type=click.IntRange(0),
        envvar="SAPWOOD_GATE_RETRIES",
        help="So many failures of gates may be mended.",
    ),
    click.option(
        "--gate-timeout",
        type=click.FloatRange(0, 86400, min_open=True),
        envvar="SAPWOOD_GATE_TIMEOUT",
        help="Seconds for one gate.",
    ),
    click.option(
        "--autonomous",
        is_flag=True,
        envvar="SAPWOOD_AUTONOMOUS",
        help="Nobody answers: go on until the gates pass or, without gates, the model says that it is done.",
    ),
    click.option(
        "--max-continuations",
        "--autonomous-max-continuations",
        type=click.IntRange(0),
        envvar="SAPWOOD_MAX_CONTINUATIONS",
        help="How often it is told to go on.",
    ),
    click.option(
        "--goal", help='What an autonomous run, and those that go on with it, are held to; "" drops the last one.'
    ),
)


@click.command()
@click.argument("prompt", nargs=-1, metavar="[PROMPT…] [@FILE…]")
@_output
@_model
@_sessions
@_work
@_limits
@_trial
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
        **under(options, config),
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
