"""The language of the filter line: words and terms such as `status:failed cost>0.5`, all of which a row has to meet."""

import re
from collections.abc import Callable

import attrs
import msgspec

from orchestrator.views.context import percent
from orchestrator.views.doing_text import doing, seconds_since
from orchestrator.views.money import spent_tokens
from orchestrator.views.rows import AgentRow
from orchestrator.views.signs import title
from store.errors import BadUsage
from store.usage import PICO_PER_USD, spend_of

_TERM = re.compile(
    r"(status|model|depth|cost|tokens|ctx|quiet|name|tool)(:|>=|<=|>|<|=)(.*)", re.IGNORECASE | re.DOTALL
)
_NUMBER = re.compile(r"\$?(\d+(?:\.\d+)?)(k|m|s|h|d|%)?", re.IGNORECASE)
_SIZES = {"k": 1e3, "m": 1e6}
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": lambda found, wanted: found > wanted,
    "<": lambda found, wanted: found < wanted,
    ">=": lambda found, wanted: found >= wanted,
    "<=": lambda found, wanted: found <= wanted,
    "=": lambda found, wanted: found == wanted,
    ":": lambda found, wanted: found == wanted,
}


class Term(msgspec.Struct, frozen=True):
    """`field` is empty for a bare word. `number` is set for the fields that are compared."""

    field: str
    sign: str
    text: str
    number: float | None = None


@attrs.frozen
class Query:
    """`problem`: what of the text is no term; such a query meets every row."""

    terms: tuple[Term, ...] = ()
    problem: str = ""

    def meets(self, row: AgentRow, now: float) -> bool:
        return bool(self.problem) or all(_meets(term, row, now) for term in self.terms)


def parse_query(text: str) -> Query:
    """Terms are parted by white space and joined by and."""
    terms = []
    for word in text.split():
        match = _TERM.fullmatch(word)
        if match is None:
            terms.append(Term("", "", word.casefold()))
            continue
        name, sign, value = match[1].lower(), match[2], match[3]
        if name in _NUMBERS:
            number = _number(name, value)
            if number is None:
                return Query(problem=f"expected a number in {word[:40]}, such as {_EXAMPLES[name]}")
            terms.append(Term(name, sign, value, number))
        elif sign not in {":", "="} or not value:
            return Query(problem=f"expected {name}:word, found {word[:40]}")
        else:
            terms.append(Term(name, sign, value.casefold()))
    return Query(tuple(terms))


def _number(name: str, text: str) -> float | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    unit = (match[2] or "").lower()
    factor = {"quiet": _TIMES, "tokens": _SIZES, "ctx": {"%": 1.0}}.get(name, {}).get(unit, None if unit else 1.0)
    return None if factor is None else float(match[1]) * factor


def _meets(term: Term, row: AgentRow, now: float) -> bool:
    if term.number is not None:
        found = _NUMBERS[term.field](row, now)
        return found is not None and _COMPARE[term.sign](found, term.number)
    match term.field:
        case "status":
            return row.state.word.replace(" ", "_").startswith(term.text.replace("-", "_"))
        case "model":
            return term.text in (row.model or "").casefold()
        case "name":
            return term.text in title(row).casefold()
        case "tool":
            activity = row.activity
            return activity is not None and activity.kind == "tool" and activity.label.casefold().startswith(term.text)
    return term.text in f"{title(row)} {row.state.word} {row.model or ''} {row.session_id} {doing(row, now)}".casefold()


def _cost(row: AgentRow, now: float) -> float | None:
    try:
        return None if row.total is None else spend_of(row.total).total_pico / PICO_PER_USD
    except BadUsage:
        return None


def _quiet(row: AgentRow, now: float) -> float | None:
    return seconds_since(row.last_event_at, now) if row.state.is_working else None


_NUMBERS: dict[str, Callable[[AgentRow, float], float | None]] = {
    "depth": lambda row, now: row.depth,
    "cost": _cost,
    "tokens": lambda row, now: spent_tokens(row.total),
    "ctx": lambda row, now: percent(row),
    "quiet": _quiet,
}
_EXAMPLES = {"depth": "depth:2", "cost": "cost>0.5", "tokens": "tokens>100k", "ctx": "ctx>80", "quiet": "quiet>2m"}
