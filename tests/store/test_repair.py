"""After any crash the repair makes every total exact again, adds nothing twice and takes nothing away."""

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import entries
from store.attribution import account
from store.context import INTERRUPTED, dangling_calls
from store.entries import ForkedFrom, Header
from store.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Block,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    decode_message,
    text_of,
)
from store.records import Draft, Record
from store.repair import (
    SETTLED_TEXT_BYTES,
    Fix,
    Node,
    admitting_entry,
    bounded,
    children_of,
    is_run_open,
    next_run,
    post_order,
    repair_plan,
    runs,
    with_fixes,
)
from store.tree import EntryTree
from store.usage import NOTHING, Cost, Spend, Usage, add_up, spend_of, usage_of
from store.wire import encode

ROOT = "session-0"


def message(body: Message) -> entries.MessageEntry:
    return entries.MessageEntry(message=msgspec.Raw(encode(body)))


def answer(spend: Spend = NOTHING, *calls: str, text: str = "", stop: str = "stop") -> entries.MessageEntry:
    blocks: list[Block] = [TextContent(text=text), *(ToolCall(id=call, name="t") for call in calls)]
    usage = usage_of(spend, total_tokens=spend.input)
    return message(AssistantMessage(content=tuple(blocks), usage=usage, stop_reason=stop))


def user(text: str = "go") -> entries.MessageEntry:
    return message(UserMessage(content=text))


def result(call: str) -> entries.MessageEntry:
    return message(ToolResultMessage(tool_call_id=call, tool_name="t"))


def spawned(child: str, call: str | None = None, depth: int = 1) -> entries.ChildSpawnedEntry:
    return entries.ChildSpawnedEntry(
        child_session_id=child, name="n", child_depth=depth, prompt="p", model="m", tool_call_id=call
    )


def settled(run: int = 1, outcome: str = "completed") -> entries.RunSettledEntry:
    return entries.RunSettledEntry(run=run, outcome=outcome)


def told(child: str, run: int = 1, outcome: str = "completed") -> entries.ChildSettledEntry:
    return entries.ChildSettledEntry(child_session_id=child, run=run, outcome=outcome)


def node(session: str, *bodies: Any, parent: str | None = None, forked_from: ForkedFrom | None = None) -> Node:
    root = None if parent is None else ROOT
    header = Header(
        version=3,
        id=session,
        timestamp="",
        cwd="/",
        parent_session_id=parent,
        root_session_id=root,
        forked_from=forked_from,
    )
    tree = EntryTree.of([], header)
    for body in bodies:
        tree.add(Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z"))
    return Node(header, tree)


def nodes_of(*nodes: Node) -> dict[str, Node]:
    return {one.header.id: one for one in nodes}


def repaired(nodes: Mapping[str, Node], root: str = ROOT) -> dict[str, Node]:
    return with_fixes(nodes, repair_plan(nodes, root))


def planned(nodes: Mapping[str, Node], kind: type[Any], root: str = ROOT) -> list[tuple[str, Any]]:
    return [(fix.session_id, fix.body) for fix in repair_plan(nodes, root) if isinstance(fix.body, kind)]


def total(one: Node) -> Spend:
    return account(one.header, one.records).total


# --- random trees of work, written in the order in which a host writes -------------------------------------------------

spends = st.builds(
    Spend,
    *[st.integers(0, 10**6)] * 4,
    *[st.integers(0, 10**13)] * 5,
    st.frozensets(st.sampled_from(["p/a", "p/b"])),
)
# What happens, to a session drawn by its number: it spawns a child, is billed, or ends its run.
steps = st.lists(
    st.tuples(
        st.sampled_from(["spawn", "answer", "answer", "usage", "compaction", "settle"]), st.integers(0, 30), spends
    ),
    max_size=25,
)


@attrs.define
class Line:
    """A record and what had to be durable before it was written."""

    record: Record
    after: list[tuple[str, int]]


@attrs.define
class World:
    """A tree at work, with every attribution in place: the truth that crashes are measured against."""

    lines: dict[str, list[Line]] = attrs.field(factory=dict)
    trees: dict[str, EntryTree] = attrs.field(factory=dict)
    parents: dict[str, str | None] = attrs.field(factory=dict)
    born: dict[str, list[tuple[str, int]]] = attrs.field(factory=dict)
    runs: dict[str, int] = attrs.field(factory=dict)
    is_open: dict[str, bool] = attrs.field(factory=dict)

    def session(self, name: str, parent: str | None, born: list[tuple[str, int]]) -> None:
        self.lines[name], self.trees[name], self.parents[name] = [], EntryTree(), parent
        self.born[name], self.runs[name], self.is_open[name] = born, 0, False

    def write(self, name: str, body: Any, after: list[tuple[str, int]] | None = None) -> tuple[str, int]:
        tree = self.trees[name]
        record = Draft.of(body).record(tree.next_ids(1)[0], tree.leaf_id, "2026-01-01T00:00:00.000Z")
        tree.add(record)
        self.lines[name].append(Line(record, after or []))
        return name, len(self.lines[name]) - 1

    def chain(self, name: str) -> list[tuple[str, str]]:
        """(ancestor, its child on the way down) from the parent to the root."""
        found = []
        below = name
        while (above := self.parents[below]) is not None:
            found.append((above, below))
            below = above
        return found

    def bill(self, name: str, body: Any, spend: Spend) -> None:
        place = self.write(name, body)
        for above, child in self.chain(name):
            attribution = entries.ChildUsageAttributedEntry(
                target_id=None,
                child_usage=usage_of(spend),
                origin_session_id=name,
                origin_entry_id=self.lines[name][-1].record.id,
                child_session_id=child,
            )
            self.write(above, attribution, [place])

    def step(self, kind: str, name: str, spend: Spend) -> None:
        if kind == "spawn":
            child = f"session-{len(self.lines)}"
            call = f"call-{child}"
            self.bill(name, answer(spend, call), spend)
            place = self.write(name, spawned(child, call, len(self.chain(name)) + 1))
            self.write(name, result(call))
            self.session(child, name, [place])
            self.is_open[name] = True
        elif kind == "answer":
            self.bill(name, answer(spend), spend)
            self.is_open[name] = True
        elif kind == "usage":
            status = entries.UsageEntry(kind="k", provider="p", model="m", usage=usage_of(spend))
            self.bill(name, status, spend)
        elif kind == "compaction":
            usage = usage_of(spend)
            body = entries.CompactionEntry(summary="s", first_kept_entry_id="x", tokens_before=1, usage=usage)
            self.bill(name, body, spend)
        elif self.is_open[name]:
            self.runs[name] += 1
            self.is_open[name] = False
            place = self.write(name, settled(self.runs[name]))
            if (above := self.parents[name]) is not None:
                self.write(above, told(name, self.runs[name]), [place])


def world_of(drawn: list[tuple[str, int, Spend]]) -> World:
    world = World()
    world.session(ROOT, None, [])
    for kind, number, spend in drawn:
        names = list(world.lines)
        world.step(kind, names[number % len(names)], spend)
    return world


worlds = st.builds(world_of, steps)
BOOKKEEPING = {"child_settled", "child_usage_attributed", "run_settled"}


def crashed(world: World, data: st.DataObject) -> dict[str, Node]:
    """What a crash leaves: of each journal a beginning, less any bookkeeping, and nothing whose cause is gone."""
    kept = {name: data.draw(st.integers(0, len(lines)), label=name) for name, lines in world.lines.items()}
    while True:
        cut = dict(kept)
        for name, lines in world.lines.items():
            if any(kept[other] <= place for other, place in world.born[name]):
                cut[name] = 0
            for place, line in enumerate(lines[: cut[name]]):
                is_orphan = any(kept[other] <= cause for other, cause in line.after)
                if is_orphan and line.record.type not in BOOKKEEPING:
                    cut[name] = min(cut[name], place)
        if cut == kept:
            break
        kept = cut
    return {
        name: Node(node(name, parent=world.parents[name]).header, EntryTree.of(left(world, name, kept, data)))
        for name in world.lines
        if all(kept[other] > place for other, place in world.born[name])
        and (kept[name] or name == ROOT or is_there(data))
    }


def is_there(data: st.DataObject) -> bool:
    """Whether the file of a child that has no entries yet was made."""
    return bool(data.draw(st.booleans()))


def left(world: World, name: str, kept: dict[str, int], data: st.DataObject) -> list[Record]:
    lines = world.lines[name][: kept[name]]
    return [
        line.record
        for line in lines
        if all(kept[other] > cause for other, cause in line.after)
        and (line.record.type not in BOOKKEEPING or data.draw(st.sampled_from([True, True, False])))
    ]


def whole(world: World) -> dict[str, Node]:
    return {
        name: Node(node(name, parent=world.parents[name]).header, EntryTree.of([line.record for line in lines]))
        for name, lines in world.lines.items()
    }


def truth(nodes: Mapping[str, Node], root: str) -> Spend:
    """Σ own over the subtree, by a walk of its own."""
    one = nodes.get(root)
    if one is None:
        return NOTHING
    below = {child.child_session_id for child in children_of(one.records)}
    return add_up([account(one.header, one.records).own, *(truth(nodes, child) for child in below)])


@given(worlds)
def test_a_tree_that_is_quiet_has_exact_totals_and_nothing_to_attribute(world: World) -> None:
    nodes = whole(world)

    assert [total(one) for one in nodes.values()] == [truth(nodes, name) for name in nodes]
    assert planned(nodes, entries.ChildUsageAttributedEntry) == []


@settings(deadline=None, max_examples=300)
@given(worlds, st.data())
def test_after_any_crash_a_repair_makes_every_total_exact(world: World, data: st.DataObject) -> None:
    nodes = crashed(world, data)
    after = repaired(nodes)

    for name, one in nodes.items():
        exact = truth(nodes, name)
        assert total(after[name]) == exact == truth(after, name)
        for member in Spend.__struct_fields__[:-1]:
            assert getattr(total(one), member) <= getattr(exact, member)
        assert total(one).unpriced <= exact.unpriced


@settings(deadline=None, max_examples=200)
@given(worlds, st.data())
def test_repair_twice_is_repair_once(world: World, data: st.DataObject) -> None:
    assert repair_plan(repaired(crashed(world, data)), ROOT) == []


@settings(deadline=None)
@given(worlds, st.data())
def test_a_repair_that_was_cut_is_finished_by_the_next(world: World, data: st.DataObject) -> None:
    nodes = crashed(world, data)
    plan = repair_plan(nodes, ROOT)
    cut = with_fixes(nodes, plan[: data.draw(st.integers(0, len(plan)))])
    after = repaired(cut)

    assert {name: total(one) for name, one in after.items()} == {name: truth(nodes, name) for name in nodes}
    assert repair_plan(after, ROOT) == []


@settings(deadline=None)
@given(worlds, st.data())
def test_a_repair_only_appends(world: World, data: st.DataObject) -> None:
    nodes = crashed(world, data)
    before = {name: list(one.records) for name, one in nodes.items()}
    after = repaired(nodes)

    for name, records in before.items():
        assert nodes[name].records == records
        assert after[name].records[: len(records)] == records
        assert len({record.id for record in after[name].records}) == len(after[name].records)


@settings(deadline=None)
@given(worlds, st.data())
def test_delivering_any_attribution_twice_changes_no_total(world: World, data: st.DataObject) -> None:
    after = repaired(crashed(world, data))
    for one in after.values():
        records = list(one.records)
        for number, record in enumerate(one.records):
            if record.key is not None and data.draw(st.booleans()):
                records.append(msgspec.structs.replace(record, id=f"again{number:03}"))
        assert account(one.header, records) == account(one.header, one.records)


@settings(deadline=None)
@given(worlds, st.data())
def test_every_run_of_every_child_is_told_once_and_every_child_has_ended(world: World, data: st.DataObject) -> None:
    nodes = crashed(world, data)
    after = repaired(nodes)

    for one in after.values():
        notices = [body for record in one.records if isinstance(body := record.body(), entries.ChildSettledEntry)]
        heard = [(body.child_session_id, body.run) for body in notices]
        assert len(set(heard)) == len(heard)
        for child in children_of(one.records):
            name = child.child_session_id
            assert name in dict(heard)
            if name in after:
                ended = [run.run for run in runs(after[name].records)]
                assert ended
                assert {(name, run) for run in ended} <= set(heard)
                assert not is_run_open(after[name].records)


@settings(deadline=None)
@given(worlds, st.data())
def test_the_last_aggregate_of_each_target_is_its_own_and_all_attributions_to_it(
    world: World, data: st.DataObject
) -> None:
    for one in repaired(crashed(world, data)).values():
        sums: dict[str, Spend] = {}
        last: dict[str, Usage] = {}
        seen = set()
        for record in one.records:
            body = record.body()
            if isinstance(body, entries.ChildUsageAttributedEntry) and record.key not in seen and body.target_id:
                seen.add(record.key)
                sums[body.target_id] = sums.get(body.target_id, NOTHING) + spend_of(body.child_usage)
                assert body.aggregate_usage is not None
                last[body.target_id] = body.aggregate_usage
        for target, usage in last.items():
            found = one.tree.get(target)
            assert found is not None
            body = found.body()
            assert isinstance(body, entries.MessageEntry)
            own = decode_message(body.message)
            assert isinstance(own, AssistantMessage)
            assert spend_of(usage) == spend_of(own.usage) + sums[target]
            assert usage.total_tokens == own.usage.total_tokens


# --- lifecycle -------------------------------------------------------------------------------------------------------


def test_a_child_without_a_file_is_lost() -> None:
    [(session, notice)] = planned(
        nodes_of(node(ROOT, user(), spawned("child-00"), settled())), entries.ChildSettledEntry
    )

    assert (session, notice.child_session_id, notice.run, notice.outcome) == (ROOT, "child-00", 1, "lost")
    assert notice.text == ""


def test_a_child_that_did_not_settle_is_lost_with_its_partial_text() -> None:
    child = node("child-00", user(), answer(text="first"), answer(text="so far", stop="aborted"), parent=ROOT)
    nodes = nodes_of(node(ROOT, user(), spawned("child-00"), settled()), child)

    assert planned(nodes, entries.RunSettledEntry) == [("child-00", settled(1, "lost"))]
    [(_, notice)] = planned(nodes, entries.ChildSettledEntry)
    assert (notice.outcome, notice.text) == ("lost", "so far")


def test_a_child_whose_file_has_no_entries_yet_is_lost_in_both_files() -> None:
    nodes = nodes_of(node(ROOT, user(), spawned("child-00"), settled()), node("child-00", parent=ROOT))

    assert planned(nodes, entries.RunSettledEntry) == [("child-00", settled(1, "lost"))]
    assert [(session, body.run) for session, body in planned(nodes, entries.ChildSettledEntry)] == [(ROOT, 1)]
    after = repaired(nodes)
    after["child-00"].tree.add(Draft.of(user("revived")).record("0000000a", None, ""))
    assert planned(after, entries.RunSettledEntry) == [("child-00", settled(2, "lost"))]
    assert [(session, body.run) for session, body in planned(after, entries.ChildSettledEntry)] == [(ROOT, 2)]


@pytest.mark.parametrize("outcome", entries.OUTCOMES)
def test_the_outcome_of_a_child_that_settled_is_copied(outcome: str) -> None:
    ended = entries.RunSettledEntry(run=1, outcome=outcome, stop_reason="error", error_message="why")
    nodes = nodes_of(
        node(ROOT, user(), spawned("child-00"), settled()),
        node("child-00", user(), answer(text="done"), ended, parent=ROOT),
    )
    [(_, notice)] = planned(nodes, entries.ChildSettledEntry)

    assert (notice.outcome, notice.stop_reason, notice.error_message) == (outcome, "error", "why")
    assert notice.text == "done"


def test_a_run_of_which_only_the_notice_is_left_keeps_its_number() -> None:
    """A power loss may take all of a child's last run, and leave what its parent was told of it."""
    parent = node(ROOT, spawned("child"), told("child"), told("child", 2, "limit_reached"))
    before = nodes_of(parent, node("child", user("hi"), settled(), parent=ROOT))

    assert planned(before, entries.RunSettledEntry) == [("child", settled(2, "limit_reached"))]
    after = repaired(before)
    assert (next_run(after["child"].records), repair_plan(after, ROOT)) == (3, [])


def test_each_run_of_a_child_is_told_with_its_own_text() -> None:
    nodes = nodes_of(
        node(ROOT, user(), spawned("child-00"), told("child-00", 1), settled()),
        node(
            "child-00",
            user(),
            answer(text="first"),
            settled(1),
            user(),
            answer(text="second"),
            settled(2),
            user(),
            settled(3),
            parent=ROOT,
        ),
    )
    found = [body for _, body in planned(nodes, entries.ChildSettledEntry)]

    assert [(body.run, body.text) for body in found] == [(2, "second"), (3, "")]


def test_a_long_text_is_cut_between_characters_and_says_so() -> None:
    cut = bounded("é" * SETTLED_TEXT_BYTES, SETTLED_TEXT_BYTES)

    assert cut.startswith("é" * (SETTLED_TEXT_BYTES // 2) + "\n[cut here")
    assert f"{SETTLED_TEXT_BYTES} bytes more" in cut
    assert bounded("é" * (SETTLED_TEXT_BYTES // 2), SETTLED_TEXT_BYTES) == "é" * (SETTLED_TEXT_BYTES // 2)


def test_an_idle_session_has_nothing_to_repair() -> None:
    assert repair_plan(nodes_of(node(ROOT)), ROOT) == []
    assert repair_plan(nodes_of(node(ROOT, user(), answer(), settled())), ROOT) == []
    assert repair_plan({}, ROOT) == []


def test_a_command_of_the_person_between_two_runs_opens_none() -> None:
    bash = message(BashExecutionMessage(command="ls", output=""))

    assert repair_plan(nodes_of(node(ROOT, user(), answer(), settled(), bash)), ROOT) == []
    assert not is_run_open(node(ROOT, bash).records)
    assert is_run_open(node(ROOT, user(), bash).records)


def test_a_message_of_another_agent_opens_a_run() -> None:
    woken = entries.CustomMessageEntry(custom_type="agent_message", content="hi", display=True)

    assert planned(nodes_of(node(ROOT, user(), settled(), woken)), entries.RunSettledEntry) == [
        (ROOT, settled(2, "lost"))
    ]


# --- J14 -------------------------------------------------------------------------------------------------------------


def test_of_two_calls_the_one_without_a_result_gets_one_error_result_once() -> None:
    nodes = nodes_of(node(ROOT, user(), answer(NOTHING, "x", "y", stop="toolUse"), result("y")))
    [(_, body)] = planned(nodes, entries.MessageEntry)
    made = decode_message(body.message)

    assert isinstance(made, ToolResultMessage)
    assert (made.tool_call_id, made.is_error, text_of(made.content)) == ("x", True, INTERRUPTED)
    after = repaired(nodes)
    assert dangling_calls(after[ROOT].tree.path()) == []
    assert repair_plan(after, ROOT) == []


def test_the_error_results_come_before_the_end_of_the_run() -> None:
    plan = repair_plan(nodes_of(node(ROOT, user(), answer(NOTHING, "x", stop="toolUse"))), ROOT)

    assert [type(fix.body) for fix in plan] == [entries.MessageEntry, entries.RunSettledEntry]


def test_a_branch_to_an_answer_whose_results_lie_elsewhere_is_no_crash() -> None:
    one = node(ROOT, user(), answer(NOTHING, "x", stop="toolUse"), result("x"), answer(), settled())
    back = Draft.of(entries.CustomEntry(custom_type=entries.LEAF_MARK)).record("0000000a", "00000002", "")
    one.tree.add(back)

    assert dangling_calls(one.tree.path())
    assert repair_plan(nodes_of(one), ROOT) == []


# --- attributions ----------------------------------------------------------------------------------------------------

CENT = Spend(input=3, total_pico=10**10)


def test_an_attribution_names_key_way_and_reason() -> None:
    nodes = nodes_of(
        node(ROOT, user(), answer(CENT, "c1"), spawned("child-00", "c1"), told("child-00"), result("c1"), settled()),
        node("child-00", user(), spawned("child-01", depth=2), told("child-01"), settled(), parent=ROOT),
        node("child-01", user(), answer(CENT), settled(), parent="child-00"),
    )
    upper, root = (body for _, body in planned(nodes, entries.ChildUsageAttributedEntry))

    assert (upper.origin_session_id, upper.origin_entry_id, upper.child_session_id) == (
        "child-01",
        "00000002",
        "child-01",
    )
    assert (upper.target_id, upper.aggregate_usage, upper.origin) == (None, None, "direct_user")
    assert (root.origin_session_id, root.origin_entry_id, root.child_session_id) == ("child-01", "00000002", "child-00")
    assert (root.target_id, root.origin) == ("00000002", "spawn_task")
    assert root.aggregate_usage == usage_of(CENT + CENT, total_tokens=3)


def test_of_sessions_that_go_on_nothing_is_over_and_all_is_counted() -> None:
    nodes = nodes_of(
        node(
            ROOT, user(), answer(CENT, "c1", "c2", stop="toolUse"), spawned("child-00", "c1"), spawned("child-01", "c2")
        ),
        node("child-00", user(), answer(CENT, "x", stop="toolUse"), parent=ROOT),
        node("child-01", user(), answer(text="Done."), settled(), parent=ROOT),
    )

    plan = repair_plan(nodes, ROOT, {ROOT, "child-00"})

    assert sorted((fix.session_id, type(fix.body).__name__) for fix in plan) == [
        (ROOT, "ChildSettledEntry"),
        (ROOT, "ChildUsageAttributedEntry"),
    ]
    assert {getattr(fix.body, "child_session_id", None) for fix in plan} == {"child-00", "child-01"}


def test_of_answers_with_one_call_id_the_one_before_the_spawn_admitted_the_child() -> None:
    first, again = answer(CENT, "c1"), answer(CENT, "c1")
    one = node(
        ROOT, user(), first, spawned("child-00", "c1"), told("child-00"), result("c1"), again, result("c1"), settled()
    )
    nodes = nodes_of(one, node("child-00", user(), answer(CENT), settled(), parent=ROOT))
    [(_, body)] = planned(nodes, entries.ChildUsageAttributedEntry)

    assert body.target_id == "00000002"
    assert admitting_entry(one.records[:3], "c1") is one.records[1]
    assert admitting_entry(one.records, "c1") is one.records[5]
    assert admitting_entry(one.records, None) is None
    assert admitting_entry(one.records, "c") is None


@pytest.mark.parametrize("usage", [Usage(input=-1), Usage(cost=Cost(total=-2.0))])
def test_absurd_usage_neither_reaches_an_ancestor_nor_stops_the_repair(usage: Usage) -> None:
    bad = message(AssistantMessage(content=(ToolCall(id="c1", name="t"),), usage=usage))
    held = entries.ChildUsageAttributedEntry(
        target_id="00000002", child_usage=usage, origin_session_id="child-00", origin_entry_id="00000003"
    )
    nodes = nodes_of(
        node(ROOT, user(), bad, spawned("child-00", "c1"), held, result("c1")),
        node("child-00", user(), bad, answer(CENT), result("c1"), parent=ROOT),
    )
    after = repaired(nodes)

    assert total(after[ROOT]) == CENT
    assert repair_plan(after, ROOT) == []


def test_a_fork_is_not_billed_for_the_children_of_its_source_and_loses_none_of_them() -> None:
    prefix = [user(), answer(CENT, "c1"), spawned("child-00", "c1"), result("c1"), answer(CENT), settled()]
    source = node(ROOT, *prefix)
    copied = ForkedFrom(session_id=ROOT, entry_id="00000006", records=len(prefix))
    fork = node("fork-000", *prefix, user(), answer(CENT), settled(2), forked_from=copied)
    child = node("child-00", user(), answer(CENT), settled(), parent=ROOT)
    nodes = nodes_of(source, fork, child)

    assert repair_plan(nodes, "fork-000") == []
    assert total(fork) == CENT
    both = add_up([total(repaired(nodes)[ROOT]), total(repaired(nodes, "fork-000")["fork-000"])])
    assert both == add_up([CENT] * 4)


def test_a_child_that_two_sessions_name_is_billed_to_their_ancestor_once() -> None:
    nodes = nodes_of(
        node(ROOT, user(), spawned("child-00"), spawned("child-01"), settled()),
        node("child-00", user(), spawned("child-02"), settled(), parent=ROOT),
        node("child-01", user(), spawned("child-02"), settled(), parent=ROOT),
        node("child-02", user(), answer(CENT), settled(), parent="child-00"),
    )
    keys = [
        body.origin_session_id for session, body in planned(nodes, entries.ChildUsageAttributedEntry) if session == ROOT
    ]

    assert keys == ["child-02"]
    assert total(repaired(nodes)[ROOT]) == CENT


def test_sessions_that_name_each_other_end_the_walk_and_pay_nothing_to_themselves() -> None:
    nodes = nodes_of(
        node(ROOT, user(), spawned("child-00"), answer(CENT), settled()),
        node("child-00", user(), spawned(ROOT), spawned("child-00"), answer(CENT), settled(), parent=ROOT),
    )

    assert [name for name, _ in post_order(nodes, ROOT)] == ["child-00", ROOT]
    assert repair_plan(repaired(nodes), ROOT) == []
    assert total(repaired(nodes)[ROOT]) == CENT + CENT
    assert not [
        body for session, body in planned(nodes, entries.ChildUsageAttributedEntry) if body.origin_session_id == session
    ]


def test_children_come_before_their_parents_in_the_order_of_their_spawn() -> None:
    nodes = nodes_of(
        node(ROOT, spawned("child-00"), spawned("child-01")),
        node("child-00", spawned("child-02"), parent=ROOT),
        node("child-01", parent=ROOT),
        node("child-02", parent="child-00"),
    )

    assert [name for name, _ in post_order(nodes, ROOT)] == ["child-02", "child-00", "child-01", ROOT]


def test_a_chain_of_200_sessions_does_not_overflow_the_stack() -> None:
    names = [ROOT, *(f"child-{n:03}" for n in range(200))]
    below = [*names[1:], None]
    nodes = nodes_of(
        *(
            node(name, user(), answer(CENT), *([spawned(child)] if child else []), parent=parent)
            for name, child, parent in zip(names, below, [None, *names], strict=False)
        )
    )
    after = repaired(nodes)

    assert [total(after[name]) for name in names] == [add_up([CENT] * (201 - n)) for n in range(201)]
    assert repair_plan(after, ROOT) == []


def test_a_plan_is_carried_out_at_the_leaf_with_fresh_ids() -> None:
    nodes = nodes_of(node(ROOT, user(), answer(NOTHING, "x", stop="toolUse")))
    records = with_fixes(nodes, repair_plan(nodes, ROOT))[ROOT].records

    assert [(record.id, record.parent_id) for record in records[2:]] == [
        ("00000003", "00000002"),
        ("00000004", "00000003"),
    ]
    assert with_fixes(nodes, []) == nodes
    assert repair_plan(nodes, ROOT)[0] == Fix(ROOT, repair_plan(nodes, ROOT)[0].body)
