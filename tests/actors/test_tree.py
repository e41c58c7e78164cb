"""A tree that comes to rest: whoever waits for that hears of it."""

import trio
from trio.testing import MockClock

from actors.protocol.mail import Prompt
from tests.actors.stage import pausing, stage


async def test_all_who_wait_for_a_tree_to_be_quiet_are_told(autojump_clock: MockClock) -> None:
    tree = stage({"root": [pausing(5.0, "done")]})
    with trio.fail_after(60):
        async with tree.tree.alive():
            tree.tree.tell(Prompt("m1", "go on"))
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(tree.tree.quiet)
    assert tree.tree.root.outcome == "completed"
