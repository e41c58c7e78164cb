"""Tool calls out of the deltas of a chat completion, by whatever the server tells them apart."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from actors.protocol.model import BlockEnded, CallArguments, CallStarted, Chunk
from orchestrator.providers.text import Halves, decoded_json, is_object, whole_characters


@attrs.define
class _Call:
    """`index` is its block, once its name is known; until then what came of the arguments waits in `pieces`."""

    id: str
    name: str = ""
    pieces: list[str] = attrs.field(factory=list)
    index: int | None = None
    halves: Halves = attrs.field(factory=Halves)

    @property
    def json(self) -> str:
        return "".join(self.pieces)


@attrs.define
class CallReader:
    """The calls of one reply. `next_index` gives the place of a new block.

    A delta belongs to the call of its `index`. Without an index, one with an id opens a call and one without goes on
    with the last. Beyond that, each met on a real server: an id that is repeated opens nothing; a name that differs, or
    that comes behind arguments that are whole, opens a call without an id, and with a new id under an old index.
    """

    id_prefix: str
    next_index: Callable[[], int]
    calls: list[_Call] = attrs.field(factory=list, init=False)
    _by_place: dict[int, _Call] = attrs.field(factory=dict, init=False)

    def take(self, delta: Any) -> Iterator[Chunk]:
        """What one member of `tool_calls` adds."""
        if not isinstance(delta, dict):
            return
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        id, name = _word(delta.get("id")), _word(function.get("name"))
        place = delta.get("index")
        place = place if isinstance(place, int) and not isinstance(place, bool) else None
        call = self._call_of(place, id, name) or self._opened(id)
        if place is not None:
            self._by_place[place] = call
        call.name = call.name or name
        piece = call.halves.joined(_json_text(function.get("arguments")))
        call.pieces.append(piece)
        yield from self._told(call, piece)

    def end(self, *, is_cut: bool = False) -> Iterator[Chunk]:
        """The end of all calls; arguments that are blank become `{}`.

        `is_cut`: by the token limit. Then a call without a whole object is left as it is, for it may be half a call.
        """
        whole = [call for call in self.calls if not is_cut or is_object(call.json)]
        for call in whole:
            piece = call.halves.rest()
            call.pieces.append(piece)
            yield from self._told(call, piece, is_last=True)
        # A call whose name never came got its place just now, behind those that were opened after it.
        for call in sorted(whole, key=lambda call: call.index or 0):
            assert call.index is not None
            if not call.json.strip():
                yield CallArguments(call.index, "{}")
            yield BlockEnded(call.index)

    def _call_of(self, place: int | None, id: str, name: str) -> _Call | None:
        last = self.calls[-1] if self.calls else None
        if place is not None:
            call = self._by_place.get(place)
            if call is None:
                return last if last is not None and not id and not name else None
            return None if id and id != call.id and _is_another(call, name) else call
        if id:
            return next((call for call in reversed(self.calls) if call.id == id), None)
        return None if last is None or _is_another(last, name) else last

    def _opened(self, id: str) -> _Call:
        is_taken = not id or any(call.id == id for call in self.calls)
        call = _Call(f"{self.id_prefix}_{len(self.calls) + 1}" if is_taken else id)
        self.calls.append(call)
        return call

    def _told(self, call: _Call, piece: str, *, is_last: bool = False) -> Iterator[Chunk]:
        if call.index is None:
            if not call.name and not is_last:
                return
            call.index = self.next_index()
            yield CallStarted(call.index, call.id, call.name)
            piece = call.json
        if piece:
            yield CallArguments(call.index, piece)


def _is_another(call: _Call, name: str) -> bool:
    """Whether `name` cannot belong to `call`, which has one."""
    return bool(name and call.name) and (name != call.name or _is_whole(call.json))


def _word(value: Any) -> str:
    return whole_characters(value) if isinstance(value, str) else ""


def _json_text(arguments: Any) -> str:
    """A piece of JSON text; some servers send the object itself."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _is_whole(text: str) -> bool:
    try:
        decoded_json(text)
    except ValueError:
        return False
    return True
