"""`sapwood schedule`: prompts that come again, or later, for sessions of a resident host."""

import os
import secrets
import time

import click
import trio

from orchestrator.cli.common import (
    AS_JSON,
    echo_json,
    echo_lines,
    home_from_env,
    is_ascii,
    session_named,
    terminal_width,
    told,
    translated,
)
from orchestrator.engine.errors import NotOurs, WrongUsage
from orchestrator.engine.prompt import readable
from orchestrator.engine.resident import resident_of
from orchestrator.views.schedule_text import schedule_list
from orchestrator.views.text import one_line
from store.disk.home import Home
from store.disk.schedules import Schedules
from store.disk.zones import local_zone, zone_named
from store.errors import BadWhen
from store.schedules import TickMode, new_schedule
from store.when import GRAMMAR

HELP = f"""Prompts that come again, or later. A resident host (`sapwood serve`) delivers them to their sessions.

\b
  sapwood schedule add port-billing "every 10m" "Are the tests green?"
  sapwood schedule add port-billing "0 9 * * mon-fri" "Review what is open"
  sapwood schedule list
  sapwood schedule cancel 4f1c09aa

WHEN is one of: {GRAMMAR}. A busy session gets the prompt when its run would end; ticks that were missed come as one."""

ADD_HELP = """Add a schedule and print its id.

\b
  sapwood schedule add port-billing "in 30m" "Look at the benchmark"
  sapwood schedule add 4f1c09aa "every 1h" --steer "Say how far you are" """


@click.group(help=HELP)
def command() -> None:
    """The group."""


@command.command("add", help=ADD_HELP)
@click.argument("session")
@click.argument("when")
@click.argument("prompt", nargs=-1, required=True)
@click.option("--steer", "is_steer", is_flag=True, help="A busy session gets it before its next model call.")
@click.option("--zone", help="The place whose clock counts, such as Europe/Berlin (default: this machine's).")
@AS_JSON
@told
def add_command(
    session: str, when: str, prompt: tuple[str, ...], is_steer: bool, zone: str | None, as_json: bool
) -> None:
    home = home_from_env()
    text = readable(" ".join(prompt))
    if not text.strip():
        raise WrongUsage("expected a prompt, found nothing but space")
    place = zone or local_zone(os.environ)
    mode: TickMode = "steer" if is_steer else "follow_up"
    header = session_named(home, session)
    try:
        schedule = new_schedule(
            secrets.token_hex(4), header.id, readable(when), text, mode, time.time(), (place, zone_named(place))
        )
    except BadWhen as error:
        raise WrongUsage(str(error)) from error
    with translated():
        Schedules(home).add(schedule)
    if as_json:
        echo_json(schedule)
    else:
        echo_lines([f"{schedule.id}  next at {schedule.next_at}"])
    if trio.run(resident_of, home) is None:
        click.echo("sapwood: no resident host is running; it is delivered once there is one: sapwood serve", err=True)


@command.command("list")
@click.argument("session", required=False)
@AS_JSON
@told
def list_command(session: str | None, as_json: bool) -> None:
    """Schedules, the next one first; those of SESSION, if one is named.

    \b
      sapwood schedule list
      sapwood schedule list port-billing --json
    """
    home = home_from_env()
    wanted = None if session is None else session_named(home, session).id
    with translated():
        found, troubles = Schedules(home).all()
    shown = [each for each in found if wanted in {None, each.session_id}]
    if as_json:
        echo_json(shown)
    elif shown:
        echo_lines(schedule_list(shown, time.time(), terminal_width(), ascii=is_ascii()))
    elif not troubles:
        click.echo("no schedules; make one with: sapwood schedule add SESSION WHEN PROMPT", err=True)
    if troubles:
        raise NotOurs("\n".join(troubles.values()))


@command.command("cancel")
@click.argument("ids", nargs=-1, required=True)
@AS_JSON
@told
def cancel_command(ids: tuple[str, ...], as_json: bool) -> None:
    """Cancel schedules, named by their ids or unique beginnings of them.

    \b
      sapwood schedule cancel 4f1c09aa
    """
    home = home_from_env()
    with translated():
        chosen = [_named(home, id) for id in ids]
        for schedule_id in chosen:
            Schedules(home).cancel(schedule_id)
    if as_json:
        echo_json(chosen)
    else:
        echo_lines([f"cancelled {schedule_id}" for schedule_id in chosen])


def _named(home: Home, name: str) -> str:
    """Also one whose file is damaged. Raises WrongUsage."""
    found, troubles = Schedules(home).all()
    fits = [id for id in (*(each.id for each in found), *troubles) if name and id.startswith(name)]
    if len(fits) != 1:
        what = "several are" if fits else "none is"
        raise WrongUsage(f"expected the id of one schedule, {what} called {one_line(name)}; see sapwood schedule list")
    return fits[0]
