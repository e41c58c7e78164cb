"""Makes the table of models that sapwood ships: windows and prices, from the data of the package genai-prices.

    python -m venv /tmp/prices && /tmp/prices/bin/pip install genai-prices
    /tmp/prices/bin/python examples/catalogue/make.py

The package itself is no dependency: it would bring pydantic and a second HTTP client into every installation.
"""

import json
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import data, types

TARGET = Path(__file__).parents[2] / "orchestrator" / "engine" / "catalogue.json"
PROVIDERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "openrouter": "openrouter",
    "groq": "groq",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "x-ai": "xai",
}
MEMBERS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def main() -> None:
    providers = {provider.id: provider for provider in data.providers}
    table = {
        ours: [row for model in providers[theirs].models if (row := described(model)) is not None]
        for theirs, ours in PROVIDERS.items()
    }
    source = f"genai-prices {version('genai-prices')} (MIT), read on {date.today().isoformat()}"
    TARGET.write_text(text_of(source, table), "utf-8")
    print(f"wrote {sum(map(len, table.values()))} models to {TARGET.name}")


def text_of(source: str, table: dict[str, list[dict[str, Any]]]) -> str:
    """JSON with a model to a line, so that a later version can be compared with this one."""
    parts = []
    for provider, rows in table.items():
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        parts.append(f"{json.dumps(provider)}: [\n{lines}\n]")
    return f'{{"source": {json.dumps(source)},\n"providers": {{\n' + ",\n".join(parts) + "\n}}\n"


def described(model: Any) -> dict[str, Any] | None:
    """One row: id, how other spellings of it look, window, prices; None for what has no price per token."""
    prices = valid_today(model.prices)
    if prices is None or prices.input_mtok is None:
        return None
    tiers = [dollars(getattr(prices, name)) for name in MEMBERS]
    starts = sorted({start for _, steps in tiers for start, _ in steps})
    row: dict[str, Any] = {"id": model.id, "match": clause(model.match)}
    if model.context_window:
        row["window"] = model.context_window
    row["cost"] = [base for base, _ in tiers]
    if starts:
        row["tiers"] = [[start, [price_at(one, start) for one in tiers]] for start in starts]
    return row


def valid_today(prices: Any) -> Any:
    if not isinstance(prices, list):
        return prices
    today = date.today()
    begun = [one for one in prices if one.constraint is None or getattr(one.constraint, "start_date", today) <= today]
    dated = [one for one in begun if hasattr(one.constraint, "start_date")]
    plain = [one for one in begun if one.constraint is None]
    chosen = max(dated, key=lambda one: one.constraint.start_date, default=None) or (plain[0] if plain else None)
    return None if chosen is None else chosen.prices


def dollars(price: Any) -> tuple[float | None, list[tuple[int, float]]]:
    """The base price per million tokens, and from how many tokens of input on it is another one."""
    if isinstance(price, types.TieredPrices):
        return float(price.base), [(tier.start, float(tier.price)) for tier in price.tiers]
    return (None if price is None else float(Decimal(price))), []


def price_at(price: tuple[float | None, list[tuple[int, float]]], start: int) -> float | None:
    base, steps = price
    return next((value for at, value in reversed(steps) if at <= start), base)


def clause(match: Any) -> list[Any]:
    kinds = {
        types.ClauseEquals: ("is", "equals"),
        types.ClauseStartsWith: ("starts", "starts_with"),
        types.ClauseEndsWith: ("ends", "ends_with"),
        types.ClauseContains: ("has", "contains"),
        types.ClauseRegex: ("like", "regex"),
    }
    if type(match) in kinds:
        word, member = kinds[type(match)]
        return [word, getattr(match, member)]
    if isinstance(match, types.ClauseOr):
        return ["or", *map(clause, match.or_)]
    return ["and", *map(clause, match.and_)]


if __name__ == "__main__":
    main()
