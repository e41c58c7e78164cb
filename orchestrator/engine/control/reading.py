"""What the control protocol reads of a session: bounded pieces, with a `cursor` to go on where there is more."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from actors.directory import Row
from actors.protocol.model import ModelInfo
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data
from orchestrator.engine.planted import Planted
from orchestrator.views.rows import AgentRow
from store.context import build_context
from store.records import Record
from store.tree import EntryTree
from store.usage import Spend, add_up, spend_of, usage_of
from store.wire import encode

PAGE_ITEMS = 16_384
PAGE_BYTES = 8 << 20


def state(planted: Planted, row: Row, now: float) -> Data:
    """How the session stands: its row (null: it has not begun), and the names that clients of pi know."""
    shown = next((each for each in planted.rows(now) if each.session_id == row.id), None)
    _, info = planted.tree.supervisor.workshop.model(row.model)
    return {
        "sessionId": row.id,
        "rootSessionId": row.place.root_id,
        "sessionName": row.name if row.is_named else None,
        "sessionFile": planted.ground.path(row.id),
        "model": _model(info),
        "thinkingLevel": row.thinking or "off",
        "isStreaming": row.is_running,
        "isCompacting": shown is not None and shown.status == "compacting",
        "autoCompactionEnabled": planted.job.compaction.enabled,
        "messageCount": (shown.message_count if shown is not None else None) or 0,
        "pendingMessageCount": shown.queued if shown is not None else 0,
        "row": shown,
    }


def _model(info: ModelInfo) -> dict[str, Any]:
    """Windows in tokens, prices in dollars per million tokens; None: not known."""
    price = info.price
    cost = None
    if price is not None:
        prices = (price.input, price.output, price.cache_read, price.cache_write)
        cost = dict(zip(("input", "output", "cacheRead", "cacheWrite"), (micro / 1e6 for micro in prices), strict=True))
    return {
        "provider": info.provider,
        "id": info.id,
        "api": info.api,
        "contextWindow": info.context_window or None,
        "maxTokens": info.max_output or None,
        "cost": cost,
    }


def messages(planted: Planted, row: Row, command: requests.GetMessages) -> Data:
    """The messages of the context, as the next request to the model is made of them."""
    found = build_context(entry_tree(planted, row).path()).messages[max(0, command.cursor) :]
    return _page("messages", (msgspec.Raw(encode(message)) for message in found), command.cursor)


def entries(planted: Planted, row: Row, command: requests.GetEntries) -> Data:
    """Entries as the journal has them."""
    tree = entry_tree(planted, row)
    page = _page("entries", (_bounded(record) for record in tree.records[max(0, command.cursor) :]), command.cursor)
    return {**page, "leafId": tree.leaf_id}


def tree(planted: Planted, row: Row, command: requests.GetTree) -> Data:
    """Of each entry what it is and what it hangs on. Flat: a conversation is a long chain."""
    found = entry_tree(planted, row)
    nodes = (
        msgspec.Raw(encode({"id": each.id, "parentId": each.parent_id, "type": each.type, "timestamp": each.timestamp}))
        for each in found.records[max(0, command.cursor) :]
    )
    return {**_page("nodes", nodes, command.cursor), "leafId": found.leaf_id}


def rows(found: Sequence[AgentRow], cursor: int) -> Data:
    """Sessions as people see them, parents before children."""
    return _page("rows", (msgspec.Raw(encode(row)) for row in found[max(0, cursor) :]), cursor)


def usage(planted: Planted, row: Row, now: float) -> Data:
    """The shape of `sapwood usage --json`, for the session and all below it."""
    rows = [each for each in planted.rows(now) if planted.feed.is_below(each.session_id, row.id)]
    own = add_up(_spend(each.own) for each in rows)
    return {
        "rootSessionId": row.place.root_id,
        "nodes": [
            {
                "sessionId": each.session_id,
                "parentSessionId": each.parent_session_id,
                "name": each.name,
                "depth": each.depth,
                "model": each.model,
                "outcome": each.outcome,
                "own": each.own,
                "total": each.total,
                "unpricedModels": each.unpriced_models,
            }
            for each in rows
        ],
        "total": usage_of(row.total),
        "verified": own == row.total,
    }


def _spend(shown: Any) -> Spend:
    return Spend() if shown is None else spend_of(shown)


def entry_tree(planted: Planted, row: Row) -> EntryTree:
    """The entries of a session. A settled child has shed them: then they are read from its journal."""
    outbox = row.outbox
    if outbox is not None and len(outbox.tree.records) == outbox.tree.count:
        return outbox.tree
    return planted.ground.read(row.id) if row.is_stored else EntryTree()


def _bounded(record: Record) -> msgspec.Raw:
    """A record as it is; of one that is larger than a page only the head."""
    if len(record.raw) <= PAGE_BYTES:
        return msgspec.Raw(record.raw)
    head = {"type": record.type, "id": record.id, "parentId": record.parent_id, "timestamp": record.timestamp}
    return msgspec.Raw(encode({**head, "omittedBytes": len(record.raw)}))


def _page(name: str, items: Iterable[msgspec.Raw] | Sequence[msgspec.Raw], cursor: int) -> dict[str, Any]:
    """As many as fit, at least one; `cursor` names the next one, where there is one."""
    taken: list[msgspec.Raw] = []
    size = 0
    for item in items:
        size += len(bytes(item))
        if taken and (size > PAGE_BYTES or len(taken) >= PAGE_ITEMS):
            return {name: taken, "cursor": max(0, cursor) + len(taken)}
        taken.append(item)
    return {name: taken}
