"""What tests of actors, ours and our users', are made of: journals in memory, models and tools by function, a ready tree."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

from actors.clock import Clock
from actors.directory import Row
from actors.flusher import Flushing, InlineFlusher, JournalLike
from actors.protocol.compaction import CompactionPolicy
from actors.protocol.effects import Effect
from actors.protocol.limits import Limits
from actors.protocol.mail import Prompt
from actors.protocol.model import (
    CallArguments,
    CallStarted,
    Hear,
    Model,
    ModelFailure,
    ModelInfo,
    ModelRequest,
    ReplyEnd,
    TextChunk,
    ToolSpec,
    UsageReported,
)
from actors.protocol.retry import RetryPolicy
from actors.protocol.supervision import Member, TreeState
from actors.protocol.tools import Tool, ToolContext, ToolResult
from actors.protocol.trial import AutonomyPolicy, GatePolicy
from actors.sink import Sink
from actors.supervisor import Workshop
from actors.tree import Tree
from store.entries import Header
from store.memory import MemoryJournal
from store.records import read_record
from store.tree import EntryTree
from store.usage import Price, Usage
from store.wire import encode

ROOT = "00000000-0000-7000-8000-000000000001"


@attrs.define(eq=False)
class MemoryStore:
    """The journals of a tree, by session id."""

    headers: dict[str, Header] = attrs.field(factory=dict)
    journals: dict[str, MemoryJournal] = attrs.field(factory=dict)

    def create(self, header: Header) -> MemoryJournal:
        self.headers[header.id] = header
        self.journals[header.id] = MemoryJournal()
        return self.journals[header.id]

    def open(self, session_id: str) -> tuple[JournalLike, EntryTree]:
        journal = self.journals[session_id]
        journal.is_poisoned = False
        return journal, self.read(session_id)

    def read(self, session_id: str) -> EntryTree:
        return EntryTree.of([read_record(line) for line in self.journals[session_id].lines])

    def types(self, session_id: str) -> list[str]:
        return [record.type for record in self.read(session_id).records]


@attrs.define
class FunctionModel:
    """A model whose answers a function gives: text, tool calls as (name, arguments), a failure, or an async function."""

    answer: Callable[[ModelRequest], "Answer | Awaitable[Answer]"]
    usage: Usage = attrs.field(factory=lambda: Usage(input=100, output=10))
    requests: list[ModelRequest] = attrs.field(factory=list)

    async def call(self, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        await hear(UsageReported(self.usage))
        answer = self.answer(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, ModelFailure):
            return answer
        if isinstance(answer, str):
            await hear(TextChunk(0, answer))
            return ReplyEnd("stop")
        for index, (name, arguments) in enumerate(answer):
            await hear(CallStarted(index, f"call_{request.call}_{index}", name))
            await hear(CallArguments(index, encode(arguments).decode()))
        return ReplyEnd("toolUse")


Answer = str | Sequence[tuple[str, dict[str, Any]]] | ModelFailure


@attrs.frozen
class FunctionTool:
    """A tool that is an async function of (arguments, context)."""

    name: str
    function: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]
    is_waiting: bool = False

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, f"test tool {self.name}", {"type": "object"})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await self.function(arguments, context)


@attrs.define
class RecordingPerformer:
    """Keeps the effects that it is told to perform."""

    effects: list[Effect] = attrs.field(factory=list)

    def perform(self, effects: Sequence[Effect]) -> None:
        self.effects += effects


@attrs.define
class RecordingOutlet:
    """Keeps the lines of the stream; `is_open` False holds readers back."""

    lines: list[bytes] = attrs.field(factory=list)
    is_open: bool = True
    _opened: trio.Event = attrs.field(factory=trio.Event)

    def offer(self, line: bytes) -> None:
        self.lines.append(line)

    @property
    def has_room(self) -> bool:
        return self.is_open

    async def wait_for_room(self) -> None:
        while not self.is_open:
            await self._opened.wait()

    def open(self) -> None:
        self.is_open = True
        self._opened.set()


@attrs.define(eq=False)
class Bench:
    """A tree in memory with its stream, ready to run."""

    tree: Tree
    store: MemoryStore
    outlet: RecordingOutlet

    @property
    def root(self) -> Row:
        return self.tree.root

    async def run(self, prompt: str = "go") -> None:
        await self.tree.run(Prompt("prompt-1", prompt))

    def events(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """The decoded lines of the stream, of one session or of all."""
        import msgspec

        lines = [msgspec.json.decode(line) for line in self.outlet.lines]
        return [line for line in lines if session_id in {None, line["sessionId"]}]


def bench(
    model: Model,
    tools: Mapping[str, Tool] | None = None,
    limits: Limits | None = None,
    retry: RetryPolicy | None = None,
    flusher: Flushing | None = None,
    store: MemoryStore | None = None,
    window: int = 0,
    compaction: CompactionPolicy | None = None,
    fallback: str | None = None,
    waits_for_reset: bool = False,
    gates: GatePolicy | None = None,
    autonomy: AutonomyPolicy | None = None,
    budgets: Mapping[str, float] | None = None,
    max_output: int = 0,
) -> Bench:
    """A tree with this model under the names `test/model` and `test/other`, priced at 1 and 10 dollars per million tokens."""
    journals = store or MemoryStore()
    infos = {
        f"test/{name}": ModelInfo("test", name, "test", Price(1_000_000, 10_000_000), window, max_output)
        for name in ("model", "other")
    }
    workshop = Workshop(
        model=lambda name: (model, infos[name]),
        tools=tools or {},
        env={},
        cwd="/",
        create_journal=journals.create,
        open_journal=journals.open,
        read_tree=journals.read,
        journal_path=lambda session: f"/{session}.jsonl",
        artifact_dir=lambda session: f"/artifacts/{session}",
        find_models=lambda query: (),
        system_prompt=lambda row: "",
    )
    clock = Clock()
    sink = Sink(clock)
    outlet = RecordingOutlet()
    sink.outlets.append(outlet)
    members = {ROOT: Member(0, "test/model")}
    policy = compaction or CompactionPolicy()
    state = TreeState(
        ROOT,
        limits or Limits(),
        retry or RetryPolicy(),
        members,
        compaction=policy,
        fallback_model=fallback,
        waits_for_reset=waits_for_reset,
        gates=gates or GatePolicy(),
        autonomy=autonomy or AutonomyPolicy(),
    )
    tree = Tree.of(workshop, state, sink, flusher or InlineFlusher(), clock)
    tree.root.limits = dict(budgets or {})
    tree.supervisor.open_accounts()
    return Bench(tree, journals, outlet)
