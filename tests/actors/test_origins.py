"""Why a child was billed: for its task, for a message of another agent, or because a person asked it."""

from trio.testing import MockClock

from actors.protocol.mail import Prompt
from actors.testing import ROOT
from orchestrator.tools.messages import MessageAgentTool
from store.entries import ChildUsageAttributedEntry
from tests.actors.stage import Bench, assert_sound, bodies, row, run, spawn, stage, use, wait
from tests.actors.test_totals import assert_told_alike


async def test_each_run_of_a_child_is_attributed_with_what_began_it(autojump_clock: MockClock) -> None:
    tree = stage(
        {
            "root": [
                spawn("a"),
                wait(),
                use("message_agent", to="a", message="and this?"),
                "told",
                "heard",
                "heard again",
            ],
            "a": [spawn("below", wait=True), "the task is done", "the message is answered", "the person is answered"],
            "below": ["fine"],
        },
        MessageAgentTool(),
    )

    await run(tree)
    async with tree.tree.alive():
        tree.tree.supervisor.directory.deliver(row(tree, "a"), Prompt("p", "and I?"))
        await tree.tree.quiet()

    whys = {body.origin_entry_id: body.origin for body in of_a(tree)}
    answers = [record for record in tree.store.read(row(tree, "a").id).records if b'"role":"assistant"' in record.raw]
    assert [whys[record.id] for record in answers] == ["spawn_task", "spawn_task", "agent_message", "direct_user"]
    assert_sound(tree)
    assert_told_alike(tree)


def of_a(tree: Bench) -> list[ChildUsageAttributedEntry]:
    """What the root was told of the spend of `a` itself."""
    found = bodies(tree.store, ROOT, "child_usage_attributed")
    return [body for body in found if body.origin_session_id == row(tree, "a").id]
