"""Slots: never more holders than the limit, first come first served, and nothing is lost when somebody gives up waiting."""

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.slots import Slots


async def test_the_works_of_one_session_share_its_slot(autojump_clock: MockClock) -> None:
    slots = Slots(1)
    entered: list[str] = []

    async def hold(session: str, seconds: float) -> None:
        async with slots.hold(session):
            entered.append(session)
            await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, "a", 5.0)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "b", 1.0)
        await wait_all_tasks_blocked()
        nursery.start_soon(hold, "a", 9.0)
        await wait_all_tasks_blocked()
        assert entered == ["a", "a"]
        assert slots.is_waiting("b")
        assert not slots.is_waiting("a")
        await trio.sleep(6.0)
        assert entered == ["a", "a"]

    assert entered == ["a", "a", "b"]
    assert not slots.is_waiting("b")


async def test_who_came_first_is_served_first(autojump_clock: MockClock) -> None:
    slots = Slots(1)
    served: list[str] = []

    async def hold(session: str) -> None:
        async with slots.hold(session):
            served.append(session)
            await trio.sleep(1.0)

    async with trio.open_nursery() as nursery:
        for number in range(9):
            nursery.start_soon(hold, f"s{number}")
            await wait_all_tasks_blocked()

    assert served == [f"s{number}" for number in range(9)]


async def test_a_session_that_gives_up_waiting_leaves_its_place_to_the_next(autojump_clock: MockClock) -> None:
    slots = Slots(1)
    served: list[str] = []

    async def hold(session: str, scope: trio.CancelScope) -> None:
        with scope:
            async with slots.hold(session):
                served.append(session)
                await trio.sleep(5.0)

    scopes = {name: trio.CancelScope() for name in "abc"}
    async with trio.open_nursery() as nursery:
        for name, scope in scopes.items():
            nursery.start_soon(hold, name, scope)
            await wait_all_tasks_blocked()
        scopes["b"].cancel()
        await wait_all_tasks_blocked()
        assert not slots.is_waiting("b")
        await trio.sleep(6.0)

    assert served == ["a", "c"]


async def test_a_slot_that_is_given_to_somebody_who_is_cancelled_in_the_same_moment_is_not_lost(
    autojump_clock: MockClock,
) -> None:
    slots = Slots(1)
    scope = trio.CancelScope()

    async def waiting() -> None:
        with scope:
            async with slots.hold("b"):
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with slots.hold("a"):
            nursery.start_soon(waiting)
            await wait_all_tasks_blocked()
        scope.cancel()

    with trio.fail_after(1.0):
        async with slots.hold("c"):
            pass


works = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from([0.0, 0.5, 1.0, 1.5]),
        st.sampled_from([0.5, 1.0, 2.0]),
        st.none() | st.sampled_from([0.25, 1.0, 1.25]),
    ),
    max_size=14,
)


@given(st.integers(1, 3), works)
@settings(deadline=None)
def test_never_more_sessions_than_the_limit_hold_a_slot_and_everybody_gets_one(
    limit: int, plan: list[tuple[str, float, float, float | None]]
) -> None:
    slots = Slots(limit)
    inside: list[str] = []
    served = [0]

    async def work(session: str, begin_s: float, length_s: float, patience_s: float | None) -> None:
        await trio.sleep(begin_s)
        with trio.move_on_after(patience_s if patience_s is not None else 1e6):
            async with slots.hold(session):
                inside.append(session)
                assert len(set(inside)) <= limit
                served[0] += 1
                try:
                    await trio.sleep(length_s)
                finally:
                    inside.remove(session)

    async def all_of_it() -> None:
        with trio.fail_after(1e5):
            async with trio.open_nursery() as nursery:
                for one in plan:
                    nursery.start_soon(work, *one)

    trio.run(all_of_it, clock=MockClock(autojump_threshold=0))

    assert served[0] >= sum(patience is None for *_, patience in plan)
    assert not any(slots.is_waiting(name) for name in "abcd")
    assert slots._held == {}
