"""`sapwood dashboard`: the agents in a browser."""

import signal
import tempfile
import webbrowser
from pathlib import Path

import click
import trio

from orchestrator.cli.common import echo_lines, home_from_env, told
from orchestrator.cli.stored_trees import StoredTrees
from orchestrator.engine.errors import EngineError, WrongUsage
from orchestrator.engine.watch import Watch
from store.disk.home import Home

HELP = """The agents in a browser: their tree, money, conversations and events, live, with what can be done to them.

It listens on this machine only, and the printed address is the key. Ctrl-C ends the dashboard and no agent.

\b
  sapwood dashboard --open
  sapwood dashboard --port 8080 --read-only"""

NEEDS_WEB = "the dashboard needs the extra `web`, which is not installed: pip install 'sapwood[web]'"


@click.command(help=HELP)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1; without it any that is free.")
@click.option("--open", "is_open", is_flag=True, help="Open the address in the browser.")
@click.option("--read-only", is_flag=True, help="Show only: no messages, no aborts, no changes.")
@told
def command(port: int, is_open: bool, read_only: bool) -> None:
    """Bind, print, serve."""
    home = home_from_env()
    try:
        from orchestrator.cli.dashboard_ports import WatchedForest, WatchedJournals
        from orchestrator.cli.hands import WatchedHands
        from orchestrator.web.dashboard import Dashboard
        from orchestrator.web.server import Server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in {"starlette", "hypercorn", "anyio", "h11"}:
            raise EngineError(NEEDS_WEB) from error
        raise

    stored = StoredTrees(home)
    watch = Watch(home, stored)
    hands = None if read_only else WatchedHands(home, watch)
    dashboard = Dashboard(WatchedForest(watch, stored), WatchedJournals(home), hands)
    try:
        server = Server.bound(dashboard, port)
    except OSError as error:
        raise WrongUsage(f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; choose another --port") from error

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            if is_open:
                nursery.start_soon(_open, home, server.door.address)
            await server.run(_until_told_to_end)
            nursery.cancel_scope.cancel()

    echo_lines([server.door.address, "Ctrl-C ends the dashboard, and no agent."])
    trio.run(serve)


async def _until_told_to_end() -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
        await anext(aiter(received))


async def _open(home: Home, address: str) -> None:
    """By a file that sends the browser on: everybody on the machine can see with what a program was started."""
    home.create()
    with tempfile.TemporaryDirectory(dir=home.root, prefix="dashboard-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">', "utf-8")
        if not await trio.to_thread.run_sync(webbrowser.open, page.as_uri(), abandon_on_cancel=True):
            click.echo("sapwood: no browser could be started; open the address yourself", err=True)
        await trio.sleep_forever()
