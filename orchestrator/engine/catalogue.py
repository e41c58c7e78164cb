"""Windows and prices of the current models of the big providers: a table that `examples/catalogue/make.py` makes.

What it does not know stays unknown, and the configuration of a provider wins over it. The price of a cache write is that of
the five-minute cache; where no price of cached input is given, it is that of input.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import attrs
import msgspec

from store.usage import Price, micro_usd

Match = list[Any]
Cost = tuple[float, float | None, float | None, float | None]


class Row(msgspec.Struct, frozen=True):
    """One model. `cost`: input, output, cache read, cache write in dollars per million tokens; `tiers`: above so many tokens."""

    id: str
    match: Match
    cost: Cost
    window: int = 0
    tiers: tuple[tuple[int, Cost], ...] = ()

    @property
    def price(self) -> Price:
        return msgspec.structs.replace(
            _price(self.cost), tiers=tuple((above, _price(cost)) for above, cost in self.tiers)
        )

    def is_named(self, model: str) -> bool:
        return model == self.id or _matches(self.match, model)


class _Table(msgspec.Struct, frozen=True):
    source: str
    providers: dict[str, tuple[Row, ...]]


@attrs.define
class Catalogue:
    """Read when the first remote model is made."""

    _table: _Table | None = None

    def find(self, provider: str, model: str) -> Row | None:
        """The row of a model; None where it is not known. An exact id wins over a pattern."""
        rows = self._rows(provider)
        exact = next((row for row in rows if row.id == model), None)
        return exact or next((row for row in rows if row.is_named(model)), None)

    def search(self, words: str) -> Iterator[tuple[str, Row]]:
        """(provider, row) of the models that have all the words in their name."""
        wanted = words.lower().split()
        for provider, rows in self._loaded().providers.items():
            for row in rows:
                if all(word in f"{provider}/{row.id}".lower() for word in wanted):
                    yield provider, row

    @property
    def source(self) -> str:
        return self._loaded().source

    def _rows(self, provider: str) -> tuple[Row, ...]:
        return self._loaded().providers.get(provider, ())

    def _loaded(self) -> _Table:
        if self._table is None:
            data = files("orchestrator.engine").joinpath("catalogue.json").read_bytes()
            self._table = msgspec.json.decode(data, type=_Table)
        return self._table


def _price(cost: Cost) -> Price:
    base, output, cache_read, cache_write = cost
    return Price(
        micro_usd(base),
        micro_usd(output or 0.0),
        micro_usd(base if cache_read is None else cache_read),
        micro_usd(base if cache_write is None else cache_write),
    )


def _matches(rule: Match, model: str) -> bool:
    kind, *parts = rule
    match kind:
        case "is":
            return bool(model == parts[0])
        case "starts":
            return model.startswith(parts[0])
        case "ends":
            return model.endswith(parts[0])
        case "has":
            return parts[0] in model
        case "like":
            return re.search(parts[0], model) is not None
        case "or":
            return any(_matches(part, model) for part in parts)
        case "and":
            return all(_matches(part, model) for part in parts)
    return False
