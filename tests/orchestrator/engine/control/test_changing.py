"""Commands that change a session, or make another one of it, over a real socket; and what a later host finds of that."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.protocol.model import ModelFailure, ModelRequest
from actors.testing import Answer
from orchestrator.engine.client import CommandFailed
from orchestrator.engine.rows import fill
from store.disk.forest import read_tree
from store.disk.manager import SessionManager
from store.stream import check_stream
from tests.orchestrator.engine.control.live import Live, lines_until, live_host
from tests.orchestrator.engine.control.test_subscribing import recorded


async def call(live: Live, kind: str, **members: Any) -> dict[str, Any]:
    async with live.connected() as client:
        return await client.call({"type": kind, "sessionId": live.root_id, **members})


async def run(live: Live, text: str = "go") -> None:
    await call(live, "prompt", message=text)
    await live.planted.settled(live.planted.tree.root)


def entries(live: Live, kind: str) -> list[Any]:
    outbox = live.planted.tree.root.outbox
    assert outbox is not None
    return [record.body() for record in outbox.tree.records if record.type == kind]


async def test_settings_are_written_shown_and_heeded(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request)
        return "done"

    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = answer
        models = live.planted.models
        models._made["test/other"] = (
            models._made["test/model"][0],
            models._made["test/model"][1].__class__("test", "other"),
        )
        outlet = recorded(live)
        await client.call({"type": "subscribe"})
        assert await call(live, "set_model", provider="test", modelId="other") == {
            "provider": "test",
            "id": "other",
            "contextWindow": None,
        }
        await call(live, "set_thinking_level", level="high")
        await call(live, "set_service_tier", serviceTier="flex")
        await call(live, "set_session_name", name=" porting ")
        await run(live)
        shown = [line["type"] for line in await lines_until(client, "agent_settled")]
        await call(live, "set_thinking_level", level="high")
        assert [found.text for found in check_stream(outlet.lines)] == []
        state = await call(live, "get_state")
        node = read_tree(live.host.home.fs, live.host.home, live.root_id).nodes[live.root_id]
        root = live.planted.tree.root
        root.thinking = root.service_tier = None
        fill(root, node)
        assert (root.thinking, root.service_tier) == ("high", "flex")
    assert (asked[0].model.id, asked[0].thinking, asked[0].service_tier, asked[0].session_name) == (
        "other",
        "high",
        "flex",
        "porting",
    )
    assert {"model_change", "thinking_level_change", "service_tier_change", "session_info"} <= set(shown)
    assert (state["model"]["id"], state["thinkingLevel"], state["sessionName"]) == ("other", "high", "porting")


@pytest.mark.parametrize(
    ("kind", "members", "code"),
    [
        ("set_model", {"model": "nope/nope"}, "unknown_model"),
        ("set_model", {"provider": "test"}, "wrong_shape"),
        ("set_thinking_level", {"level": "loud"}, "wrong_shape"),
        ("set_session_name", {"name": "  "}, "wrong_shape"),
        ("set_label", {"entryId": "ffffffff", "label": "x"}, "unknown_entry"),
        ("branch", {"entryId": "ffffffff"}, "unknown_entry"),
        ("fork", {"entryId": "ffffffff"}, "unknown_entry"),
        ("spawn", {"prompt": "do", "model": "nope/nope"}, "unknown_model"),
        ("spawn", {"prompt": "do", "limits": {"max_wives": 1}}, "wrong_shape"),
        ("spawn", {"prompt": "do", "limits": {"max_cost": -1}}, "wrong_shape"),
        ("spawn", {"prompt": "do", "limits": {"max_turns": 0}}, "wrong_shape"),
        ("spawn", {"prompt": "do", "tools": ["rm"]}, "wrong_shape"),
        ("bash", {"command": ""}, "wrong_shape"),
        ("compact", {}, "not_compacted"),
    ],
)
async def test_what_cannot_be_is_refused_and_says_why(
    tmp_path: Path, kind: str, members: dict[str, Any], code: str
) -> None:
    async with live_host(tmp_path) as live:
        await run(live)
        before = live.host.home.journal_path(live.root_id).read_bytes()
        with pytest.raises(CommandFailed) as caught:
            await call(live, kind, **members)
        assert (caught.value.code, bool(str(caught.value))) == (code, True)
        assert live.host.home.journal_path(live.root_id).read_bytes() == before


async def test_labels_and_the_archive_are_in_the_journal(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        await run(live)
        leaf = live.planted.tree.root.outbox.tree.leaf_id  # type: ignore[union-attr]
        await call(live, "set_label", entryId=leaf, label="here")
        await call(live, "archive")
        await call(live, "archive", undo=True)
        assert [body.label for body in entries(live, "label")] == ["here"]
        assert [body.state["status"] for body in entries(live, "session_state")] == ["archived", "active"]


async def test_a_session_goes_on_from_an_earlier_entry(tmp_path: Path) -> None:
    seen: list[int] = []

    def answer(request: ModelRequest) -> str:
        seen.append(len(request.messages))
        return "done"

    async with live_host(tmp_path) as live:
        live.answer = answer
        await run(live, "one")
        first = live.planted.tree.root.outbox.tree.leaf_id  # type: ignore[union-attr]
        await run(live, "two")
        assert await call(live, "branch", entryId=first) == {"leafId": first}
        await run(live, "three")
        await call(live, "branch", entryId=None)
        await run(live, "four")
        await call(live, "branch", entryId=first, summary="it was tried")
        await run(live, "five")
    assert seen == [1, 3, 3, 1, 4]


async def test_while_it_works_it_does_not(tmp_path: Path) -> None:
    go_on = trio.Event()

    async def answer(request: ModelRequest) -> str:
        await go_on.wait()
        return "done"

    async with live_host(tmp_path) as live:
        live.answer = answer
        await call(live, "prompt", message="go")
        with pytest.raises(CommandFailed, match="at work"):
            await call(live, "branch", entryId=None)
        go_on.set()


async def test_forks_and_clones_are_sessions_of_their_own(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live:
        await run(live, "one")
        await run(live, "two")
        second = next(record.id for record in live.planted.tree.root.outbox.tree.records if b'"two"' in record.raw)  # type: ignore[union-attr]
        clone = await call(live, "clone", name="again")
        fork = await call(live, "fork", entryId=second, before=True)
        assert fork["text"] == "two"
        for made, texts in ((clone, ["one", "two"]), (fork, ["one"])):
            with SessionManager.open_read_only(made["sessionFile"], home=live.host.home) as manager:
                messages = manager.build_session_context().messages
                said = [message.content[0].text for message in messages if type(message).__name__ == "UserMessage"]  # type: ignore[union-attr, index]
                assert (manager.id, said) == (made["sessionId"], texts)


async def test_a_person_gives_a_session_a_child_and_the_session_hears_of_its_end(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = lambda request: f"{request.session_name}: {len(request.messages)}"
        outlet = recorded(live)
        await client.call({"type": "subscribe"})
        handle = await call(live, "spawn", prompt="look around", name="scout", limits={"timeout_s": 60})
        assert (handle["name"], handle["model"]) == ("scout", "test/model")
        await live.planted.settled(live.planted.tree.root)
        types = [line["type"] for line in await lines_until(client, "agent_settled", 2)]
        assert types.count("child_settled") == 1
        (child,) = live.planted.tree.root.children
        assert (child.id, child.outcome, child.limits) == (handle["sessionId"], "completed", {"timeout_s": 60})
        with pytest.raises(CommandFailed, match="named 'scout'"):
            await call(live, "spawn", prompt="again", name="scout")
        grandchild = await client.call({"type": "spawn", "sessionId": child.id, "prompt": "deeper"})
        with pytest.raises(CommandFailed, match="max_depth"):
            await client.call({"type": "spawn", "sessionId": grandchild["sessionId"], "prompt": "too deep"})
        await live.planted.settled(live.planted.tree.root)
        assert [found.text for found in check_stream(outlet.lines)] == []


async def test_a_pause_before_a_retry_can_be_ended(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = lambda request: ModelFailure("overloaded", "come back later", retry_after_s=50.0)
        await client.call({"type": "subscribe"})
        await call(live, "prompt", message="go")
        await lines_until(client, "auto_retry_start")
        await call(live, "abort_retry")
        lines = await lines_until(client, "agent_settled")
        assert [line["outcome"] for line in lines if line["type"] == "agent_settled"] == ["failed"]
        assert [line["success"] for line in lines if line["type"] == "auto_retry_end"] == [False]


async def test_a_command_of_the_person_is_kept_and_the_model_sees_it_unless_it_is_excluded(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        asked.append(request)
        return "done"

    async with live_host(tmp_path) as live:
        live.answer = answer
        outlet = recorded(live)
        ran = await call(live, "bash", command="echo out; exit 3")
        assert (ran["output"], ran["exitCode"], ran["cancelled"], ran["truncated"]) == ("out\n", 3, False, False)
        await call(live, "bash", command="echo secret", excludeFromContext=True)
        await run(live)
        message = asked[0].messages[0]
        assert len(asked[0].messages) == 2
        assert "echo out" in message.content[0].text  # type: ignore[union-attr]
        assert [found.text for found in check_stream(outlet.lines)] == []


async def test_what_a_command_of_the_person_says_is_told_at_once_and_kept_behind_the_call_that_is_open(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> Answer:
        return [("bash", {"command": "read line < fifo"})] if request.call == 1 else "done"

    os.mkfifo(tmp_path / "fifo")
    async with live_host(tmp_path) as live, live.connected() as client:
        live.answer = answer
        await client.call({"type": "subscribe"})
        await call(live, "prompt", message="go")
        await lines_until(client, "tool_execution_start")
        ran = await call(live, "bash", command="echo beside")
        assert (ran["output"], ran["recorded"]) == ("beside\n", False)
        with (tmp_path / "fifo").open("w") as fifo:
            fifo.write("go on\n")
        lines = await lines_until(client, "agent_settled")
        said = [line["message"]["role"] for line in lines if line["type"] == "message_end"]
        assert said == ["toolResult", "bashExecution", "assistant"]
        assert (await call(live, "bash", command="echo at rest"))["recorded"] is True


async def test_a_command_that_does_not_end_can_be_ended(tmp_path: Path) -> None:
    async with live_host(tmp_path) as live, live.connected() as client:
        results: list[dict[str, Any]] = []

        async def ask() -> None:
            results.append(await client.call({"type": "bash", "sessionId": live.root_id, "command": "sleep 1000"}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await client.call({"type": "hello"})
            with pytest.raises(CommandFailed, match="abort_bash"):
                await call(live, "bash", command="true")
            await call(live, "abort_bash")
        assert (results[0]["cancelled"], results[0]["exitCode"]) == (True, None)
