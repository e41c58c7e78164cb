"""`sapwood models`: what can be named with -m."""

import os
from pathlib import Path

import click
import msgspec

from orchestrator.cli.common import echo_json, echo_lines, home_from_env, told
from orchestrator.engine.catalogue import Catalogue, Row
from orchestrator.engine.config import load_config
from orchestrator.views.money import tokens
from orchestrator.views.text import one_line

HELP = """Models that can be named, with their windows and prices in dollars per million tokens.

Those of the configuration first, then those of the catalogue that comes with sapwood. A provider may have more: a model that
is not listed works all the same, its price is unknown then.

\b
  sapwood models sonnet
  sapwood models openai gpt-5 --json"""

_SHOWN = 200


class Listed(msgspec.Struct, frozen=True, rename="camel"):
    """One line. Dollars per million tokens, None: unknown; `tiers` is there where long requests cost more."""

    model: str
    source: str
    context_window: int | None = None
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: bool = False


@click.command(help=HELP)
@click.argument("search", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="An array of objects.")
@told
def command(search: tuple[str, ...], as_json: bool) -> None:
    """Search and print."""
    words = " ".join(search)
    catalogue = Catalogue()
    found = [*_configured(words), *(_listed(provider, row) for provider, row in catalogue.search(words))]
    if as_json:
        echo_json(found)
        return
    shown = found[:_SHOWN]
    width = max((len(one.model) for one in shown), default=0)
    echo_lines(_line(one, width) for one in shown)
    if len(found) > len(shown):
        echo_lines([f"… {len(found) - len(shown)} more; add a word to the search"])
    echo_lines([f"catalogue: {catalogue.source}" if found else f"no model is known for {one_line(words)!r}"])


def _configured(words: str) -> list[Listed]:
    config = load_config(home_from_env().config_path, Path(os.getcwd()))
    return [
        Listed(
            f"{name}/{model.id}",
            "configuration",
            model.context_window or None,
            *(
                (model.cost.input, model.cost.output, model.cost.cache_read, model.cost.cache_write)
                if model.cost
                else ()
            ),
        )
        for name, provider in config.providers.items()
        for model in provider.models
        if all(word in f"{name}/{model.id}".lower() for word in words.lower().split())
    ]


def _listed(provider: str, row: Row) -> Listed:
    return Listed(f"{provider}/{row.id}", "catalogue", row.window or None, *row.cost, bool(row.tiers))


def _line(one: Listed, width: int) -> str:
    prices = [("in", one.input), ("out", one.output), ("cached", one.cache_read)]
    known = "  ".join(f"${price:g} {word}" for word, price in prices if price is not None)
    window = tokens(one.context_window) if one.context_window else "?"
    more = "  (more for long requests)" if one.tiers else ""
    return f"{one_line(one.model):<{width}}  {window:>6}  {known or 'price unknown'}{more}"
