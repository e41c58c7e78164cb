"""What an import says of work: it is history. How the last run ended is written down, and nothing goes on."""

from collections.abc import Sequence

from store.context import dangling_calls
from store.entries import LEAF_MARK, TERMS_MARK, CustomEntry, Header, MessageEntry, RunSettledEntry
from store.errors import BadRecord
from store.legacy.links import leaf_of_plain
from store.messages import AssistantMessage, BashExecutionMessage, Message, decode_message
from store.plain import hung
from store.records import Record
from store.repair import is_run_open, next_run
from store.tree import EntryTree


def stand_where_others_stand(header: Header, tree: EntryTree) -> None:
    """Put the leaf where the program stood that wrote the file: at its last line."""
    leaf = leaf_of_plain(tree.records)
    if leaf != tree.leaf_id:
        tree.leaf_id = leaf
        hung(CustomEntry(custom_type=LEAF_MARK), header, tree)


def let_go_of_terms(header: Header, tree: EntryTree) -> None:
    """What a file says that its runs may do, and which commands they have to pass, holds here no longer."""
    for record in reversed(tree.records):
        body = record.body() if record.type == "custom" else None
        if isinstance(body, CustomEntry) and body.custom_type == TERMS_MARK:
            if body.data:
                hung(CustomEntry(custom_type=TERMS_MARK, data={}), header, tree)
            return


def settle(header: Header, tree: EntryTree) -> None:
    """Close the last run if it has ended well or badly. One that was cut off stays open: the repair calls it lost."""
    if not is_run_open(tree.own_records):
        return
    answer = _last_said(tree.own_records)
    if not isinstance(answer, AssistantMessage) or dangling_calls(tree.path()):
        return
    hung(_ending(answer, next_run(tree.records)), header, tree)


def _last_said(records: Sequence[Record]) -> Message | None:
    """The last message that belongs to a run; None where it cannot be read. Notices end no run."""
    for record in reversed(records):
        if record.type != "message":
            continue
        body = record.body()
        try:
            message = decode_message(body.message) if isinstance(body, MessageEntry) else None
        except BadRecord:
            return None
        if not isinstance(message, BashExecutionMessage):
            return message
    return None


def _ending(answer: AssistantMessage, run: int) -> RunSettledEntry:
    """An answer without text, or one that still asks for tools, is no success."""
    reason = answer.stop_reason or None
    if reason == "aborted":
        outcome = "aborted"
    elif reason == "error" or answer.calls or not answer.text.strip():
        outcome = "failed"
    else:
        outcome = "completed"
    return RunSettledEntry(run=run, outcome=outcome, stop_reason=reason, error_message=answer.error_message)
