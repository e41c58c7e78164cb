"""The reads of the detail pane: each a journal or a tree, folded by a view."""

import time
from collections.abc import Awaitable, Callable, Mapping

import trio

from orchestrator.views.called import called
from orchestrator.views.costs import costs
from orchestrator.views.facts import facts
from orchestrator.views.lanes import timeline
from orchestrator.views.pages import page
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from orchestrator.views.trouble import issues
from orchestrator.web.dashboard import Dashboard

Query = Mapping[str, str]
Detail = Callable[[Dashboard, str, Query], Awaitable[object]]


async def _conversation(dashboard: Dashboard, session: str, query: Query) -> object:
    def fold(stored: Stored) -> object:
        return page(stored.nodes[session].tree.path(), query.get("before"), query.get("after"))

    return await _of_session(dashboard, session, fold)


async def _tools(dashboard: Dashboard, session: str, query: Query) -> object:
    return await _of_session(dashboard, session, lambda stored: called(stored.nodes[session].tree.path()))


async def _of_session(dashboard: Dashboard, session: str, fold: Callable[[Stored], object]) -> object:
    """A fold of what one session has said, in a thread: the streams of all pages go on."""
    stored = await dashboard.journals.session(session)
    return await trio.to_thread.run_sync(fold, stored)


async def _issues(dashboard: Dashboard, session: str, query: Query) -> object:
    return await _of_tree(dashboard, session, lambda tree, rows: issues(tree, session, rows))


async def _cost(dashboard: Dashboard, session: str, query: Query) -> object:
    return await _of_tree(dashboard, session, lambda tree, rows: costs(tree, session))


async def _timeline(dashboard: Dashboard, session: str, query: Query) -> object:
    now_ms = round(time.time() * 1000)
    return await _of_tree(
        dashboard, session, lambda tree, rows: timeline(tree, session, rows, now_ms, dashboard.board.begun)
    )


async def _info(dashboard: Dashboard, session: str, query: Query) -> object:
    def fold(tree: Stored, rows: list[AgentRow]) -> object:
        row = next((row for row in rows if row.session_id == session), None)
        if row is None:
            raise KeyError(session)
        return facts(tree, session, row)

    return await _of_tree(dashboard, session, fold)


async def _of_tree(dashboard: Dashboard, session: str, fold: Callable[[Stored, list[AgentRow]], object]) -> object:
    """A fold of a whole tree and its rows, in a thread, too.

    The rows are those that the page shows: a journal does not know who waits for a retry.
    """
    stored = await dashboard.journals.tree(session)
    shown = dashboard.board.tree(stored.root_id)

    def work() -> object:
        is_there = any(row.session_id == session for row in shown)
        return fold(stored, shown if is_there else tree_rows(stored, time.time()))

    return await trio.to_thread.run_sync(work)


DETAILS: dict[str, Detail] = {
    "conversation": _conversation,
    "tools": _tools,
    "issues": _issues,
    "cost": _cost,
    "timeline": _timeline,
    "info": _info,
}
