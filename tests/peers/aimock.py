"""aimock, a mock of LLM providers that others wrote, as a process on a free port of 127.0.0.1."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, STDOUT

import trio

from tests.peers.npm import peers

PATIENCE_S = 30.0
_LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:([0-9]+)")


@asynccontextmanager
async def aimock(fixtures: Path, *options: str) -> AsyncIterator[str]:
    """The address of a server that plays this file. A request that the file has no answer for gets an error 503."""
    program = peers() / "node_modules" / ".bin" / "llmock"
    command = [str(shutil.which("node")), str(program.resolve()), "--port", "0", "--fixtures", str(fixtures)]
    command += ["--strict", "--validate-on-load", *options]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stdout=PIPE, stderr=STDOUT, check=False))
        try:
            output = process.stdout
            with trio.fail_after(PATIENCE_S):
                port = await _port(output)
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            nursery.start_soon(_read_on, output)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            nursery.cancel_scope.cancel()


async def _port(output: trio.abc.ReceiveStream) -> int:
    said = b""
    while (found := _LISTENING.search(said)) is None or not said.endswith(b"\n"):
        piece = await output.receive_some()
        if not piece:
            raise RuntimeError(f"aimock ended instead of listening: {said.decode(errors='replace')}")
        said += piece
    return int(found[1])


async def _read_on(output: trio.abc.ReceiveStream) -> None:
    while await output.receive_some():
        pass
