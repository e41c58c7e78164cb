"""Who spent what, out of one journal: each entry once, each key once, and nothing that no provider can mean."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import entries
from store.attribution import Account, account, billed, billed_usage, own_records
from store.entries import ForkedFrom, Header
from store.messages import AssistantMessage, UserMessage
from store.records import Draft, Record, read_record
from store.usage import NOTHING, Cost, Spend, Usage, add_up, spend_of, usage_of
from store.wire import encode

DATA = Path(__file__).parents[1] / "data" / "sessions"
HEADER = Header(version=3, id="root-0000", timestamp="", cwd="/")
CENT = 10**10

spends = st.builds(
    Spend,
    *[st.integers(0, 10**6)] * 4,
    *[st.integers(0, 10**12)] * 5,
    st.frozensets(st.sampled_from(["p/a", "p/b"])),
)
own_kinds = st.sampled_from(["stop", "length", "toolUse", "error", "aborted", "compaction", "branch_summary", "usage"])


def costs(cents: int, tokens: int = 0) -> Spend:
    return Spend(input=tokens, total_pico=cents * CENT)


def bill(kind: str, spend: Spend) -> Any:
    """The body of an entry that bills `spend` to its own session."""
    usage = usage_of(spend)
    match kind:
        case "compaction":
            return entries.CompactionEntry(summary="s", first_kept_entry_id="x", tokens_before=1, usage=usage)
        case "branch_summary":
            return entries.BranchSummaryEntry(from_id="x", summary="s", usage=usage)
        case "usage":
            return entries.UsageEntry(kind="status", provider="p", model="m", usage=usage)
    message = AssistantMessage(content=(), usage=usage, stop_reason=kind)
    return entries.MessageEntry(message=msgspec.Raw(encode(message)))


def attributed(
    child: Spend | Usage,
    key: tuple[str | None, str | None] = (None, None),
    target: str | None = None,
    aggregate: Spend | Usage | None = None,
) -> entries.ChildUsageAttributedEntry:
    return entries.ChildUsageAttributedEntry(
        target_id=target,
        child_usage=usage_of(child) if isinstance(child, Spend) else child,
        aggregate_usage=usage_of(aggregate) if isinstance(aggregate, Spend) else aggregate,
        origin_session_id=key[0],
        origin_entry_id=key[1],
    )


def journal(*bodies: Any, start: int = 1) -> list[Record]:
    return [
        Draft.of(body).record(f"{number:08x}", f"{number - 1:08x}" if number > 1 else None, "")
        for number, body in enumerate(bodies, start=start)
    ]


keyed = st.builds(
    lambda origin, entry, cents: attributed(costs(cents), (origin, entry)),
    st.sampled_from(["child-aa", "child-bb"]),
    st.sampled_from(["00000001", "00000002", "00000003"]),
    st.integers(0, 100),
)

# --- own -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(own_kinds, spends), max_size=8))
def test_own_is_everything_billed_whatever_its_kind_and_its_end(bills: list[tuple[str, Spend]]) -> None:
    found = account(HEADER, journal(*(bill(kind, spend) for kind, spend in bills)))

    assert found == Account(own=add_up(spend for _, spend in bills))
    assert found.total == found.own


def test_what_bills_nothing_has_no_usage() -> None:
    user = entries.MessageEntry(message=msgspec.Raw(encode(UserMessage(content="a"))))
    free = entries.CompactionEntry(summary="s", first_kept_entry_id="x", tokens_before=1)
    records = journal(user, free, entries.LabelEntry(target_id="x"), attributed(costs(5), ("c", "1")))

    assert [billed_usage(record) for record in records] == [None] * 4
    assert account(HEADER, records).own == NOTHING


def test_abandoned_branches_and_compacted_turns_stay_spent() -> None:
    """M2."""
    bodies = [bill("stop", costs(1)), bill("stop", costs(2)), bill("compaction", costs(4)), bill("stop", costs(8))]
    one, two, three, four = journal(*bodies)
    branch = msgspec.structs.replace(four, parent_id=one.id)

    assert account(HEADER, [one, two, three, branch]).own == costs(15)


def test_an_entry_is_billed_once_by_its_id() -> None:
    one, two = journal(bill("stop", costs(1)), bill("stop", costs(2)))
    again = msgspec.structs.replace(two, id=one.id)

    assert account(HEADER, [one, two, one, again]).own == costs(3)
    assert [entry for entry, _ in billed(HEADER, [one, two, one])] == [one.id, two.id]


# --- what nobody can mean --------------------------------------------------------------------------------------------

ABSURD = [Usage(input=-5), Usage(output=10**15), Usage(cost=Cost(total=-1.0)), Usage(cost=Cost(input=1e15))]


@pytest.mark.parametrize("usage", ABSURD)
def test_absurd_usage_never_reaches_a_total_and_is_named(usage: Usage) -> None:
    message = AssistantMessage(content=(), usage=usage)
    bad = entries.MessageEntry(message=msgspec.Raw(encode(message)))
    found = account(HEADER, journal(bill("stop", costs(1)), bad, attributed(usage, ("c", "1"))))

    assert (found.total, found.refused) == (costs(1), ("00000002", "00000003"))


@pytest.mark.parametrize("usage", ABSURD)
def test_absurd_usage_in_a_foreign_file_is_refused_too(usage: Usage) -> None:
    records = journal(
        bill("stop", costs(1)),
        attributed(usage, target="00000001", aggregate=costs(3)),
        attributed(costs(2), target="00000001", aggregate=usage),
    )
    found = account(HEADER, records)

    assert found.total == costs(3)
    assert set(found.refused) == {"00000002", "00000003"}


def test_a_good_attribution_counts_after_an_absurd_one_with_its_key() -> None:
    records = journal(
        attributed(ABSURD[0], ("c", "1")), attributed(costs(2), ("c", "1")), attributed(costs(4), ("c", "1"))
    )

    assert account(HEADER, records).total == costs(2)


# --- keys ------------------------------------------------------------------------------------------------------------


@given(st.lists(keyed, max_size=10))
def test_of_two_attributions_with_one_key_the_first_counts(bodies: list[Any]) -> None:
    first: dict[Any, Spend] = {}
    for body in bodies:
        first.setdefault((body.origin_session_id, body.origin_entry_id), spend_of(body.child_usage))
    found = account(HEADER, journal(*bodies))

    assert found.children == add_up(first.values())
    assert found.keys == frozenset(first)


@given(st.lists(st.tuples(own_kinds, spends).map(lambda pair: bill(*pair)) | keyed, max_size=8), st.data())
def test_delivering_anything_twice_changes_nothing(bodies: list[Any], data: st.DataObject) -> None:
    records = journal(*bodies)
    again = [record for record in records if data.draw(st.booleans())]
    renamed = [msgspec.structs.replace(one, id=f"again{n:03}") for n, one in enumerate(again) if one.key is not None]

    assert account(HEADER, records + again + renamed) == account(HEADER, records)


@given(st.lists(st.tuples(own_kinds, spends).map(lambda pair: bill(*pair)) | keyed, max_size=8))
def test_a_total_never_falls_as_the_file_grows(bodies: list[Any]) -> None:
    records = journal(*bodies)
    totals = [account(HEADER, records[:end]).total for end in range(len(records) + 1)]

    for name in Spend.__struct_fields__[:-1]:
        counts = [getattr(total, name) for total in totals]
        assert counts == sorted(counts)


@given(st.lists(keyed, max_size=6))
def test_the_aggregate_is_for_others_and_is_never_read_by_us(bodies: list[Any]) -> None:
    loud = [msgspec.structs.replace(body, target_id="x", aggregate_usage=usage_of(costs(10**5))) for body in bodies]

    assert account(HEADER, journal(*loud)) == account(HEADER, journal(*bodies))


# --- forks -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(own_kinds, spends).map(lambda pair: bill(*pair)) | keyed, max_size=8), st.integers(0, 8))
def test_a_fork_and_its_source_together_count_everything_once(bodies: list[Any], cut: int) -> None:
    """C10."""
    source = journal(*bodies)
    copied = source[:cut]
    forked = ForkedFrom(session_id=HEADER.id, entry_id=copied[-1].id if copied else None, records=len(copied))
    header = msgspec.structs.replace(HEADER, id="fork-0000", forked_from=forked)
    added = journal(bill("stop", costs(7)), start=len(copied) + 1)

    assert account(header, copied) == Account()
    assert account(header, copied + added).total == costs(7)
    assert list(own_records(header, copied + added)) == added


# --- files of other programs -----------------------------------------------------------------------------------------

# (own, attributed) tokens of input and output: the manifest of the program that wrote them.
PRIME = [
    ("child_model_error.parent", (300, 30), (0, 0)),
    ("child_model_error.child0.depth1", (0, 0), (0, 0)),
    ("exits_before_child.parent", (200, 20), (100, 10)),
    ("nested_depth2.parent", (300, 30), (300, 30)),
    ("nested_depth2.child0.depth1", (300, 30), (100, 10)),
    ("nested_depth2.child1.depth2", (100, 10), (0, 0)),
    ("two_children_reply.parent", (300, 30), (400, 40)),
    ("two_children_reply.child0.depth1", (200, 20), (0, 0)),
]


@pytest.mark.parametrize(("name", "own", "attributed"), PRIME)
def test_the_files_of_prime_agent_say_what_their_program_says(
    name: str, own: tuple[int, int], attributed: tuple[int, int]
) -> None:
    header, *lines = (DATA / f"prime.{name}.session.jsonl").read_bytes().split(b"\n")[:-1]
    found = account(msgspec.json.decode(header, type=Header), [read_record(line) for line in lines])

    assert (found.own.input, found.own.output) == own
    assert (found.children.input, found.children.output) == attributed
    assert found.is_verifiable
    # 1 and 10 dollars per million tokens
    assert found.total.total_pico == found.total.input * 10**6 + found.total.output * 10**7


@pytest.mark.parametrize(
    ("parts", "aggregates", "total", "is_verifiable"),
    [
        ([2], [3], 3, True),
        ([2, 4], [3, 7], 7, True),
        ([2, 4], [3, 9], 9, True),  # the last aggregate wins, whatever the parts say
        ([2], [None], 3, True),
        ([2, 4], [3, 0], 7, False),  # less than the target's own
    ],
)
def test_without_keys_the_last_aggregate_of_a_target_wins(
    parts: list[int], aggregates: list[int | None], total: int, is_verifiable: bool
) -> None:
    bodies = [
        attributed(costs(part), target="00000001", aggregate=None if aggregate is None else costs(aggregate))
        for part, aggregate in zip(parts, aggregates, strict=True)
    ]
    found = account(HEADER, journal(bill("stop", costs(1)), *bodies))

    assert (found.total, found.is_verifiable) == (costs(total), is_verifiable)
    assert found.keys == frozenset()


def test_without_keys_each_target_has_its_own_aggregate_and_a_lost_target_its_parts() -> None:
    records = journal(
        bill("stop", costs(1)),
        bill("stop", costs(2)),
        attributed(costs(4), target="00000001", aggregate=costs(5)),
        attributed(costs(8), target="00000002", aggregate=costs(10)),
        attributed(costs(16), target="lost", aggregate=costs(99)),
    )

    assert account(HEADER, records).total == costs(31)


def test_half_a_key_is_no_key() -> None:
    records = journal(bill("stop", costs(1)), attributed(costs(2), ("c", None), "00000001", costs(3)))

    assert account(HEADER, records).total == costs(3)
    assert account(HEADER, records).keys == frozenset()


def test_unpriced_models_of_children_are_named_in_the_total() -> None:
    unknown = Spend(input=5, unpriced=frozenset({"p/x"}))
    found = account(HEADER, journal(bill("stop", costs(1)), attributed(unknown, ("c", "1"))))

    assert found.total == costs(1, 5) + Spend(unpriced=frozenset({"p/x"}))
