from typing import Any

import pytest

from orchestrator.providers.openai_usage import Counts
from store.usage import Usage


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3}, Usage(input=10, output=3, total_tokens=13)),
        (
            {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}},
            Usage(input=2, output=3, cache_read=8, total_tokens=13),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 3}},
            Usage(input=2, cache_read=5, cache_write=3, total_tokens=10),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, Usage(input=6, cache_read=4, total_tokens=10)),
        ({"prompt_tokens": 10, "cached_tokens": 4}, Usage(input=6, cache_read=4, total_tokens=10)),
        ({"prompt_tokens": 4, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(cache_read=9, total_tokens=9)),
        (
            {"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(output=7, reasoning=5, total_tokens=7),
        ),
        (
            {
                "input_tokens": 20,
                "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 5},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": 29,
            },
            Usage(input=7, output=9, cache_read=8, cache_write=5, reasoning=4, total_tokens=29),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage()),
        ({"prompt_tokens": 10.0, "prompt_tokens_details": None}, Usage(input=10, total_tokens=10)),
    ],
)
def test_counts_are_read_in_openais_way(reported: dict[str, Any], expected: Usage) -> None:
    assert Counts(pytest.fail).take(reported) == expected


@pytest.mark.parametrize("nothing", [None, {}, [], "x", {"prompt_tokens": None}, {"prompt_tokens_details": {}}])
def test_what_holds_no_count_changes_none(nothing: Any) -> None:
    assert Counts(pytest.fail).take(nothing) is None


def test_the_latest_value_of_each_member_wins_and_nothing_is_added_up() -> None:
    counts = Counts(pytest.fail)

    assert counts.take({"prompt_tokens": 10, "completion_tokens": 10}) == Usage(input=10, output=10, total_tokens=20)
    assert counts.take({"completion_tokens": 50}) == Usage(input=10, output=50, total_tokens=60)
    assert counts.take({"prompt_tokens": None, "completion_tokens": 100}) == Usage(
        input=10, output=100, total_tokens=110
    )
    assert counts.take({"prompt_tokens": 10, "completion_tokens": 100}) is None
    assert counts.take({"completion_tokens": 0}) == Usage(input=10, total_tokens=10)


def test_a_server_may_count_reasoning_apart() -> None:
    reported = {"completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 5}}

    assert Counts(pytest.fail, is_reasoning_extra=True).take(reported) == Usage(output=8, reasoning=5, total_tokens=8)
