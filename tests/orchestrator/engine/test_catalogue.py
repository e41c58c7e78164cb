"""The catalogue of models: what is known is used, what is not stays unknown, the configuration wins."""

from pathlib import Path

import pytest

from orchestrator.engine.catalogue import Catalogue
from orchestrator.engine.config import Config, CostConfig, ModelConfig, ProviderConfig
from orchestrator.engine.models import Models
from store.usage import Price, Usage, micro_usd, priced


def models(providers: dict[str, ProviderConfig] | None = None, **environ: str) -> Models:
    return Models(
        Config(providers=providers or {}), {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", **environ}, Path("/")
    )


def test_every_row_of_the_table_can_be_read_and_is_found_by_its_own_id() -> None:
    catalogue = Catalogue()
    rows = list(catalogue.search(""))
    assert len(rows) > 500
    for provider, row in rows:
        assert catalogue.find(provider, row.id) is not None
        assert row.price.input >= 0
        assert [above for above, _ in row.tiers] == sorted(above for above, _ in row.tiers)


@pytest.mark.parametrize(
    ("name", "row"), [("gpt-5-2025-08-07", "gpt-5"), ("gpt-5", "gpt-5"), ("gpt-4o-mini", "gpt-4o-mini")]
)
def test_a_dated_name_is_the_model_that_it_names(name: str, row: str) -> None:
    found = Catalogue().find("openai", name)
    assert found is not None
    assert found.id == row


def test_a_known_model_has_its_window_and_its_price() -> None:
    _, info = models().get("openai/gpt-5")
    assert info.context_window == 400_000
    assert info.price == Price(micro_usd(1.25), micro_usd(10), micro_usd(0.125), micro_usd(1.25))


def test_what_is_not_in_the_table_is_unknown_and_not_free() -> None:
    _, info = models().get("openai/a-model-of-tomorrow")
    assert (info.price, info.context_window) == (None, 0)
    assert priced(Usage(input=5), info.price, info.name).cost.unpriced == ("openai/a-model-of-tomorrow",)


def test_the_configuration_wins() -> None:
    own = ProviderConfig(models=(ModelConfig("gpt-5", context_window=1000, cost=CostConfig(input=9, output=9)),))
    _, info = models({"openai": own}).get("openai/gpt-5")
    assert info.context_window == 1000
    assert info.price is not None
    assert info.price.input == micro_usd(9)


def test_a_server_of_ones_own_does_not_get_the_prices_of_another() -> None:
    _, info = models(OPENAI_BASE_URL="http://127.0.0.1:1/v1").get("openai/gpt-5")
    assert (info.price, info.context_window) == (None, 0)


def test_a_long_request_pays_the_higher_price_for_all_of_it() -> None:
    price = Price(1_000_000, 10_000_000, tiers=((200_000, Price(2_000_000, 15_000_000)),))
    assert priced(Usage(input=200_000, output=10), price, "m").cost.total == pytest.approx(0.2 + 0.0001)
    assert priced(Usage(input=150_000, cache_read=50_001, output=10), price, "m").cost.input == pytest.approx(0.3)
