"""`sapwood send|steer|abort|stop|spawn|compact`: talk to a session, wherever it is at work."""

import sys
from typing import Any

import click

from orchestrator.cli.common import (
    AS_JSON,
    SESSION,
    Amount,
    echo_json,
    echo_lines,
    home_from_env,
    known_names,
    options_of,
    told,
)
from orchestrator.cli.live import Reached, RunEnded, in_loop, reached, watched
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.prompt import piped_text, readable
from orchestrator.engine.status import exit_status
from orchestrator.views.text import safe_lines, sanitize_terminal
from store.ids import short

_talk = options_of(
    click.argument("words", nargs=-1, metavar="TEXT…"),
    click.option("--wait", "waits", is_flag=True, help="Until the run has ended; print its answer."),
    AS_JSON,
)


@click.command()
@SESSION
@_talk
@told
def send(session: str, words: tuple[str, ...], waits: bool, as_json: bool) -> None:
    """Give a session a prompt. While it works, it waits for the end of what is said before it.

    A session that no host has at work is opened here, and this command ends when it is quiet.

    \b
      sapwood send port-billing "And now the tests"
      sapwood send port-billing --wait "How far are you?"
    """
    _say(session, words, "followUp", waits=waits, as_json=as_json)


@click.command()
@SESSION
@_talk
@told
def steer(session: str, words: tuple[str, ...], waits: bool, as_json: bool) -> None:
    """Tell a session something that it hears before its next step.

    \b
      sapwood steer port-billing "Leave the database alone"
    """
    _say(session, words, "steer", waits=waits, as_json=as_json)


def _say(session: str, words: tuple[str, ...], behavior: str, *, waits: bool, as_json: bool) -> None:
    text = _text(words)

    async def say() -> tuple[dict[str, Any], str, RunEnded | None]:
        async with reached(home_from_env(), session) as there:
            end = await watched(there) if waits or there.is_ours else None
            receipt = await there.call("prompt", message=text, streamingBehavior=behavior)
            return receipt, there.session_id, await end() if end is not None else None

    receipt, session_id, ended = in_loop(say)
    if as_json:
        outcome = {} if ended is None else {"outcome": ended.outcome, "answer": ended.answer}
        echo_json({"sessionId": session_id, **receipt, **outcome})
    if ended is None:
        if not as_json:
            echo_lines([f"{short(session_id)}: {receipt['disposition']}"])
        return
    _tell_end(ended, as_json=as_json)


def _tell_end(ended: RunEnded, *, as_json: bool) -> None:
    """As `run` does: the answer on stdout, or the reason on stderr; and its status."""
    status = exit_status(ended.outcome)
    if status:
        click.echo(f"sapwood: {ended.outcome}: {sanitize_terminal(ended.error or ended.outcome)}", err=True)
    elif not as_json:
        echo_lines(safe_lines(ended.answer))
    sys.exit(status)


def _text(words: tuple[str, ...]) -> str:
    piped = piped_text(0, bool(words), lambda text: click.echo(f"sapwood: {text}", err=True))
    said = " ".join(map(readable, words))
    text = "\n\n".join(part for part in (piped.strip(), said.strip()) if part)
    if not text:
        raise WrongUsage('expected something to say; try: sapwood send SESSION "And now the tests"')
    return text


@click.command()
@SESSION
@AS_JSON
@told
def abort(session: str, as_json: bool) -> None:
    """End what a session does, and all below it. It stays, and can be given something else.

    \b
      sapwood abort port-billing
    """
    _end(session, "abort", as_json=as_json)


@click.command()
@SESSION
@AS_JSON
@told
def stop(session: str, as_json: bool) -> None:
    """End a session, and all below it. A stopped root is let go of: its tree can be opened elsewhere.

    \b
      sapwood stop port-billing
    """
    _end(session, "stop", as_json=as_json)


def _end(session: str, command: str, *, as_json: bool) -> None:
    async def end() -> tuple[dict[str, Any], str]:
        async with reached(home_from_env(), session) as there:
            if there.is_ours:
                return {"outcome": None}, there.session_id  # nobody has it at work, so there is nothing to end
            return await there.call(command), there.session_id

    answer, session_id = in_loop(end)
    if as_json:
        echo_json({"sessionId": session_id, **answer})
    else:
        echo_lines([f"{short(session_id)}: {answer.get('outcome') or 'was not at work'}"])


@click.command()
@click.option("--parent", required=True, metavar="SESSION", shell_complete=known_names, help="Whose child it is to be.")
@click.argument("words", nargs=-1, metavar="PROMPT…")
@click.option("--name", help="Of the child.")
@click.option("-m", "--model", metavar="PROVIDER/ID", help="Its model; by default its parent's.")
@click.option("--thinking", help="How long it thinks.")
@click.option("-t", "--tools", help="Only these tools, comma-separated.")
@click.option("--max-cost", type=Amount(), help="Dollars for it and all below it.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens for it and all below it.")
@click.option("--max-turns", type=click.IntRange(1), help="Model calls of it and all below it.")
@click.option("--timeout", "timeout_s", type=Amount(), help="Seconds for each of its runs.")
@click.option("--detach", is_flag=True, help="A parent that is not at work is opened by the resident host, not here.")
@AS_JSON
@told
def spawn(parent: str, words: tuple[str, ...], detach: bool, as_json: bool, tools: str | None, **options: Any) -> None:
    """Give a session a child. When that has ended, its parent hears of it and goes on.

    \b
      sapwood spawn --parent port-billing "Look for other callers of pay()"
    """
    limits = {name: options.pop(name) for name in ("max_cost", "max_tokens", "max_turns", "timeout_s")}
    members: dict[str, Any] = {
        **{name: value for name, value in options.items() if value is not None},
        "limits": {name: value for name, value in limits.items() if value is not None},
        "prompt": _text(words),
    }
    if tools is not None:
        members["tools"] = [name.strip() for name in tools.split(",") if name.strip()]

    async def begin() -> tuple[dict[str, Any], RunEnded | None]:
        async with reached(home_from_env(), parent, detaches=detach) as there:
            end = await watched(there) if there.is_ours else None
            return await there.call("spawn", **members), await end() if end is not None else None

    handle, ended = in_loop(begin)
    if as_json:
        echo_json(handle)
    else:
        echo_lines([f"{handle['sessionId']}   {sanitize_terminal(handle['name'])} works with {handle['model']}"])
    if ended is not None:
        _tell_end(ended, as_json=as_json)


@click.command()
@SESSION
@click.argument("instructions", nargs=-1)
@AS_JSON
@told
def compact(session: str, instructions: tuple[str, ...], as_json: bool) -> None:
    """Summarise what was said so far, so that it takes less of the context. The call is billed.

    \b
      sapwood compact port-billing
      sapwood compact port-billing "Keep the names of all files"
    """

    async def summarise() -> dict[str, Any]:
        async with reached(home_from_env(), session) as there:
            return await _compacted(there, " ".join(map(readable, instructions)))

    result = in_loop(summarise)
    if as_json:
        echo_json(result)
    else:
        echo_lines(safe_lines(str(result.get("summary", ""))))


async def _compacted(there: Reached, instructions: str) -> dict[str, Any]:
    return await there.call("compact", **({"customInstructions": instructions} if instructions.strip() else {}))
