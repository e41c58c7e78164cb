"""F1 to F3: how soon the command is there. CPU time of whole processes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.harness import Row, Side, absent, at_most, in_turns

SAPWOOD = str(Path(sys.executable).with_name("sapwood"))
PATIENCE_S = 60.0
WIDE = "import msgspec, attrs, click"
HEAVY = ("trio", "httpx")

# All that a first request needs, without a line of ours. httpx is imported as we do it, without its own command line.
FIRST_REQUEST = """
import sys
sys.modules["httpx._main"] = None
import attrs, click, httpx, msgspec, trio
context = httpx.create_ssl_context()
async def main():
    stream = await trio.open_tcp_stream("127.0.0.1", int(sys.argv[1]))
    await stream.send_all(b"POST / HTTP/1.1\\r\\n\\r\\n")
    await trio.sleep_forever()
trio.run(main)
"""


@contextmanager
def _home() -> Iterator[dict[str, str]]:
    """An environment with a home that is empty."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "SAPWOOD_HOME": f"{folder}/home"}


def process(command: Sequence[str], environ: dict[str, str]) -> Side:
    """The CPU seconds of a whole process."""

    def side() -> float:
        child = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise RuntimeError(f"{command} ended with {child.returncode}")
        return usage.ru_utime + usage.ru_stime

    return side


def first_request(command: Sequence[str], environ: dict[str, str]) -> Side:
    """The CPU seconds of a process until its request is here. `{port}` is where it must go."""

    def side() -> float:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(PATIENCE_S)
            port = str(server.getsockname()[1])
            filled = [part.replace("{port}", port) for part in command]
            env = {name: value.replace("{port}", port) for name, value in environ.items()}
            child = subprocess.Popen(filled, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(PATIENCE_S)
                    if not connection.recv(1 << 16).startswith(b"POST "):
                        raise RuntimeError(f"{command}: expected a POST")
                    os.kill(child.pid, signal.SIGKILL)
            except BaseException:
                child.kill()
                raise
            finally:
                _, _, usage = os.wait4(child.pid, 0)
                child.returncode = -signal.SIGKILL
        return usage.ru_utime + usage.ru_stime

    return side


def f1(rounds: int) -> list[Row]:
    """`--version` and `--help`"""
    node = shutil.which("node")
    with _home() as environ:
        sides = {
            "--version": process([SAPWOOD, "--version"], environ),
            "--help": process([SAPWOOD, "--help"], environ),
            "imports": process([sys.executable, "-c", WIDE], environ),
        }
        if node is not None:
            sides["node"] = process([node, "-e", "0"], environ)
        best = in_turns(rounds, sides)
    rows = [at_most(f"F1 {name}", 1.25, best[name], best["imports"], WIDE) for name in ("--version", "--help")]
    if node is None:
        return [*rows, absent("F1 --version", "<= 2x node -e 0", "node not installed")]
    return [
        *rows,
        *(at_most(f"F1 {name}", 2, best[name], best["node"], "node -e 0") for name in ("--version", "--help")),
    ]


IMPORTED = """
import sys
from orchestrator.cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    if end.code:
        raise
print(*sorted(sys.modules), file=sys.stderr)
"""


def f2(rounds: int) -> list[Row]:
    """what reading stored sessions imports"""
    rows = []
    with _home() as environ:
        script = Path(environ["HOME"]) / "script.toml"
        script.write_text('[[reply]]\ntext = "done"\n', "utf-8")
        subprocess.run(
            [SAPWOOD, "-m", "scripted/script.toml", "--name", "stored", "go"],
            cwd=environ["HOME"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        for arguments in (["sessions", "list"], ["sessions", "show", "stored"], ["usage"], ["agents", "--all"]):
            done = subprocess.run(
                [sys.executable, "-c", IMPORTED.format(arguments=arguments)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                check=True,
            )
            found = sorted(set(HEAVY) & set(done.stderr.split()))
            measured = ", ".join(found) or "none"
            rows.append(Row(f"F2 {' '.join(arguments)}", f"no {', '.join(HEAVY)}", measured, "", "", not found))
    return rows


def f3(rounds: int) -> list[Row]:
    """from the command to its first request on the wire"""
    with _home() as environ:
        ours = environ | {"OPENAI_BASE_URL": "http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "none"}
        sides = {
            "ours": first_request([SAPWOOD, "-m", "openai/fake", "hello"], ours),
            "bare": first_request([sys.executable, "-c", FIRST_REQUEST, "{port}"], environ),
        }
        best = in_turns(rounds, sides)
    return [at_most("F3 first request", 1.2, best["ours"], best["bare"], "imports + trio.run + SSL context")]
