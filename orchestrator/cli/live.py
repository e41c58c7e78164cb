"""Sessions that other processes may have at work: found by name, talked to wherever they are."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import attrs
import msgspec
import trio

from orchestrator.cli.common import session_named, translated
from orchestrator.engine.client import Client, CommandFailed, HostGone, HostInfo, asked, hosts
from orchestrator.engine.errors import EngineError, NoKey, NotOurs, WrongUsage
from orchestrator.engine.own_host import own_host
from orchestrator.engine.resident import started
from store.disk.home import Home
from store.disk.ownership import liveness

T = TypeVar("T")
_USAGE = frozenset({"wrong_shape", "wrong_value", "unknown_session", "unknown_model", "unknown_entry", "no_session"})


@attrs.frozen
class Reached:
    """A session, and the host that has it. `is_ours`: nobody had it at work, so this process is its host now."""

    client: Client
    session_id: str
    is_ours: bool = False

    async def call(self, kind: str, **members: Any) -> dict[str, Any]:
        """A command for the session. Raises EngineError."""
        return await said(self.client.call({"type": kind, "sessionId": self.session_id, **members}))


async def said(answer: Awaitable[T]) -> T:
    """An answer of a host, or its refusal as what a command ends with."""
    try:
        return await answer
    except CommandFailed as error:
        if error.code == "no_key":
            raise NoKey(f"the host that would run it lacks a key, whatever is set here: {error}") from error
        if error.code == "not_ours":
            raise NotOurs(str(error)) from error
        raise (WrongUsage if error.code in _USAGE else EngineError)(str(error)) from error
    except HostGone as error:
        raise EngineError(f"{error}; what it had at work is written down: sapwood agents") from error


@asynccontextmanager
async def reached(home: Home, name: str, *, detaches: bool = False) -> AsyncIterator[Reached]:
    """The session of this id, beginning or end of an id, or name: where it is at work, else opened by the resident host, else here.

    `detaches`: the resident host is started for it where there is none. Raises EngineError.
    """
    there = await hosts(home)
    live = await named_live(there, name)
    header = None if live is not None else session_named(home, name)
    host = live[0] if live is not None else _owner(there, header.root_id if header is not None else "")
    session_id = live[1] if live is not None else header.id if header is not None else name
    if host is None and header is not None:
        with translated():
            owner = liveness(home.fs, home, header.root_id)
        if owner.state == "alive":
            raise NotOurs(unheard(owner.pid))
    if host is None and detaches:
        host = await started(home, os.environ)
    async with AsyncExitStack() as stack:
        path = host.path if host is not None else await stack.enter_async_context(own_host(home, os.environ))
        client = await stack.enter_async_context(await said(Client.connect(path)))
        yield Reached(client, session_id, is_ours=host is None)


def unheard(pid: object) -> str:
    """That a process is there and says nothing: it hangs, or is stopped."""
    return f"the host of process {pid} does not answer; when it goes on it is there again, `kill -9 {pid}` ends it"


def _owner(there: list[HostInfo], root_id: str) -> HostInfo | None:
    """Who runs a stored tree, or would open it."""
    running = next((host for host in there if root_id in host.roots), None)
    return running or next((host for host in there if host.is_resident), None)


async def named_live(there: list[HostInfo], name: str) -> tuple[HostInfo, str] | None:
    """A session that is at hand somewhere. Raises WrongUsage where the name could mean several."""
    found: dict[str, HostInfo] = {}
    called: dict[str, HostInfo] = {}
    rows = await asked((host.path for host in there), Client.rows)
    for host in there:
        for row in rows.get(host.path, ()):
            session_id = row["sessionId"]
            if session_id == name:
                return host, session_id
            if row["name"] == name:
                called[session_id] = host
            elif session_id.startswith(name) or session_id.endswith(name):
                found[session_id] = host
    found = called or found
    if len(found) > 1:
        raise WrongUsage(f"{name!r} could be {', '.join(sorted(found))}; say more of it")
    return next(((host, session_id) for session_id, host in found.items()), None)


def asked_of_owner(home: Home, root_id: str, command: dict[str, Any]) -> dict[str, Any] | None:
    """The answer of the host that has this tree; None: none that answers has it. Raises EngineError."""

    async def ask() -> dict[str, Any] | None:
        host = next((host for host in await hosts(home) if root_id in host.roots), None)
        if host is None:
            return None
        async with await said(Client.connect(host.path)) as client:
            return await said(client.call(command))

    return in_loop(ask)


@attrs.frozen
class RunEnded:
    """How a run of a session ended, and what it said last."""

    outcome: str
    answer: str
    error: str | None


class _Line(msgspec.Struct, rename="camel"):
    type: str
    session_id: str = ""
    outcome: str = ""
    message: msgspec.Raw = msgspec.Raw(b"null")


class _Text(msgspec.Struct):
    type: str
    text: str = ""


class _Said(msgspec.Struct, rename="camel"):
    role: str = ""
    content: list[_Text] | str = ""
    error_message: str | None = None


async def watched(reached: Reached) -> Callable[[], Awaitable[RunEnded]]:
    """Look at the session from now on; what is returned waits for the end of its run. Raises EngineError."""
    await reached.call("subscribe", types=["message_end", "agent_settled"])

    async def end() -> RunEnded:
        answer, error = "", None
        async for raw in reached.client.lines():
            line = msgspec.json.decode(raw, type=_Line)
            if line.session_id != reached.session_id:
                continue
            if line.type == "agent_settled":
                return RunEnded(line.outcome, answer, error)
            said = msgspec.json.decode(line.message, type=_Said) if line.type == "message_end" else _Said()
            if said.role == "assistant":
                error = said.error_message
                parts = said.content if isinstance(said.content, list) else []
                answer = "".join(part.text for part in parts if part.type == "text")
        raise EngineError("the host has ended before the run; sapwood agents shows what became of it")

    return end


def in_loop(work: Callable[[], Awaitable[T]]) -> T:
    """Run it; failures of nurseries as what they are. Raises EngineError."""
    try:
        return trio.run(work)
    except BaseExceptionGroup as group:
        ours = group.subgroup((EngineError, KeyboardInterrupt, BrokenPipeError))
        raise _first(ours) if ours is not None else group from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
