"""One per tree: it holds what is tree-wide and answers what sessions ask."""

import random
from collections.abc import Callable, Mapping

import attrs
import msgspec
import trio

from actors.clock import Clock
from actors.directory import Directory, Row
from actors.flusher import Flushing, JournalLike
from actors.gates import Gates
from actors.ledger import Ledger
from actors.mailbox import Mailbox
from actors.outbox import Outbox
from actors.protocol.budgets import Amount, Used
from actors.protocol.mail import Prompt
from actors.protocol.model import Model, ModelInfo
from actors.protocol.questions import Admit, Directive, MaySpawn, Question, StandBy
from actors.protocol.supervision import Answers, Draw, TreeState, call_ended, call_made, decide, disowned, withdrawn
from actors.protocol.tools import ModelRow, Relative, Spawn, Tool
from actors.receipts import Ask, Slip
from actors.sink import Sink
from actors.slots import Slots
from store.disk.drawn import new_id
from store.entries import Header, SessionStateEntry
from store.errors import BadUsage
from store.events import Diagnostic, Place
from store.origins import RunOrigin, first_origin
from store.records import Record
from store.tree import EntryTree
from store.usage import Usage, spend_of, usd

SETTLE_LEDGER_S = 5.0


@attrs.frozen
class Workshop:
    """What the engine hands to the actors. `model` raises KeyError for a name that it does not know.

    `speaker`: who gives a session's next answer in place of its model, if anybody does. It is asked before the turn begins.
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
    asks: dict[int, Ask] = attrs.field(factory=dict)
    number: int = 0
    _standing_by: dict[str, Callable[[Directive], object]] = attrs.field(factory=dict)
    failure: str | None = None
    """Why closing records could not be written; the host then ends with status 1."""

    def __attrs_post_init__(self) -> None:
        self.gates = Gates(first_pause_s=self.state.retry.base_s, longest_pause_s=self.state.retry.ceiling_s)
        self.slots = Slots(self.state.limits.max_live_children)
        self.ledger = Ledger(self.flusher, self.trouble)

    def consult(self, question: Question) -> Directive:
        """Decide, now."""
        self.state, directive = decide(self.state, question, self._draw())
        return directive

    def ask(self, question: Question, answer: Callable[[Directive], object]) -> None:
        """Decide, and tell `answer`: now, or, where others have claimed what a call needs, when something of it is free."""
        directive = self.consult(self._completed(question))
        if isinstance(directive, StandBy):
            self._standing_by[question.session_id] = answer
        else:
            answer(directive)

    def _completed(self, question: Question) -> Question:
        """What a question about a child's model needs is known here, where models are, before the child runs."""
        if not isinstance(question, MaySpawn):
            return question
        name = question.request.model or self.directory.rows[question.session_id].model
        try:
            is_priced = self.workshop.model(name)[1].price is not None
        except KeyError as error:
            return msgspec.structs.replace(question, unknown_model=str(error.args[0]))
        return msgspec.structs.replace(question, is_priced=is_priced)

    def has_budget(self, row: Row) -> bool:
        """Whether what this session spends is bounded."""
        return row.id in self.state.budgets.chains

    def call_made(self, claim: int) -> None:
        """A call that was granted is made now."""
        if claim:
            self.state = call_made(self.state, claim)

    def call_ended(self, row: Row, claim: int, used: Used | None) -> None:
        """A call that was granted has ended, or was never made (`used` None): what it claimed is free for others."""
        if claim:
            self.state, answers = call_ended(self.state, row.id, claim, used)
            self._tell(answers)

    def withdraw(self, row: Row) -> None:
        """The session calls no model for now."""
        self._standing_by.pop(row.id, None)
        self.state, answers = withdrawn(self.state, row.id)
        self._tell(answers)

    def run_ended(self, row: Row) -> None:
        """Nothing of the session's run is left that others wait for."""
        self.withdraw(row)
        if row.time is not None:
            row.time.end()

    def disown(self, row: Row, admitted: Admit) -> None:
        """A child of this session was admitted and will not be started."""
        self.state = disowned(self.state, row.id, admitted)

    def _tell(self, answers: Answers) -> None:
        for answered in answers:
            self._standing_by.pop(answered.session_id)(answered.directive)

    def open_accounts(self) -> None:
        """What the sessions that are there may spend, and have spent. Turns of the root count anew with each invocation."""
        for row in self.directory.rows.values():  # parents come before their children
            limits, parent_id, turns = dict(row.limits), None, 0
            if row.parent is not None:
                parent_id, turns = row.parent.id, row.turns_below
            elif self.state.limits.max_turns is not None:
                limits["max_turns"] = self.state.limits.max_turns
            spent = Amount(row.total.total_pico, row.total.tokens, turns)
            budgets = self.state.budgets.opened(row.id, row.name, parent_id, limits, spent)
            self.state = msgspec.structs.replace(self.state, budgets=budgets)

    def _draw(self) -> Draw:
        now = self.clock.now()
        return Draw(now, random.random(), new_id(now))

    def next_numbers(self) -> int:
        """The base for ids of work in a new incarnation: above all that were given out before."""
        self.number += 1_000_000
        return self.number

    def use_model(self, row: Row) -> None:
        """The session has another model; it decides which one its children get."""
        member = msgspec.structs.replace(self.state.members[row.id], model=row.model)
        self.state = self.state.with_member(row.id, member)

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

        return Outbox(row.place, journal, tree, self.sink, self.flusher, self.clock, bill, row.origin)

    def opened(self, row: Row) -> Outbox:
        """The way out of a stored session, which the stream has not shown yet. Raises OSError, StoreError."""
        journal, tree = self.workshop.open_journal(row.id)
        if tree.header is not None:
            self.sink.publish(row.place, tree.header)
        return self.outbox(row, journal, tree)

    def archive(self, row: Row) -> None:
        """The session is gone from its family, also after a restart. Raises OSError, StoreError."""
        row.is_gone = True
        if row.is_stored:
            row.outbox = row.outbox or self.opened(row)
            row.outbox.append(SessionStateEntry(state={"status": "archived"}))

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
            service_tier=parent.service_tier,
            limits=dict(admitted.limits),
        )
        row.target_id = target_id if request.tool_call_id else None
        row.origin = RunOrigin(first_origin(request.tool_call_id))
        self.directory.add(row)
        row.is_running = True
        row.mailbox.put(task_prompt(row.id, request.prompt))
        self.directory.revive(row)
        return row

    def receipt(self, message_id: str, delivery: str, reason: str = "") -> None:
        """The receiver of a message tells what became of it."""
        if message_id in self.receipts:
            self.receipts[message_id].tell(delivery, reason)

    def relatives(self, row: Row) -> tuple[Relative, ...]:
        """The family of a session, as `list_agents` shows it."""
        family = [(row, "self")]
        if row.parent is not None:
            family.append((row.parent, "parent"))
            family += [(other, "sibling") for other in row.parent.present if other is not row]
        family += [(child, "child") for child in row.present]
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
        is_waiting = self.slots.is_waiting(row.id) or row.id in self._standing_by
        return "waiting" if is_waiting else row.status

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
