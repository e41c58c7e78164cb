"""What `aggregateUsage` says is written for others: ours adds up, and where one does not, it is found."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from store.aggregates import aggregates_apart
from store.entries import ChildUsageAttributedEntry
from store.records import Draft
from store.repair import Node
from store.tree import EntryTree
from store.usage import Spend, usage_of
from tests.store.test_repair import World, whole, worlds

ODD = usage_of(Spend(input=123_456_789))


def apart(node: Node) -> list[str]:
    return aggregates_apart(node.header, node.records)


@given(worlds)
@settings(deadline=None)
def test_ours_add_up(world: World) -> None:
    assert not any(apart(node) for node in whole(world).values())


@given(worlds, st.data())
@settings(deadline=None)
def test_one_that_does_not_add_up_is_found(world: World, data: st.DataObject) -> None:
    places = [
        (node, place)
        for node in whole(world).values()
        for place, record in enumerate(node.records)
        if isinstance(body := record.body(), ChildUsageAttributedEntry) and body.aggregate_usage is not None
    ]
    if not places:
        return
    node, place = data.draw(st.sampled_from(places))
    record = node.records[place]
    body = record.body()
    assert isinstance(body, ChildUsageAttributedEntry)
    changed = Draft.of(msgspec.structs.replace(body, aggregate_usage=ODD)).record(
        record.id, record.parent_id, record.timestamp
    )
    records = [changed if each is record else each for each in node.records]

    assert apart(Node(node.header, EntryTree.of(records, node.header))) == [record.id]
