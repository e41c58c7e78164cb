"""Waiting for an event of a tree."""

import trio
from trio.testing import wait_all_tasks_blocked

from orchestrator.engine.hearing import Hearing
from store.events import AgentStart, Event, Place

PLACE = Place("a", "a", None, 0)


async def test_the_first_event_that_is_wanted_is_heard() -> None:
    hearing = Hearing()
    with trio.fail_after(5), hearing.listen(lambda place, event: place.session_id == "a") as ear:
        hearing.take(Place("b", "a", "a", 1), AgentStart(), 1.0)
        hearing.take(PLACE, AgentStart(), 2.0)
        assert await ear.heard() == AgentStart()
    assert hearing.ears == []


async def test_whoever_listens_to_a_tree_that_is_let_go_of_hears_nothing_and_waits_no_longer() -> None:
    hearing = Hearing()
    heard: list[Event | None] = []

    async def listen() -> None:
        with hearing.listen(lambda place, event: True) as ear:
            heard.append(await ear.heard())

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            nursery.start_soon(listen)
            await wait_all_tasks_blocked()
            hearing.end()
    assert heard == [None, None]
