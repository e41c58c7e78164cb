"""Several trees in one stream, as `events --follow` tells them: each has to be a sound stream of its own."""

import attrs
import msgspec

from store.dialects import DIALECTS, Dialect
from store.lines import Tags, parted
from store.stream import Finding, StreamChecker

_tags: msgspec.json.Decoder[Tags] = msgspec.json.Decoder(Tags)


@attrs.define
class ForestChecker:
    """Takes one line after the other, of whichever tree; another root's header begins another tree. As StreamChecker."""

    dialect: Dialect = attrs.field(factory=lambda: DIALECTS["native"])
    is_filtered: bool = False
    _trees: dict[str, StreamChecker] = attrs.field(factory=dict)
    """By the id of the root; the first is the one that lines go to which belong to none."""
    _roots: dict[str, str] = attrs.field(factory=dict)
    _line: int = 0

    def feed(self, line: bytes) -> list[Finding]:
        """Take the next line, its newline included."""
        checker = self._of(self._root_of(line))
        self._line += 1
        return checker.feed(line)

    def pass_over(self, why: str) -> list[Finding]:
        """There is a next line, and it cannot be taken."""
        checker = self._of("")
        self._line += 1
        return checker.pass_over(why)

    def end(self, exit_status: int | None = None) -> list[Finding]:
        """What is open or missing, now that the stream has ended. A status is that of a stream with one tree."""
        trees = list(self._trees.values()) or [self._of("")]
        return [found for tree in trees for found in tree.end(exit_status if len(trees) == 1 else None)]

    def _of(self, root_id: str) -> StreamChecker:
        checker = self._trees.get(root_id)
        if checker is None and root_id in self._roots and "" in self._trees and not self._trees[""].has_begun:
            checker = self._trees[root_id] = self._trees.pop("")  # so far there was nothing but rubbish
        if checker is None and (not self._trees or root_id in self._roots):
            checker = self._trees[root_id] = StreamChecker(self.dialect, self.is_filtered)
        checker = checker or next(iter(self._trees.values()))
        checker.line = self._line
        return checker

    def _root_of(self, line: bytes) -> str:
        parts = parted(line)
        if parts is None:
            return ""
        if parts.kind == "session" and parts.session_id not in self._roots:
            try:
                root_id = _tags.decode(line).root_session_id or parts.session_id
            except msgspec.DecodeError:
                return ""
            if root_id == parts.session_id or root_id in self._roots:
                self._roots[parts.session_id] = root_id
        return self._roots.get(parts.session_id, "")
