"""All stored trees, one after the other."""

from collections.abc import Iterator

import attrs

from orchestrator.cli.common import all_headers, as_stored
from orchestrator.views.stored import Stored
from store.disk.forest import read_tree
from store.disk.home import Home
from store.disk.ownership import liveness
from store.entries import Header
from store.errors import StoreError


@attrs.define
class Forest:
    """`at_rest` counts the trees that were passed over."""

    home: Home
    at_rest: int = 0

    def trees(self, touched_since_s: float | None = None) -> Iterator[Stored]:
        """Every tree, the oldest first; then what no root leads to: sessions whose parent is gone or forgot them.

        A journal without a header is a tree of its own, damaged. With `touched_since_s` (Unix seconds) trees are passed
        over that certainly have no living owner and of which no journal was written since then. Raises EngineError.
        """
        families: dict[str, list[str]] = {}
        found = all_headers(self.home)
        for header in found:
            families.setdefault(header.root_id, []).append(header.id)
        seen: set[str] = set()
        for session_id in self._heads(found):
            if session_id in seen:
                continue
            family = families.get(session_id, [session_id])
            if touched_since_s is not None and self._is_at_rest(session_id, family, touched_since_s):
                self.at_rest += session_id in families
                seen.update(family)
                continue
            tree = self._tree(session_id)
            seen.update(tree.nodes, [session_id])
            yield tree

    def _heads(self, found: list[Header]) -> list[str]:
        """Where trees may begin: at roots and unreadable journals, in order, and failing that anywhere."""
        ids = self.home.session_ids()
        children = {header.id for header in found if header.root_session_id is not None}
        return [*(session for session in ids if session not in children), *ids]

    def _is_at_rest(self, root_id: str, family: list[str], since_s: float) -> bool:
        if liveness(self.home.fs, self.home, root_id).state != "dead":
            return False
        return all(self._written_s(session) < since_s for session in family)

    def _written_s(self, session_id: str) -> float:
        try:
            return self.home.fs.lstat(self.home.journal_path(session_id)).mtime_ns / 1e9
        except OSError:
            return 0.0

    def _tree(self, root_id: str) -> Stored:
        fs, home = self.home.fs, self.home
        try:
            return as_stored(home, read_tree(fs, home, root_id))
        except (StoreError, OSError) as error:
            state = liveness(fs, home, root_id)
            return Stored(root_id, {}, state.state, state.pid, {root_id: str(error)}, folder=str(home.sessions))
