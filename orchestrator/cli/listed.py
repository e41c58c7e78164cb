"""The rows of all trees: of those that are at rest and whole from the catalog, of the others from their journals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestrator.cli.common import as_stored
from orchestrator.engine.errors import EngineError
from orchestrator.views.resting import resting_rows
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from store.disk.catalog import Catalog
from store.disk.forest import read_tree
from store.disk.home import Home
from store.disk.ownership import liveness
from store.errors import StoreError
from store.summary import Summary


@contextmanager
def catalog_of(home: Home) -> Iterator[Catalog]:
    """The catalog of a home. Raises EngineError where its folder cannot be looked at."""
    with Catalog.open(home) as catalog:
        try:
            yield catalog
        except OSError as error:
            raise EngineError(f"{home.sessions}: {error.strerror}") from error


def all_trees(catalog: Catalog, now: float) -> list[list[AgentRow]]:
    """Every tree, the one first that was written to last: its rows, parents first. `now` in Unix seconds. Raises OSError.

    What no root leads to is a tree of its own: sessions whose parent is gone or forgot them, journals without a header.
    """
    families: dict[str, list[Summary]] = {}
    for summary in catalog.sessions():
        families.setdefault(summary.root_id, []).append(summary)
    owners = catalog.owners(families)
    trees: list[list[AgentRow]] = []
    for root_id, members in families.items():
        is_owned = owners[root_id].state != "dead"
        rows = None if is_owned else resting_rows(root_id, members, str(catalog.home.sessions))
        if rows is not None:
            trees.append(rows)
        else:
            trees += [tree_rows(stored, now) for stored in _read(catalog.home, root_id, members)]
    trees.sort(key=lambda rows: rows[0].session_id)
    trees.sort(key=lambda rows: rows[0].modified or "", reverse=True)
    return trees


def _read(home: Home, root_id: str, members: Sequence[Summary]) -> Iterator[Stored]:
    """The trees that a family is, out of its journals."""
    ids = sorted(summary.session_id for summary in members)
    seen: set[str] = set()
    for session_id in [each for each in ids if each == root_id] + [each for each in ids if each != root_id]:
        if session_id in seen:
            continue
        tree = _stored(home, session_id)
        seen.update(tree.nodes)
        yield tree


def _stored(home: Home, session_id: str) -> Stored:
    try:
        return as_stored(home, read_tree(home.fs, home, session_id))
    except (StoreError, OSError) as error:
        owner = liveness(home.fs, home, session_id)
        return Stored(session_id, {}, owner.state, owner.pid, {session_id: str(error)}, folder=str(home.sessions))
