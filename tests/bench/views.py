"""H1: the first screen of the live view, from a snapshot of a large tree."""

import msgspec

from orchestrator.views.live import LiveTree
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen.frame import frame
from orchestrator.views.screen.state import Known, Screen
from orchestrator.views.screen.step import Seen, step
from tests.bench.harness import Row, in_turns
from tests.bench.store import timed, within
from tests.orchestrator.views.events import Stream

AGENTS = 1_000


def h1(rounds: int) -> list[Row]:
    """the first screen of 1,000 agents, and the one after a change"""
    stream = Stream()
    root = stream.root().begins()
    for number in range(AGENTS - 1):
        child = root.spawns(f"case-{number}").begins()
        if number % 10:
            child.answers("done").settles("completed" if number % 7 else "failed")
    snapshot = msgspec.json.encode(stream.rows())
    fold = LiveTree()
    fold.seed(msgspec.json.decode(snapshot, type=list[AgentRow]))
    screen = Screen(120, 37, now=stream.now)

    def first() -> None:
        fresh = LiveTree()
        fresh.seed(msgspec.json.decode(snapshot, type=list[AgentRow]))
        drawn(screen, fresh)

    def next_one() -> None:
        fold.take(*stream.events[-1])
        drawn(screen, fold)

    def drawn(view: Screen, tree: LiveTree) -> None:
        seen, _ = step(view, Seen(Known(tuple(tree.rows(stream.now)), is_read=True)))
        assert len(frame(seen)) == screen.height

    best = in_turns(rounds, {"first": timed(first), "next": timed(next_one)})
    return [
        within(f"H1 first screen of {AGENTS:,} agents", 0.3, best["first"]),
        within(f"H1 next screen of {AGENTS:,} agents", 0.1, best["next"]),
    ]
