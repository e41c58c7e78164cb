"""The sink numbers what is published, shows it to everybody, and holds back readers only."""

import msgspec
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.clock import Clock
from actors.sink import Sink
from actors.testing import RecordingOutlet
from store.events import AgentSettled, AgentStart, Event, MessageUpdate, Place, TextDelta
from store.lines import event_tail

ROOT = Place("root-0000", "root-0000", None, 0)
CHILD = Place("child-0000", "root-0000", "root-0000", 1)


def a_sink(*outlets: RecordingOutlet, at: float = 1_700_000_000.0) -> Sink:
    return Sink(Clock(lambda: at), list(outlets))


def decoded(outlet: RecordingOutlet) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in outlet.lines]


async def test_numbers_are_given_at_publication_one_after_the_other_over_all_sessions() -> None:
    outlet = RecordingOutlet()
    sink = a_sink(outlet)

    for place in (ROOT, CHILD, ROOT):
        sink.publish(place, AgentStart())

    assert [(line["seq"], line["sessionId"]) for line in decoded(outlet)] == [
        (1, "root-0000"),
        (2, "child-0000"),
        (3, "root-0000"),
    ]


async def test_a_line_has_the_tags_of_its_place_and_a_delta_the_short_ones() -> None:
    outlet = RecordingOutlet()
    sink = a_sink(outlet)

    sink.publish(CHILD, AgentSettled(aborted=False, outcome="completed"))
    sink.publish(CHILD, MessageUpdate(message_id=1, assistant_message_event=TextDelta(content_index=0, delta="x")))

    full, short = decoded(outlet)
    assert full == {
        "type": "agent_settled",
        "sessionId": "child-0000",
        "seq": 1,
        "at": "2023-11-14T22:13:20.000Z",
        "rootSessionId": "root-0000",
        "depth": 1,
        "parentSessionId": "root-0000",
        "aborted": False,
        "outcome": "completed",
    }
    assert set(short) == {"type", "sessionId", "seq", "at", "messageId", "assistantMessageEvent"}


async def test_an_event_that_is_encoded_already_gives_the_same_line() -> None:
    outlet = RecordingOutlet()
    sink = a_sink(outlet)
    event = AgentSettled(aborted=True, outcome="aborted")

    sink.publish(ROOT, event)
    sink.publish(ROOT, event, event_tail(event))

    first, second = outlet.lines
    assert first.replace(b'"seq":1', b'"seq":2') == second


async def test_numbers_count_also_while_nobody_reads_and_watchers_hear_all() -> None:
    sink = a_sink()
    heard: list[tuple[Place, Event, float]] = []
    sink.watchers.append(lambda place, event, at: heard.append((place, event, at)))

    sink.publish(ROOT, AgentStart())
    outlet = RecordingOutlet()
    sink.outlets.append(outlet)
    sink.publish(CHILD, AgentStart())

    assert [line["seq"] for line in decoded(outlet)] == [2]
    assert heard == [(ROOT, AgentStart(), 1_700_000_000.0), (CHILD, AgentStart(), 1_700_000_000.0)]


async def test_who_waits_for_room_goes_on_when_every_outlet_has_it(autojump_clock: MockClock) -> None:
    outlets = RecordingOutlet(is_open=False), RecordingOutlet(is_open=False), RecordingOutlet()
    sink = a_sink(*outlets)
    went_on = trio.Event()

    async def wait() -> None:
        await sink.wait_for_room()
        went_on.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        outlets[0].open()
        await wait_all_tasks_blocked()
        assert not went_on.is_set()
        sink.publish(ROOT, AgentStart())
        outlets[1].open()
        await went_on.wait()

    assert all(len(outlet.lines) == 1 for outlet in outlets)


async def test_with_room_everywhere_waiting_for_it_is_no_step_of_the_scheduler(autojump_clock: MockClock) -> None:
    sink = a_sink(RecordingOutlet())
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await sink.wait_for_room()
        order.append("this")

    assert order == ["this", "other"]


async def test_a_clock_that_goes_backwards_changes_no_order() -> None:
    now = [100.0]
    outlet = RecordingOutlet()
    sink = Sink(Clock(lambda: now[0]), [outlet])

    sink.publish(ROOT, AgentStart())
    now[0] = 50.0
    sink.publish(ROOT, AgentStart())

    assert [(line["seq"], line["at"]) for line in decoded(outlet)] == [
        (1, "1970-01-01T00:01:40.000Z"),
        (2, "1970-01-01T00:00:50.000Z"),
    ]
