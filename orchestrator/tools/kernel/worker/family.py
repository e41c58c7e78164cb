"""What is preloaded for work with other agents, and for the context: `rlm`, `agent_message`, `compact`."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import time
import types
from collections.abc import Coroutine, Iterable
from typing import Any, ClassVar

from .arguments import checked, is_amount, is_period, is_text, name_of, unknown_option
from .channel import Host, Refused
from .records import Agent, Model, Receipt, Record, Result, Results

WAIT_S = 600.0  # the longest that the host waits at once


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
        max_turns: int | None = None,
        timeout: float | None = None,
        timeout_s: float | None = None,
        wait: bool = False,
        **unknown: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Start a child. `await rlm(…)` gives its handle as soon as it is admitted; with `wait=True`, its result.

        `timeout` is in seconds, `max_cost` in dollars, `max_turns` in model calls; they hold for the child and all below it.
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
            "max_turns": checked("max_turns", max_turns, "a number of at least 0", is_amount),
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
