"""What a run was given outlives it: kept as it was given, read back as the parts of a job, over the configuration."""

from typing import Any

import pytest

from actors.protocol.limits import Limits
from orchestrator.engine.config import Config
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.terms import TERMS_MARK, terms_entry, terms_given, terms_of, under
from store.entries import CustomEntry, Known
from store.records import Draft
from store.tree import EntryTree

NOTHING_GIVEN = {"tools": None, "no_tools": False, "gates": (), "max_cost": None, "api_key": "secret", "model": "a/b"}
CONFIG = Config(limits=Limits(max_depth=5, max_children=7))


def records(*bodies: Known) -> Any:
    tree = EntryTree()
    for body in bodies:
        tree.add(Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z"))
    return tree.records


def test_only_what_was_given_of_what_is_kept_is_kept_and_never_a_key() -> None:
    assert terms_given(NOTHING_GIVEN) == {}
    assert terms_given({**NOTHING_GIVEN, "max_cost": 0.5, "gates": ("make",), "max_depth": 0, "no_tools": True}) == {
        "max_cost": 0.5,
        "gates": ["make"],
        "max_depth": 0,
        "no_tools": True,
    }


def test_the_terms_that_were_kept_last_hold_and_what_no_option_is_called_is_passed_over() -> None:
    odd = CustomEntry(custom_type=TERMS_MARK, data={"max_turns": 3, "api_key": "x", "cwd": "/"})

    assert terms_of(records()) == {}
    assert terms_of(records(terms_entry({"max_cost": 1.0}), terms_entry({"max_turns": 2}))) == {"max_turns": 2}
    assert terms_of(records(odd)) == {"max_turns": 3}
    assert terms_of(records(CustomEntry(custom_type=TERMS_MARK, data=[1]))) == {}
    assert terms_of(records(CustomEntry(custom_type="theirs", data={"about": TERMS_MARK}))) == {}


def test_terms_go_over_the_configuration_part_by_part() -> None:
    plain, given = (
        under({}, CONFIG),
        under({"max_children": 2, "max_cost": 3.0, "timeout": 9.0, "tools": "read"}, CONFIG),
    )

    assert (plain["limits"], plain["budgets"], plain["timeout_s"], plain["tools"]) == (CONFIG.limits, {}, None, None)
    assert given["limits"] == Limits(max_depth=5, max_children=2)
    assert (given["budgets"], given["timeout_s"], given["tools"]) == ({"max_cost": 3.0}, 9.0, ("read",))
    assert under({"no_tools": True, "no_context_files": True}, CONFIG)["tools"] == ()


@pytest.mark.parametrize(
    ("terms", "told"), [({"tools": "raed"}, "no tool is named raed"), ({"gates": [" "]}, "--gate")]
)
def test_terms_that_cannot_be_are_wrong_usage(terms: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongUsage, match=told):
        under(terms, CONFIG)
