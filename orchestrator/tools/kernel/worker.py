"""The process in which cells run. One file, for any Python from 3.8 on: the project's own interpreter runs it, which knows
nothing of ours.

    python -u worker.py IN OUT LIFE CONFIG

JSON lines come in by the descriptor IN and go out by OUT; LIFE ends when the host does. The other ends are in `link.py`.
Descriptor 0 is empty, 1 and 2 are one pipe that the host reads: so what C code and child processes write is heard too, no
thread of ours can stand in its way, and the last words of a killed process are not lost. Results and tracebacks go that
way as well.

Cells run in the main thread. One asyncio loop lives as long as the process: it turns between the cells, so that tasks of
one cell go on after it, and in those that `await`. All others run outside of it: there `asyncio.run` works.
"""

from __future__ import annotations

import os
import sys

# Before all else: a file beside this one, or in the project, must not stand in for a module of the standard library.
if sys.path and os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]

import __future__

import ast
import asyncio
import builtins
import difflib
import fcntl
import importlib
import importlib.abc
import importlib.machinery
import io
import itertools
import json
import linecache
import math
import pprint
import queue
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar

LINE_BYTES = 16 * 1024 * 1024
WAIT_S = 600.0  # the longest that the host waits at once
ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB in one argument
CELL = "<cell "
AWAITED = 0x80  # inspect.CO_COROUTINE
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
# Without `await` these still need the loop to be running.
NEEDS_LOOP = re.compile(r"\b(create_task|ensure_future|get_running_loop|current_task|all_tasks)\b")


class CellFailure(Exception):
    """What is told in one line, without a traceback."""


# --- the channel to the host ------------------------------------------------------------------------------------------


def private(fd: int) -> int:
    """A copy that child processes do not get, and that is not among the low numbers which programs close."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)
    except OSError:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class Channel:
    """JSON lines both ways. A thread of its own writes: an interrupt in the middle of a line would break the stream."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = private(source), private(sink)
        os.close(source)
        os.close(sink)
        self.pid = os.getpid()
        self.outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.hear: dict[str, Callable[[dict[str, Any]], None]] = {}
        os.register_at_fork(after_in_child=self.close)

    def start(self) -> None:
        for work in (self.write, self.read):
            threading.Thread(target=work, name="sapwood-" + work.__name__, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        if os.getpid() != self.pid:
            raise RuntimeError("this is a fork of the kernel; only the kernel itself can ask its host")
        line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        if len(line) > LINE_BYTES:
            raise ValueError(f"the request has {len(line):,} bytes; the limit is {LINE_BYTES:,}")
        self.outgoing.put(line)

    def write(self) -> None:
        while True:
            rest = memoryview(self.outgoing.get())
            while rest:
                rest = rest[os.write(self.sink, rest) :]

    def read(self) -> None:
        try:
            with open(self.source, "rb", closefd=False) as lines:
                for line in lines:
                    message = json.loads(line)
                    self.hear[message["type"]](message)
        finally:
            # The host is gone, and nobody else will end what runs here.
            if os.getpgrp() == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            os._exit(1)

    def close(self) -> None:
        for fd in (self.source, self.sink):
            try:
                os.close(fd)
            except OSError:
                pass


class Host:
    """Questions to the host, from any thread that has a loop. They are heard while a cell runs, else with the next one."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.numbers = itertools.count(1)
        self.open: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[dict[str, Any]]]] = {}
        channel.hear["answer"] = self.answered

    async def ask(self, kind: str, **members: Any) -> dict[str, Any]:
        """Raises Refused with the host's reason."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()
        number = next(self.numbers)
        self.open[number] = loop, future
        try:
            self.channel.send({"type": "ask", "id": number, "request": dict(members, type=kind)})
            answer = await future
        except asyncio.CancelledError:
            self.channel.send({"type": "cancel", "id": number})
            raise
        finally:
            del self.open[number]
        if answer["type"] == "refused":
            raise Refused(answer["reason"])
        return answer

    def answered(self, message: dict[str, Any]) -> None:
        loop, future = self.open.get(message["id"], (None, None))
        if loop is None or future is None:
            return
        try:
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(message["value"]))
        except RuntimeError:  # that loop is closed
            pass


# --- what is preloaded: rlm, agent_message, compact -------------------------------------------------------------------


class Refused(RuntimeError):
    """The host did not do it, and says why."""


class Record:
    """What the host tells, by attribute or by key."""

    aliases: ClassVar[dict[str, str]] = {}

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        if name in self.aliases:
            return getattr(self, self.aliases[name])
        known = ", ".join(key for key in self.__dict__ if not key.startswith("_"))
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {known}")

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self, key)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __repr__(self) -> str:
        members = ((key, value) for key, value in self.__dict__.items() if value not in (None, "", [], ()))
        return "{}({})".format(type(self).__name__, ", ".join("{}={!r}".format(*member) for member in members))


class Agent(Record):
    """One of the family. `status` is `running` until it has settled; then it is the outcome."""

    aliases: ClassVar[dict[str, str]] = {"session_name": "name", "relationship": "role", "rlm_child_id": "session_id"}


class Model(Record):
    """`selector` is what `rlm(…, model=…)` takes."""


class Receipt(Record):
    aliases: ClassVar[dict[str, str]] = {
        "deliveryStatus": "delivery",
        "delivery_status": "delivery",
        "id": "message_id",
    }


class Result(Record):
    """How a child stands. `ok`: it completed. While it is `running`, `text` is what there is so far."""

    @property
    def ok(self) -> bool:
        return bool(self.outcome == "completed")

    def __str__(self) -> str:
        if self.ok:
            return str(self.text)
        why = ": " + self.error_message if self.error_message else ""
        return f"[{self.status}{why}] {self.text}".rstrip()


class Results(list):  # type: ignore[type-arg]  # list[Result] is not there in 3.8
    """Of several children, and why the wait ended: settled, timeout, message."""

    ended = "settled"


class Handle(Record):
    """An admitted child. It runs on its own: `await handle.result()` waits for it."""

    aliases: ClassVar[dict[str, str]] = {"session_name": "name", "rlm_child_id": "session_id"}
    _rlm: Rlm
    name: str

    async def result(self, timeout: float | None = None) -> Result:
        """Its outcome and whole text. After `timeout` seconds (600), or when a message arrives, it may still run."""
        found = await self._rlm.wait([self], timeout=timeout)
        if not found:
            raise Refused(f"the host has no report of {self.name}")
        result: Result = found[0]
        return result

    async def abort(self) -> Result:
        return await self._rlm.abort_subagent(self)

    async def send(self, message: str, mode: str = "auto") -> Any:
        return await self._rlm.agent_message.send(message, to=self, mode=mode)


def name_of(agent: Any) -> str:
    """Whatever names an agent: every call takes a handle, a row of a list, a result or a name."""
    name = getattr(agent, "name", agent)
    if not isinstance(name, str) or not name:
        raise TypeError(f"expected the name or handle of an agent, found {agent!r}")
    return name


def is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def is_period(value: Any) -> bool:
    return is_amount(value) and bool(value > 0)


def checked(option: str, value: Any, wanted: str, is_right: Callable[[Any], bool]) -> Any:
    """None stands for an option that is not given."""
    if (value is None and option != "prompt") or is_right(value):
        return value
    raise TypeError(f"expected {wanted} as {option}, found {value!r}")


def unknown_option(option: str, known: list[str]) -> str:
    near = difflib.get_close_matches(option, known, n=1)
    return f"rlm() has no option {option}=; " + (
        f"did you mean {near[0]}=?" if near else f"known are {', '.join(known)}"
    )


def as_result(report: dict[str, Any]) -> Result:
    members = {key: value for key, value in report.items() if key != "type"}
    return Result(**members, status=report["outcome"] or "running")


class Rlm(types.ModuleType):
    """Recursive calls: children that work for this session, each with a context of its own."""

    Refused = Refused

    def __init__(self, host: Host) -> None:
        super().__init__("rlm", self.__doc__)
        self._host = host
        self.agent_message = AgentMessage(host)
        Handle._rlm = self

    def __call__(
        self,
        prompt: str,
        *,
        name: str | None = None,
        model: str | None = None,
        thinking: str | None = None,
        tools: Iterable[str] | None = None,
        max_cost: float | None = None,
        max_tokens: float | None = None,
        timeout: float | None = None,
        timeout_s: float | None = None,
        wait: bool = False,
        **unknown: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Start a child. `await rlm(…)` gives its handle as soon as it is admitted; with `wait=True`, its result.

        `timeout` is in seconds, `max_cost` in dollars; both hold for the child and all below it.
        """
        if unknown:
            raise TypeError(unknown_option(next(iter(unknown)), list(type(self).__call__.__kwdefaults__ or ())))
        if isinstance(tools, str):
            tools = [tools]
        request = {
            "prompt": checked("prompt", prompt, "a string that says all the child needs", is_text),
            "name": checked("name", name, "a string", is_text),
            "model": checked("model", model, "a string", is_text),
            "thinking": checked("thinking", thinking, "a string", is_text),
            "tools": None if tools is None else [checked("tools", tool, "names", is_text) for tool in tools],
        }
        limits = {
            "max_cost": checked("max_cost", max_cost, "a number of at least 0", is_amount),
            "max_tokens": checked("max_tokens", max_tokens, "a number of at least 0", is_amount),
            "timeout_s": checked("timeout", timeout if timeout_s is None else timeout_s, "seconds above 0", is_period),
        }
        request["limits"] = {key: float(value) for key, value in limits.items() if value is not None}
        spawned: Any = self._spawn(request, wait)
        spawned.__qualname__ = "rlm"  # so it is called where Python warns that it was never awaited
        return spawned  # type: ignore[no-any-return]

    async def _spawn(self, request: dict[str, Any], wait: bool) -> Any:
        answer = await self._host.ask("spawn", **request)
        handle = Handle(name=answer["name"], session_id=answer["session_id"], model=answer["model"])
        return await handle.result() if wait else handle

    async def wait(self, children: Any = None, mode: str = "all", timeout: float | None = None) -> Results:
        """Wait for `all` of the children (none given: each) or `any`; a list of how they stand."""
        if children is None:
            children = []
        elif isinstance(children, (str, Record)):
            children = [children]
        names = [name_of(child) for child in children]
        timeout = WAIT_S if timeout is None else checked("timeout", timeout, "a number of seconds", is_amount)
        end = time.monotonic() + timeout
        while True:
            left = max(0.0, end - time.monotonic())
            answer = await self._host.ask("wait_for", names=names, mode=mode, timeout_s=min(left, WAIT_S))
            if answer["ended"] != "timeout" or left <= WAIT_S:
                break
        results = Results(as_result(report) for report in answer["reports"])
        results.ended = answer["ended"]
        return results

    async def list_subagents(self) -> list[Agent]:
        """The children of this session, those of earlier runs included."""
        return [agent for agent in await self.agent_message.list_agents() if agent.role == "child"]

    async def abort_subagent(self, child: Any) -> Result:
        """End its run; it stays, and can be sent messages."""
        return as_result((await self._host.ask("abort_child", name=name_of(child)))["report"])

    async def delete_subagent(self, child: Any) -> Record:
        """Stop it for good."""
        answer = await self._host.ask("delete_child", name=name_of(child))
        return Record(name=answer["name"], session_id=answer["session_id"], deleted=True)

    async def find_models(self, query: str = "", limit: int | None = None) -> list[Model]:
        """Models that a child can have."""
        rows = (await self._host.ask("find_models", query=query))["models"]
        return [Model(**row) for row in rows[:limit]]


class AgentMessage(types.ModuleType):
    """Messages in the family: parent, siblings, children."""

    def __init__(self, host: Host) -> None:
        super().__init__("agent_message", self.__doc__)
        self._host = host

    async def send(
        self,
        message: str,
        to: Any = None,
        mode: str = "auto",
        *,
        receiver_role: str | None = None,
        receiver_name: str | None = None,
    ) -> Any:
        """Send to `parent` (default), the name or handle of a child or sibling, or `all`. Gives the receipt."""
        if not is_text(message):
            raise TypeError(f"expected a string as message, found {message!r}")
        target = name_of(to or receiver_name or receiver_role or "parent")
        answer = await self._host.ask("send", to=target, message=message, mode=mode)
        rows = answer.get("receipts", [answer])
        receipts = [Receipt(to=row["to"], delivery=row["delivery"], message_id=row["message_id"]) for row in rows]
        return receipts if answer["type"] == "receipts" else receipts[0]

    async def list_agents(self) -> list[Agent]:
        """Everyone in the family, with status and usage; tokens and dollars with all that is below each."""
        rows = (await self._host.ask("list_family"))["relatives"]
        return [
            Agent(
                name=row["name"],
                role=row["role"],
                status=_status(row["status"], row["outcome"]),
                outcome=row["outcome"],
                session_id=row["sessionId"],
                tokens=row["totalTokens"],
                cost_usd=row["totalUsd"],
            )
            for row in rows
        ]


def _status(status: str, outcome: str) -> str:
    """`running` means: not settled. Who waits, retries or compacts has work."""
    if status in ("running", "waiting", "retrying", "compacting"):
        return "running"
    return outcome or ("running" if status == "idle" else status)


class Compact(types.ModuleType):
    """The context of this session: how full it is, and summarising it."""

    def __init__(self, host: Host) -> None:
        super().__init__("compact", self.__doc__)
        self._host = host

    async def run(self, instructions: str | None = None) -> Record:
        """Summarise the context before the next request to the model. Variables stay as they are."""
        return self._record(await self._host.ask("compact", instructions=instructions))

    async def status(self) -> Record:
        return self._record(await self._host.ask("compact_status"))

    def _record(self, answer: dict[str, Any]) -> Record:
        return Record(**{key: value for key, value in answer.items() if key != "type"})


class PreloadedFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """`import rlm` works too, unless the project has a module of that name."""

    def __init__(self, modules: dict[str, types.ModuleType]) -> None:
        self.modules = modules

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in self.modules else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self.modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        pass


# --- commands of the shell --------------------------------------------------------------------------------------------

PLACE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|\$\$|\$([A-Za-z_]\w*)")


def expanded(command: str, frame: types.FrameType) -> str:
    """With the values of `{expression}` and `$name`, where Python has them; else they are the shell's."""

    def value(place: re.Match[str]) -> str:
        expression = place.group(1) or place.group(2)
        if expression is None:
            return place.group()[0]
        if place.group(2) and expression not in frame.f_locals and expression not in frame.f_globals:
            return place.group()
        try:
            found = eval(expression, frame.f_globals, frame.f_locals)
        except Exception:
            return place.group()
        return place.group() if callable(found) or isinstance(found, types.ModuleType) else str(found)

    return PLACE.sub(value, command)


def descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def run_command(argv: list[str]) -> int:
    """Run it with our own output. If it is interrupted, so is all that it started."""
    process = subprocess.Popen(argv)
    try:
        return process.wait()
    except BaseException:
        family = descendants(process.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in family:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
        raise


class Commands:
    """`!command`, `x = !command` and `%%bash`, the same with IPython and without."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.bash = shutil.which("bash") or "/bin/sh"

    def system(self, command: str) -> None:
        self.worker.flush()
        status = run_command([self.bash, "-c", expanded(command, sys._getframe(1))])
        self.worker.names["_exit_code"] = status
        if status:
            self.worker.say(f"[exit status {status}]\n")

    def getoutput(self, command: str) -> Lines:
        self.worker.flush()
        argv = [self.bash, "-c", expanded(command, sys._getframe(1))]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.worker.names["_exit_code"] = done.returncode
        text = done.stdout.decode("utf-8", "replace")
        return Lines(text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else [])

    def script(self, line: str, body: str, program: str | None = None) -> None:
        """A cell that is a script, with `line` as options of the shell."""
        self.worker.flush()
        argv = [program or self.bash, *shlex.split(line)]
        if len(body.encode()) < ARGUMENT_BYTES:
            status = run_command([*argv, "-c", body])
        else:
            with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
                file.write(body)
                file.flush()
                status = run_command([*argv, file.name])
        self.worker.names["_exit_code"] = status
        if status:
            raise CellFailure(f"[exit status {status}]")

    def pip(self, line: str) -> None:
        raise CellFailure(
            "%pip is not run here: cells run in the project's interpreter, whose packages are the project's. "
            f"Where a change is meant, say so: !{shlex.quote(sys.executable)} -m pip {line}"
        )


class Lines(list):  # type: ignore[type-arg]  # list[str] is not there in 3.8
    """The lines of an output; `n`: as one text, `s`: as one line."""

    n = property("\n".join)
    s = property(" ".join)


# --- from the text of a cell to Python --------------------------------------------------------------------------------

COMMAND_LINE = re.compile(r"(?P<before>\s*)(?P<mark>!!|!|%)(?P<rest>[^%].*)$")
ASSIGNED = re.compile(r"(?P<before>\s*[^\s=!%][^=!<>]*=\s*)(?P<mark>!|%)(?P<rest>[^=%].*)$")
HELP = re.compile(r"(?P<before>\s*)(?:\?{1,2}(?P<first>[A-Za-z_][\w.]*)|(?P<last>[A-Za-z_][\w.]*)\?{1,2})\s*$")


def as_python(line: str) -> str | None:
    """What a line stands for that is not Python, or None."""
    found = COMMAND_LINE.match(line) or ASSIGNED.match(line)
    if found is None:
        found = HELP.match(line)
        if found is None:
            return None
        return "{}get_ipython().run_line_magic('pinfo', {!r})".format(found["before"], found["first"] or found["last"])
    rest = found["rest"].strip()
    if found["mark"] == "%":
        name, _, line = rest.partition(" ")
        return "{}get_ipython().run_line_magic({!r}, {!r})".format(found["before"], name, line.strip())
    call = "system" if found["mark"] == "!" and not found["before"].strip() else "getoutput"
    return "{}get_ipython().{}({!r})".format(found["before"], call, rest)


def transformed(source: str) -> str:
    """With `!`, `%` and `?` lines as Python. The parser says which they are: in a string it has nothing against them.

    Line numbers stay. Where the parser objects to something else, that is left for it to say again.
    """
    lines = source.split("\n")
    while True:
        text = "\n".join(lines)
        try:
            compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | TOP_LEVEL_AWAIT, True)
            return text
        except SyntaxError as error:
            index = _objectionable(lines, (error.lineno or 1) - 1)
        if index is None:
            return text
        end = index
        while lines[end].endswith("\\") and end + 1 < len(lines):
            end += 1
        joined = " ".join(line[:-1] if line.endswith("\\") else line for line in lines[index : end + 1])
        python = as_python(joined)
        lines[index : end + 1] = [python or joined] + [""] * (end - index)
        if python is None:
            return "\n".join(lines)


def _objectionable(lines: list[str], at: int) -> int | None:
    """The line that is meant: an open quote in it may make the parser object further down."""
    candidates = [index for index, line in enumerate(lines) if as_python(line) is not None]
    return at if at in candidates else max((index for index in candidates if index < at), default=None)


def codes_of(source: str, name: str, flags: int) -> list[types.CodeType]:
    """What to run in turn. The last one has a value if the cell ends in an expression without a semicolon behind it."""
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | TOP_LEVEL_AWAIT | flags, True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)]
    end_line = source.split("\n")[(last.end_lineno or 1) - 1].encode()
    is_silent = end_line[last.end_col_offset :].lstrip(b" \t)").startswith(b";")
    if is_silent:
        return [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)]
    tree.body.pop()
    codes = [compile(tree, name, "exec", TOP_LEVEL_AWAIT | flags, True)] if tree.body else []
    return [*codes, compile(ast.Expression(last.value), name, "eval", TOP_LEVEL_AWAIT | flags, True)]


FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class Printer(pprint.PrettyPrinter):
    """Containers over several lines, but no string in pieces."""

    _dispatch: ClassVar[dict[Any, Any]] = {
        key: value for key, value in getattr(pprint.PrettyPrinter, "_dispatch", {}).items() if key is not str.__repr__
    }


def shown(value: object) -> str:
    text = repr(value)
    is_container = isinstance(value, (dict, list, tuple, set, frozenset))
    if is_container and 100 < len(text) < 100_000 and "\n" not in text:
        return Printer(width=110, compact=True, sort_dicts=False).pformat(value)
    return text


def pretty(value: object, printer: Any, _: bool) -> None:
    """As IPython's formatters want it."""
    printer.text(shown(value))


# --- cells, with IPython and without ----------------------------------------------------------------------------------


class PlainShell:
    """Does by itself what people use most of IPython. `get_ipython()` gives this object."""

    ipython_version = None

    def __init__(self, worker: Worker, commands: Commands) -> None:
        self.worker = worker
        self.user_ns = worker.names
        self.system, self.getoutput = commands.system, commands.getoutput
        self.flags = 0
        self.last_folder = os.getcwd()
        self.line_magics: dict[str, Callable[[str], Any]] = {
            "cd": self.cd,
            "pwd": lambda line: os.getcwd(),
            "env": self.env,
            "pip": commands.pip,
            "time": lambda line: self.timed(line),
            "pinfo": self.help,
            "matplotlib": lambda line: None,
        }
        self.cell_magics: dict[str, Callable[[str, str], Any]] = {
            "bash": commands.script,
            "sh": lambda line, body: commands.script(line, body, "/bin/sh"),
            "time": lambda line, body: self.timed(body),
            "writefile": self.write_file,
        }
        builtins.get_ipython = lambda: self  # type: ignore[attr-defined]
        builtins.display = self.display  # type: ignore[attr-defined]

    def run(self, source: str, name: str) -> BaseException | None:
        """Run the cell and show what it gives, or what ended it early."""
        try:
            if source.lstrip().startswith("%%"):
                line, _, body = source.lstrip()[2:].partition("\n")
                magic, _, line = line.strip().partition(" ")
                source = f"get_ipython().run_cell_magic({magic!r}, {line.strip()!r}, {body!r})"
            codes = codes_of(transformed(source), name, self.flags)
            for code in codes:
                self.flags |= code.co_flags & FUTURES
            needs_loop = NEEDS_LOOP.search(source) or any(code.co_flags & AWAITED for code in codes)
            value = self.worker.drive(self.evaluate(codes), bool(needs_loop))
            if value is not None:
                builtins._ = value  # type: ignore[attr-defined]
                self.display(value)
        except BaseException as error:
            self.worker.tell(error)
            return error
        return None

    async def evaluate(self, codes: list[types.CodeType]) -> Any:
        value = None
        for code in codes:
            value = eval(code, self.user_ns)
            if code.co_flags & AWAITED:
                value = await value
        return value

    def display(self, *values: object) -> None:
        for value in values:
            self.worker.say(shown(value) + "\n")

    def run_line_magic(self, name: str, line: str) -> Any:
        return self._magic("%", name, self.line_magics)(expanded(line, sys._getframe(1)))

    def run_cell_magic(self, name: str, line: str, body: str) -> Any:
        return self._magic("%%", name, self.cell_magics)(line, body)

    def _magic(self, mark: str, name: str, known: dict[str, Any]) -> Any:
        if name not in known:
            names = ", ".join(mark + other for other in known)
            raise CellFailure(f"{mark}{name} needs IPython, which {sys.executable} lacks; here are {names}")
        return known[name]

    def cd(self, line: str) -> None:
        folder = self.last_folder if line == "-" else os.path.expanduser(line.strip("\"'") or "~")
        before = os.getcwd()
        os.chdir(folder)
        self.last_folder = before
        self.worker.say(os.getcwd() + "\n")

    def env(self, line: str) -> Any:
        name, is_set, value = (part.strip() for part in line.partition("=" if "=" in line else " "))
        if is_set or value:
            os.environ[name] = value
            return None
        return os.environ.get(name) if name else dict(os.environ)

    def timed(self, source: str) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        value = None
        for code in codes_of(transformed(source), CELL + "time>", self.flags):
            if code.co_flags & AWAITED:
                raise CellFailure("%time does not await here; take time.perf_counter() before and after")
            value = eval(code, self.user_ns)
        spent = time.process_time() - cpu, time.perf_counter() - wall
        self.worker.say("CPU time: {:.3g} s, wall time: {:.3g} s\n".format(*spent))
        return value

    def write_file(self, line: str, body: str) -> None:
        words = shlex.split(line)
        is_added = "-a" in words
        path = [word for word in words if word != "-a"]
        if len(path) != 1:
            raise CellFailure("%%writefile wants one path: %%writefile [-a] PATH")
        with open(os.path.expanduser(path[0]), "a" if is_added else "w", encoding="utf-8") as file:
            file.write(body)
        self.worker.say("{} {}\n".format("Appended to" if is_added else "Wrote", path[0]))

    def help(self, line: str) -> None:
        import inspect

        value = eval(line, self.user_ns)
        try:
            head = line + str(inspect.signature(value))
        except (TypeError, ValueError):
            head = f"{line}: {type(value).__name__}"
        self.worker.say("{}\n{}\n".format(head, inspect.getdoc(value) or "(no documentation)"))


class RichShell:
    """IPython's own shell, with our output, tracebacks, commands and loop. Raises ImportError if there is none to use."""

    def __init__(self, worker: Worker, commands: Commands, folder: str) -> None:
        import IPython
        from IPython.core.interactiveshell import InteractiveShell

        if IPython.version_info[0] < 8:
            raise ImportError(f"IPython {IPython.__version__} is too old")

        class Shell(InteractiveShell):  # type: ignore[misc]
            def init_virtualenv(self) -> None:
                """The interpreter was chosen; packages of another are not to be mixed in."""

        self.worker = worker
        self.ipython_version = IPython.__version__
        self.folder = os.path.dirname(IPython.__file__)
        self.told: BaseException | None = None  # also of a formatter, which the result does not name
        config = importlib.import_module("traitlets.config").Config()
        config.HistoryManager.enabled = False
        config.HistoryManager.hist_file = ":memory:"
        config.InteractiveShell.colors = "NoColor"
        self.shell = shell = Shell.instance(
            config=config, ipython_dir=folder, user_module=sys.modules["__main__"], user_ns=worker.names
        )
        shell.system, shell.getoutput = commands.system, commands.getoutput
        shell.register_magic_function(commands.script, "cell", "bash")
        shell.register_magic_function(lambda line, body: commands.script(line, body, "/bin/sh"), "cell", "sh")
        shell.register_magic_function(commands.pip, "line", "pip")
        shell.showtraceback = shell.showsyntaxerror = shell.showindentationerror = self.tell
        shell.displayhook.write_output_prompt = lambda: None
        shell.displayhook.write_format_data = self.display
        shell.set_hook("show_in_pager", self.page)
        shell.display_formatter.active_types = ["text/plain"]
        for container in (dict, list, tuple, set, frozenset):
            # IPython gives every item of a longer one a line of its own.
            shell.display_formatter.formatters["text/plain"].for_type(container, pretty)
        shell.loop_runner = worker.in_loop
        warnings.filterwarnings("ignore", message="To exit: use")

    def run(self, source: str, name: str) -> BaseException | None:
        shell = self.shell
        shell.compile.get_code_name = lambda *_: name
        self.told = None
        problem: Any = None
        try:
            text = shell.transform_cell(source)
        except Exception:
            text, problem = source, sys.exc_info()
        needs_loop = NEEDS_LOOP.search(source) or shell.should_run_async(
            source, transformed_cell=text, preprocessing_exc_tuple=problem
        )
        cell = shell.run_cell_async(source, True, transformed_cell=text, preprocessing_exc_tuple=problem)
        try:
            result = self.worker.drive(cell, bool(needs_loop))
        except BaseException as error:
            self.worker.tell(error)
            return error
        ended: BaseException | None = result.error_before_exec or result.error_in_exec
        return ended or self.told

    def tell(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        self.told = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
        if self.told is not None:
            self.worker.tell(self.told)

    def display(self, forms: dict[str, Any], *_: Any) -> None:
        self.worker.say(forms.get("text/plain", "") + "\n")

    def page(self, _: Any, data: Any, **__: Any) -> None:
        self.worker.say((data["text/plain"] if isinstance(data, dict) else data) + "\n")


# --- the process ------------------------------------------------------------------------------------------------------


class Worker:
    """Takes cells one after the other, and the interrupts of each."""

    def __init__(self, channel: Channel, config: dict[str, Any]) -> None:
        self.channel = channel
        self.cells: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.out = private(1)
        self.count = 0
        self.is_running = self.is_interrupted = False
        self.task: asyncio.Task[Any] | None = None
        # The user's own main module, so that pickle and multiprocessing find what cells define.
        self.module = sys.modules["__main__"] = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.open_output()
        self.open_loop()
        channel.hear["execute"] = self.take
        commands = Commands(self)
        self.shell: PlainShell | RichShell
        try:
            if not config.get("ipython", True):
                raise ImportError("not wanted")
            self.shell = RichShell(self, commands, config["folder"])
        except Exception:
            self.shell = PlainShell(self, commands)

    def open_output(self) -> None:
        """As the host gave it, whatever a cell did to it."""
        for fd in (1, 2):
            os.dup2(self.out, fd)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            if getattr(getattr(sys, name), "is_sapwood", False) and not getattr(sys, name).closed:
                continue
            # Not Python's own under -u: that one loses the rest of a write which a signal cut short.
            raw = io.FileIO(fd, "wb", closefd=False)
            stream = Output(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)

    def open_loop(self) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.arrived = asyncio.Event()

    def take(self, message: dict[str, Any]) -> None:
        self.cells.put(message)
        try:
            self.loop.call_soon_threadsafe(self.arrived.set)
        except RuntimeError:  # a cell has closed it; `next_cell` looks before it waits
            pass

    def serve(self) -> None:
        signal.signal(signal.SIGINT, self.interrupt)
        version = sys.version.split()[0]
        self.channel.send({"type": "ready", "python": version, "ipython": self.shell.ipython_version})
        while True:
            cell = self.next_cell()
            status = self.run(cell["code"])
            self.flush()
            if os.getpid() != self.channel.pid:  # a cell has forked, and this is not the kernel
                os._exit(status != "ok")
            self.channel.send({"type": "end", "id": cell["id"], "status": status, "count": self.count})

    def next_cell(self) -> dict[str, Any]:
        """The tasks that earlier cells have left go on meanwhile."""
        while True:
            if self.loop.is_closed():
                self.open_loop()
            asyncio.set_event_loop(self.loop)  # asyncio.run has taken it away
            self.arrived.clear()
            try:
                return self.cells.get_nowait()
            except queue.Empty:
                pass
            self.turn_until(self.loop.create_task(self.arrived.wait()))

    def run(self, code: str) -> str:
        self.count += 1
        name = f"{CELL}{self.count}>"
        linecache.cache[name] = len(code), None, [line + "\n" for line in code.split("\n")], name
        self.open_output()
        signal.signal(signal.SIGINT, self.interrupt)
        error: BaseException | None
        try:
            try:
                self.is_interrupted, self.is_running = False, True
                error = self.shell.run(code, name)
            finally:
                self.is_running = False
        except KeyboardInterrupt as late:  # just as it ended
            self.is_running, error = False, late
        if self.is_interrupted and isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            return "interrupted"
        is_well = error is None or (isinstance(error, SystemExit) and not error.code)
        return "ok" if is_well else "error"

    def interrupt(self, _: int, frame: types.FrameType | None) -> None:
        """Between the cells nothing is to be interrupted. A cell that awaits is cancelled, since it is the loop that runs."""
        if os.getpid() != self.channel.pid:
            raise KeyboardInterrupt
        if not self.is_running:
            return
        self.is_interrupted = True
        while frame is not None and not frame.f_code.co_filename.startswith(CELL):
            frame = frame.f_back
        if self.task is None or frame is not None:
            raise KeyboardInterrupt
        self.loop.call_soon_threadsafe(self.task.cancel)

    def drive(self, cell: Coroutine[Any, Any, Any], needs_loop: bool) -> Any:
        if needs_loop:
            return self.in_loop(cell)
        try:
            cell.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("expected a cell that does not await")

    def in_loop(self, cell: Coroutine[Any, Any, Any]) -> Any:
        if self.loop.is_closed():
            self.open_loop()
        task = self.task = self.loop.create_task(cell)
        try:
            self.turn_until(task)
            return task.result()
        finally:
            task.cancel()  # if an interrupt has hit just here, it is not to go on behind our back
            self.task = None

    def turn_until(self, task: asyncio.Task[Any]) -> None:
        """Turn the loop until the task is done, whatever other tasks raise, and whoever stops the loop."""
        task.add_done_callback(lambda _: self.loop.stop())
        while not task.done():
            try:
                self.loop.run_forever()
            except SystemExit as error:
                if not task.done() or task.cancelled() or task.exception() is not error:
                    self.tell(error)
            except KeyboardInterrupt:
                task.cancel()  # unless it was this task that was hit, and is done

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # whatever a cell has put there
                pass

    def say(self, text: str) -> None:
        self.flush()
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest:
            rest = rest[os.write(self.out, rest) :]

    def tell(self, error: BaseException) -> None:
        if isinstance(error, CellFailure) or type(error).__name__ == "UsageError":  # IPython's, of a magic
            self.say(f"{error}\n")
        elif isinstance(error, SystemExit):
            self.say(f"[SystemExit: {error.code}; the kernel goes on]\n")
        else:
            if self.is_interrupted and isinstance(error, asyncio.CancelledError):
                error = KeyboardInterrupt().with_traceback(error.__traceback__)
            told = traceback.TracebackException(type(error), error, error.__traceback__)
            self.trim(told)
            self.say("".join(told.format() if told.stack else told.format_exception_only()))

    def trim(self, told: traceback.TracebackException) -> None:
        """From the cell on, and without what is ours or IPython's and what that has called."""
        folder = getattr(self.shell, "folder", None)
        frames = []
        is_shown = not any(frame.filename.startswith(CELL) for frame in told.stack)
        for frame in told.stack:
            is_ours = frame.filename == __file__ or (folder and frame.filename.startswith(folder + os.sep))
            is_shown = frame.filename.startswith(CELL) or (is_shown and not is_ours)
            if is_shown:
                frames.append(frame)
        told.stack = traceback.StackSummary.from_list(frames)
        for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
            if other is not None:
                self.trim(other)


class Output(io.TextIOWrapper):
    is_sapwood = True


def die_with_host(life: int) -> None:
    """The kernel of the system kills our whole group when the other end of this pipe closes, which the host holds.

    The end of the channel says it too, but code that never lets go of the interpreter would not hear that. PDEATHSIG would
    kill this process alone, and leave what it has started.
    """
    fd = private(life)
    os.close(life)
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def set_limits(limits: dict[str, int]) -> None:
    import resource

    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))


def main() -> None:
    source, sink, life = map(int, sys.argv[1:4])
    config = json.loads(sys.argv[4])
    sys.argv[:] = [""]
    die_with_host(life)
    set_limits(config["limits"])
    os.environ.setdefault("MPLBACKEND", "Agg")  # no window may hold up a cell
    channel = Channel(source, sink)
    host = Host(channel)
    worker = Worker(channel, config)
    rlm = Rlm(host)
    preloaded = {"rlm": rlm, "agent_message": rlm.agent_message, "compact": Compact(host)}
    worker.names.update(preloaded)
    sys.meta_path.append(PreloadedFinder(preloaded))
    worker.names["exit"] = worker.names["quit"] = lambda code=None: sys.exit(code)
    sys.path.insert(0, "")
    channel.start()
    worker.serve()


if __name__ == "__main__":
    main()
