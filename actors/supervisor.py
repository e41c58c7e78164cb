"""One per tree: it holds what is tree-wide and answers what sessions ask."""

import random
from collections.abc import Callable, Mapping

import attrs
import trio

from actors.clock import Clock
from actors.directory import Directory, Row
from actors.flusher import Flushing, JournalLike
from actors.gates import Gates
from actors.ledger import Ledger
from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.protocol.mail import Prompt
from actors.protocol.model import Model, ModelInfo
from actors.protocol.questions import Admit, Budget, Directive, MaySpawn, Question, Refuse
from actors.protocol.supervision import Draw, TreeState, decide
from actors.protocol.tools import ModelRow, Relative, Spawn, Tool
from actors.receipts import Slip
from actors.sink import Sink
from actors.slots import Slots
from store.disk.drawn import new_id
from store.entries import Header
from store.errors import BadUsage
from store.events import Diagnostic, Place
from store.records import Record
from store.tree import EntryTree
from store.usage import Usage, spend_of, usd

SETTLE_LEDGER_S = 5.0


@attrs.frozen
class Workshop:
    """What the engine hands to the actors. `model` raises KeyError for a name that it does not know.

    `speaker`: who gives a session's next answer in place of its model, if anybody does.
    """

    model: Callable[[str], tuple[Model, ModelInfo]]
    tools: Mapping[str, Tool]
    env: Mapping[str, str]
    cwd: str
    create_journal: Callable[[Header], JournalLike]
    open_journal: Callable[[str], tuple[JournalLike, EntryTree]]
    read_tree: Callable[[str], EntryTree]
    journal_path: Callable[[str], str | None]
    artifact_dir: Callable[[str], str]
    find_models: Callable[[str], tuple[ModelRow, ...]]
    system_prompt: Callable[[Row], str]
    speaker: Callable[[Row], Model | None] = lambda row: None


@attrs.define(eq=False)
class Supervisor:
    """Decisions are `protocol.supervision.decide`'s; this carries the state and draws what a decision needs."""

    workshop: Workshop
    state: TreeState
    sink: Sink
    flusher: Flushing
    clock: Clock
    directory: Directory
    gates: Gates = attrs.field(init=False)
    slots: Slots = attrs.field(init=False)
    ledger: Ledger = attrs.field(init=False)
    receipts: dict[str, Slip] = attrs.field(factory=dict)
    number: int = 0
    failure: str | None = None
    """Why closing records could not be written; the host then ends with status 1."""

    def __attrs_post_init__(self) -> None:
        self.gates = Gates(first_pause_s=self.state.retry.base_s, longest_pause_s=self.state.retry.ceiling_s)
        self.slots = Slots(self.state.limits.max_live_children)
        self.ledger = Ledger(self.flusher, self.trouble)

    def consult(self, question: Question) -> Directive:
        """Decide, now. A model that is not there is found here, where models are, and not when the child is running."""
        if isinstance(question, MaySpawn) and question.request.model is not None:
            try:
                self.workshop.model(question.request.model)
            except KeyError as error:
                return Refuse("model", 1, 0, question.session_id, str(error.args[0]))
        if isinstance(question, MaySpawn) and "max_cost" in question.request.limits:
            name = question.request.model or self.directory.rows[question.session_id].model
            if self.workshop.model(name)[1].price is None:
                reason = f"max_cost cannot be kept: the price of {name} is not known; use max_tokens"
                return Refuse("max_cost", 1, 0, question.session_id, reason)
        self.state, directive = decide(self.state, question, self._draw())
        return directive

    def _draw(self) -> Draw:
        now = self.clock.now()
        return Draw(now, random.random(), new_id(now))

    def next_numbers(self) -> int:
        """The base for ids of work in a new incarnation: above all that were given out before."""
        self.number += 1_000_000
        return self.number

    def trouble(self, row: Row, text: str) -> None:
        """Tell whoever watches that the store did not do what it should."""
        self.sink.publish(row.place, Diagnostic(level="error", code="store", text=text))

    def outbox(self, row: Row, journal: JournalLike, tree: EntryTree) -> Outbox:
        """The row's way out, to this journal."""

        def bill(record: Record, usage: Usage) -> None:
            try:
                spend = spend_of(usage)
            except BadUsage as error:
                self.trouble(row, f"the usage of entry {record.id} is left out of every total: {error}")
                return
            row.aggregates.own[record.id] = (spend, usage.total_tokens)
            self.ledger.bill(row, record.id, spend)

        return Outbox(row.place, journal, tree, self.sink, self.flusher, self.clock, bill)

    def start_child(self, parent: Row, admitted: Admit, request: Spawn, target_id: str | None) -> Row:
        """A row and a mailbox for an admitted child, with its task in it; then its actor starts.

        `target_id`: the assistant message whose call asked for the child.
        """
        place = Place(admitted.session_id, parent.place.root_id, parent.id, admitted.depth)
        row = Row(
            place,
            admitted.name,
            admitted.model,
            parent,
            Mailbox(self.clock),
            tools=_narrowed(request.tools, parent.tools),
            thinking=request.thinking or parent.thinking,
            limits=dict(request.limits),
        )
        row.target_id = target_id if request.tool_call_id else None
        row.why = "spawn_task" if request.tool_call_id else "direct_user"
        self.directory.add(row)
        row.is_running = True
        row.mailbox.put(task_prompt(row.id, request.prompt))
        self.directory.revive(row)
        return row

    def budgets(self, row: Row) -> tuple[Budget, ...]:
        """The limits on spending that hold for a session: its own, and those of all above it."""
        return tuple(
            Budget(
                limit,
                usd(holder.total.total_pico) if limit == "max_cost" else float(holder.total.tokens),
                holder.limits[limit],
                holder.id,
                holder.name,
            )
            for holder in (row, *(ancestor for ancestor, _ in row.ancestors()))
            for limit in ("max_cost", "max_tokens")
            if limit in holder.limits
        )

    def receipt(self, message_id: str, delivery: str, reason: str = "") -> None:
        """The receiver of a message tells what became of it."""
        if message_id in self.receipts:
            self.receipts[message_id].tell(delivery, reason)

    def relatives(self, row: Row) -> tuple[Relative, ...]:
        """The family of a session, as `list_agents` shows it."""
        family = [(row, "self")]
        if row.parent is not None:
            family.append((row.parent, "parent"))
            family += [(other, "sibling") for other in row.parent.children if other is not row]
        family += [(child, "child") for child in row.children if not child.is_gone]
        return tuple(
            Relative(
                name=other.name,
                role=role,  # type: ignore[arg-type]
                session_id=other.id,
                status=self.status(other),
                outcome=other.outcome,
                own_tokens=other.own.tokens,
                total_tokens=other.total.tokens,
                own_usd=usd(other.own.total_pico),
                total_usd=usd(other.total.total_pico),
                unpriced=tuple(sorted(other.total.unpriced)),
            )
            for other, role in family
        )

    def status(self, row: Row) -> str:
        return "waiting" if self.slots.is_waiting(row.id) else row.status

    async def drained(self) -> None:
        """What was spent is folded, or the time for it is over."""
        with trio.move_on_after(SETTLE_LEDGER_S):
            await self.ledger.drained()


def task_prompt(session_id: str, task: str) -> Prompt:
    """What a child hears first: why it is there."""
    return Prompt(f"task:{session_id}", task, "prompt", "user", "spawn_task")


def _narrowed(asked: tuple[str, ...] | None, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """A child has the tools of its parent or fewer, never more. None: all there are."""
    if asked is None or allowed is None:
        return allowed if asked is None else asked
    return tuple(name for name in asked if name in allowed)
