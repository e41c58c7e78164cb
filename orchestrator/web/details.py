"""The reads of the detail pane: each a journal or a tree, folded by a view."""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from orchestrator.views.called import called
from orchestrator.views.costs import costs
from orchestrator.views.facts import facts
from orchestrator.views.lanes import timeline
from orchestrator.views.pages import page
from orchestrator.views.rows import tree_rows
from orchestrator.views.stored import Stored
from orchestrator.views.trouble import issues
from orchestrator.web.ports import Journals

Query = Mapping[str, str]
Detail = Callable[[Journals, str, Query], Awaitable[object]]


async def _conversation(journals: Journals, session: str, query: Query) -> object:
    stored = await journals.session(session)
    return page(stored.nodes[session].tree.path(), query.get("before"), query.get("after"))


async def _tools(journals: Journals, session: str, query: Query) -> object:
    stored = await journals.session(session)
    return called(stored.nodes[session].tree.path())


async def _whole(fold: Callable[[Stored], object], journals: Journals, session: str) -> object:
    """A fold of a whole tree, in a thread: the streams of all pages go on."""
    stored = await journals.tree(session)
    return await trio.to_thread.run_sync(fold, stored)


async def _issues(journals: Journals, session: str, query: Query) -> object:
    return await _whole(lambda tree: issues(tree, session, tree_rows(tree, time.time())), journals, session)


async def _cost(journals: Journals, session: str, query: Query) -> object:
    return await _whole(partial(costs, session_id=session), journals, session)


async def _timeline(journals: Journals, session: str, query: Query) -> object:
    now = time.time()
    return await _whole(
        lambda tree: timeline(tree, session, tree_rows(tree, now), round(now * 1000)), journals, session
    )


async def _info(journals: Journals, session: str, query: Query) -> object:
    def fold(tree: Stored) -> object:
        row = next((row for row in tree_rows(tree, time.time()) if row.session_id == session), None)
        if row is None:
            raise KeyError(session)
        return facts(tree, session, row)

    return await _whole(fold, journals, session)


DETAILS: dict[str, Detail] = {
    "conversation": _conversation,
    "tools": _tools,
    "issues": _issues,
    "cost": _cost,
    "timeline": _timeline,
    "info": _info,
}
