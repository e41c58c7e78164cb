"""`sapwood serve`, `status` and `shutdown`: the resident host."""

import os
import sys
from typing import Any

import click
import trio

from orchestrator.cli.common import AS_JSON, echo_json, echo_lines, home_from_env, told
from orchestrator.cli.live import unheard
from orchestrator.engine.client import Client, HostGone, HostInfo, asked, hosts
from orchestrator.engine.control.endpoint import answering
from orchestrator.engine.errors import EngineError
from orchestrator.engine.host import hosting
from orchestrator.engine.resident import Resident, ended
from orchestrator.engine.stdout import hold_standard_descriptors
from orchestrator.views.text import count, one_line, safe_lines
from store.disk.home import Home
from store.ids import short

PATIENCE_S = 30.0


@click.command()
@told
def serve() -> None:
    """Keep trees running when their terminals are gone. Ctrl-C or `sapwood shutdown` ends it.

    \b
      sapwood serve
      nohup sapwood serve &
    """
    hold_standard_descriptors()
    home = home_from_env()

    def say(text: str) -> None:
        click.echo("sapwood: " + "\n".join(safe_lines(text)), err=True)

    try:
        sys.exit(hosting(home, Resident(home, os.environ, say).run))
    except KeyboardInterrupt:
        sys.exit(130)


@click.command()
@AS_JSON
@told
def status(as_json: bool) -> None:
    """Which hosts run here, the resident one first, and what they are at.

    \b
      sapwood status
      sapwood status --json
    """
    home = home_from_env()
    answered, silent = trio.run(_hosts, home)
    found = trio.run(_seen, sorted(answered, key=lambda host: not host.is_resident))
    if as_json:
        echo_json(found)
    elif found or not silent:
        none = ["No host is running.", "sapwood serve    or    sapwood run --detach …"]
        echo_lines(map(_line, found) if found else none)
    for pid in silent:
        click.echo(f"sapwood: {unheard(pid)}", err=True)


async def _hosts(home: Home) -> tuple[list[HostInfo], list[str]]:
    """Those that answer; the process ids of those that listen and say nothing: they hang, or are stopped."""
    listened = answering(home)
    found = await hosts(home)
    silent = set(listened).intersection(answering(home)).difference(host.path for host in found)
    return found, [socket.name.partition("-")[0] for socket in sorted(silent)]


def _line(host: dict[str, Any]) -> str:
    kind = "resident" if host["resident"] else "run"
    working = f"{host['working']} of {count(host['sessions'], 'session')} at work"
    names = ", ".join(one_line(name, 40) for name in host["names"])
    return f"{kind:<8}  pid {host['pid']:<8}  {working:<26}  {names}".rstrip()


async def _seen(found: list[HostInfo]) -> list[dict[str, Any]]:
    rows = await asked((host.path for host in found), Client.rows)
    return [_shown(host, rows[host.path]) for host in found if host.path in rows]


def _shown(host: HostInfo, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "hostId": host.host_id,
        "pid": host.pid,
        "version": host.version,
        "resident": host.is_resident,
        "path": str(host.path),
        "roots": list(host.roots),
        "names": [row["name"] or short(row["sessionId"]) for row in rows if row["depth"] == 0],
        "sessions": len(rows),
        "working": sum(row["status"] not in {"idle", "archived"} for row in rows),
    }


@click.command()
@AS_JSON
@told
def shutdown(as_json: bool) -> None:
    """End the resident host. Trees that run are stopped and written down.

    \b
      sapwood shutdown
    """
    host = trio.run(_shut, home_from_env())
    if as_json:
        echo_json({"pid": host.pid, "hostId": host.host_id})
    else:
        echo_lines([f"The resident host (pid {host.pid}) has ended."])


async def _shut(home: Home) -> HostInfo:
    found, silent = await _hosts(home)
    host = next((host for host in found if host.is_resident), None)
    if host is None and silent:
        raise EngineError(f"no resident host answers; {'; '.join(map(unheard, silent))}")
    if host is None:
        raise EngineError("no resident host is running; `sapwood status` shows what is")
    try:
        async with await Client.connect(host.path) as client:
            await client.call({"type": "shutdown"})
    except HostGone:
        pass
    if not await ended(home, host, PATIENCE_S):
        raise EngineError(f"the resident host (pid {host.pid}) was told to end, and has not within {PATIENCE_S:.0f} s")
    return host
