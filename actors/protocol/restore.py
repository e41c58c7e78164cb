"""A session's state out of its journal, after a restart or on opening a stored session."""

from collections.abc import Container, Iterable

from actors.protocol.effects import AppendEntry, Effect, EndTurn, SettleRun, StartLoop, StartTurn
from actors.protocol.rules.calling import PAUSE_MARK, ending_of
from actors.protocol.rules.limit import LIMIT_NOTE
from actors.protocol.state import MAX_HEARD, Ending, Kin, Notice, Queued, Step, TurnState
from actors.protocol.tools import notice_id
from actors.protocol.trial import CONTINUATION_MARK, GATE_MARK, Trial
from store.context import last_assistant
from store.entries import ChildSettledEntry, CustomEntry, CustomMessageEntry, MailEntry, MessageEntry
from store.errors import BadRecord
from store.interruption import interrupted_results
from store.messages import ToolResultMessage, UserMessage, decode_message, text_of
from store.records import Record
from store.repair import children_of, is_run_open, next_run, runs
from store.tree import EntryTree


def restore(
    session_id: str,
    tree: EntryTree,
    live: Iterable[str],
    number: int,
    *,
    is_root: bool,
    describer: str | None = None,
    in_hand: TurnState | None = None,
    told_run: int | None = None,
) -> Step:
    """The state at the end of the journal, and what must be done first.

    `live`: children with an open run, or whose end lies unheard in the mailbox. `number`: ids below were given out before,
    so late signals of an earlier life match nothing. `in_hand`: the state of an earlier life when it crashed.
    `told_run`: the last run whose end was told; None: the last of the journal, which nobody has held since.
    A call without a result gets an error result; mail and notices that no message delivers wait again; an open run goes on,
    but for one that was being aborted.
    """
    running = set(live)
    records = tree.own_records
    children = children_of(records)
    path = tree.path()
    is_open = is_run_open(records)
    dangling = interrupted_results(tree) if is_open else []
    effects: list[Effect] = []
    if dangling:
        # Who watches has not seen the answer that called: its results stand in a turn of their own.
        effects = [StartLoop(), StartTurn(), *map(AppendEntry, dangling), EndTurn()]
    for last in runs(records)[-1:]:
        if told_run is not None and last.run > told_run:
            is_aborted = last.outcome == "aborted"
            effects.append(SettleRun(last.run, last.outcome, is_aborted, last.stop_reason, last.error_message))  # type: ignore[arg-type]
    told = delivered(records)
    run = next_run(records) if is_open else next_run(records) - 1
    begins = unwritten(in_hand, run) if in_hand is not None else ()
    state = TurnState(
        session_id=session_id,
        is_root=is_root,
        describer=describer,
        phase="ready" if is_open else "idle",
        run=run,
        call=_calls(records),
        number=number,
        kin=tuple(Kin(child.child_session_id, child.name, child.child_session_id in running) for child in children),
        notices=_notices(records, {child.child_session_id: child.name for child in children}, told),
        queue=(*_mail(records, told), *begins),
        heard=tuple(told)[-MAX_HEARD:] if in_hand is None else in_hand.heard,
        is_woken=bool(begins) or (told_run is None and waits_for_a_run(records)),
        paused_until=_paused_until(records),
        trial=_trial(records) if is_open else Trial(),
        is_loop_open=bool(dangling),
        has_said=is_open and _has_said(records),
    )
    return (_open_run(state, path, bool(dangling)) if is_open else state), effects


def unwritten(in_hand: TurnState, run: int) -> tuple[Queued, ...]:
    """What was heard to begin a run that the journal does not know: with its run it would have been written."""
    its_run = in_hand.run + (in_hand.phase == "idle")
    return tuple(queued for queued in in_hand.queue if not queued.is_recorded) if run < its_run else ()


def _open_run(state: TurnState, path: list[Record], has_dangling: bool) -> TurnState:
    """Where an open run goes on: with a call when the last message asks for one, else with its end."""
    said = [record for record in path if record.type in {"message", "custom_message"}]
    answer, latest = last_assistant(said[-1:]), last_assistant(said)
    if latest is not None and latest.stop_reason == "aborted" and (answer is not None or _is_result(said[-1])):
        return state.with_(ending=Ending("aborted", "aborted", latest.error_message), is_aborted=True)
    if has_dangling or answer is None or answer.stop_reason == "error":
        return state.with_(needs_call=True, is_woken=True)
    if (limit := _limit_note(said[-2:-1])) is not None:
        return state.with_(ending=Ending("limit_reached", answer.stop_reason, limit), is_woken=True)
    ending = ending_of(answer.stop_reason, has_text=bool(answer.text.strip()), is_root=state.is_root)
    return state.with_(ending=ending, is_woken=True)


def _limit_note(records: list[Record]) -> str | None:
    """What the model was told of the limit that ends its run, if this is where it was told."""
    for record in records:
        body = record.body()
        if isinstance(body, CustomMessageEntry) and body.custom_type == LIMIT_NOTE:
            return text_of(body.content).partition("\n")[0]
    return None


def _has_said(records: list[Record]) -> bool:
    """Whether an answer came in the run that is open."""
    for record in reversed(records):
        if record.type == "run_settled":
            return False
        if record.type == "message" and (answer := last_assistant([record])) and answer.stop_reason != "error":
            return True
    return False


def _is_result(record: Record) -> bool:
    body = record.body()
    return isinstance(body, MessageEntry) and bytes(body.message).startswith(b'{"role":"toolResult"')


def _calls(records: list[Record]) -> int:
    """Model calls so far: each left an assistant message."""
    return sum(1 for record in records if record.type == "message" and b'"role":"assistant"' in record.raw)


def delivered(records: list[Record]) -> dict[str, None]:
    """The ids of mail and notices that some message hands to the model, in the order in which that was done."""
    told: dict[str, None] = {}
    for record in records:
        if b'"delivers"' in record.raw:
            told |= dict.fromkeys(_delivers(record))
    return told


def _delivers(record: Record) -> Iterable[str]:
    body = record.body()
    details: object = None
    if isinstance(body, CustomMessageEntry):
        details = body.details
    elif isinstance(body, MessageEntry):
        try:
            message = decode_message(body.message)
        except BadRecord:
            return ()
        if isinstance(message, UserMessage | ToolResultMessage):
            details = message.details
    ids = details.get("delivers") if isinstance(details, dict) else None
    return [name for name in ids if isinstance(name, str)] if isinstance(ids, list) else ()


def _paused_until(records: list[Record]) -> float:
    """Until when the session was to wait for its provider, if no answer has come since; 0: not at all."""
    for record in reversed(records):
        if (
            record.type == "custom"
            and isinstance(body := record.body(), CustomEntry)
            and body.custom_type == PAUSE_MARK
        ):
            until = body.data.get("until") if isinstance(body.data, dict) else None
            return float(until) if isinstance(until, int | float) else 0.0
        if record.type == "message" and (answer := last_assistant([record])) and answer.stop_reason != "error":
            return 0.0
    return 0.0


def _trial(records: list[Record]) -> Trial:
    """What the open run has been told by gates and for want of its word. What passed has to pass again."""
    kinds: list[str] = []
    for record in reversed(records):
        if record.type == "run_settled":
            break
        if record.type == "custom_message" and isinstance(body := record.body(), CustomMessageEntry):
            kinds.append(body.custom_type)
    return Trial(0, kinds.count(GATE_MARK), kinds.count(CONTINUATION_MARK))


def told_ends(records: list[Record]) -> set[tuple[str, int]]:
    """The ends of children that the journal has: (child, run)."""
    bodies = (record.body() for record in records if record.type == "child_settled")
    return {(body.child_session_id, body.run) for body in bodies if isinstance(body, ChildSettledEntry)}


def _notices(records: list[Record], names: dict[str, str], told: Container[str]) -> tuple[Notice, ...]:
    found: dict[str, Notice] = {}
    for record in records:
        if record.type == "child_settled" and isinstance(body := record.body(), ChildSettledEntry):
            child, run = body.child_session_id, body.run
            if notice_id(child, run) not in told:
                name = names.get(child, child)
                notice = Notice(child, name, run, body.outcome, body.text, body.error_message)
                found.setdefault(notice.id, notice)
    return tuple(found.values())


def waits_for_a_run(records: list[Record]) -> bool:
    """Whether a session without an open run was about to begin one: for mail, or for the end of a child.

    What an abort left behind begins none, and a child's end wakes only a session whose own run ended well.
    """
    ended = runs(records)[-1:]
    if not ended or is_run_open(records) or ended[0].outcome in {"aborted", "timed_out", "lost"}:
        return False
    told = delivered(records)
    return bool(_mail(records, told) or (ended[0].outcome == "completed" and _notices(records, {}, told)))


def _mail(records: list[Record], told: Container[str]) -> tuple[Queued, ...]:
    found: dict[str, Queued] = {}
    for record in records:
        if record.type == "mail" and isinstance(body := record.body(), MailEntry) and body.message_id not in told:
            mode = body.mode if body.mode in {"prompt", "steer", "follow_up", "auto"} else "auto"
            queued = Queued(body.message_id, mode, body.sender, body.content, True)  # type: ignore[arg-type]
            found.setdefault(body.message_id, queued)
    return tuple(found.values())
