"""All stored trees, by the catalog: of those that are at rest and whole it knows the rows, the others are read."""

from collections.abc import Iterable, Iterator

import attrs

from orchestrator.cli.common import catalog_of, stored_tree
from orchestrator.views.resting import resting_rows
from orchestrator.views.rows import AgentRow, tree_rows
from orchestrator.views.stored import Stored
from store.disk.catalog import Catalog
from store.disk.home import Home
from store.disk.ownership import Liveness
from store.summary import Summary
from store.times import unix_s


@attrs.define(eq=False)
class Forest:
    """Families: the sessions whose headers name the same root, by the id of that root.

    Most are one tree. What no root leads to is a tree of its own: sessions whose parent is gone or forgot them, journals
    without a header.
    """

    home: Home
    families: dict[str, list[Summary]]
    owners: dict[str, Liveness]
    left_out: int = 0
    """How many families there are besides."""

    @classmethod
    def of(cls, home: Home) -> "Forest":
        """All there are. Raises EngineError."""
        with catalog_of(home) as catalog:
            return cls._grouped(catalog, catalog.sessions())

    @classmethod
    def newest(cls, home: Home, count: int, *, with_archived: bool) -> "Forest":
        """The families that were written to last. Raises EngineError."""
        with catalog_of(home) as catalog:
            found, known = catalog.newest_trees(count, with_archived=with_archived)
            forest = cls._grouped(catalog, found)
        forest.left_out = known - len(forest.families)
        return forest

    @classmethod
    def _grouped(cls, catalog: Catalog, sessions: Iterable[Summary]) -> "Forest":
        families: dict[str, list[Summary]] = {}
        for summary in sessions:
            families.setdefault(summary.root_id, []).append(summary)
        return cls(catalog.home, families, catalog.owners(families))

    def touched_since(self, since_s: float) -> "Forest":
        """The part that may have a living owner, or was written to since then (Unix seconds)."""
        touched = {
            root_id: members
            for root_id, members in self.families.items()
            if self.owners[root_id].state != "dead" or any(_written_s(each) >= since_s for each in members)
        }
        return attrs.evolve(self, families=touched, left_out=len(self.families) - len(touched))

    def trees(self) -> Iterator[Stored]:
        """Every tree out of its journals, the oldest first, then what no root leads to."""
        seen: set[str] = set()
        for root_id in self._in_order():
            yield from self._read(root_id, seen)

    def rows(self, now: float) -> Iterator[list[AgentRow]]:
        """The rows of every tree, parents first; the trees as above. `now` in Unix seconds."""
        seen: set[str] = set()
        for root_id in self._in_order():
            members = self.families[root_id]
            at_rest = self.owners[root_id].state == "dead" and seen.isdisjoint(each.session_id for each in members)
            rows = resting_rows(root_id, members, str(self.home.sessions)) if at_rest else None
            if rows is not None:
                yield rows
            else:
                yield from (tree_rows(stored, now) for stored in self._read(root_id, seen))

    def _in_order(self) -> list[str]:
        """A journal may name the children of a root that is gone, so families without one come last."""
        has_root = {
            root_id: any(each.session_id == root_id for each in members) for root_id, members in self.families.items()
        }
        return sorted(self.families, key=lambda root_id: (not has_root[root_id], root_id))

    def _read(self, root_id: str, seen: set[str]) -> Iterator[Stored]:
        """The trees that a family is, but for what was `seen` in another one."""
        members = self.families[root_id]
        ids = {each.session_id for each in members}
        for each in sorted(
            members, key=lambda each: (each.session_id != root_id, each.parent_id in ids, each.session_id)
        ):
            if each.session_id not in seen:
                tree = stored_tree(self.home, each.session_id)
                seen.update(tree.nodes, [each.session_id])
                yield tree


def newest_first(trees: Iterable[list[AgentRow]]) -> list[list[AgentRow]]:
    """The tree first whose root was written to last."""
    found = sorted(trees, key=lambda rows: rows[0].session_id)
    return sorted(found, key=lambda rows: rows[0].modified or "", reverse=True)


def _written_s(summary: Summary) -> float:
    return unix_s(summary.modified or "") or 0.0
