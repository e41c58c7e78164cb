"""What children get from their parents, as the server sees it: tools, level of thinking, model, files."""

from typing import Any

import pytest

from tests.orchestrator.http.chat_server import Answer, Asked, Said, by_agent, chat_server
from tests.orchestrator.http.command import Desk

CONFIG = """
model = "local/fake-chat"

[providers.local]
base_url = "{url}"

[providers.other]
base_url = "{other}"
api_key_env = "OTHER_API_KEY"
"""


def child(name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "spawn_agent", {"name": name, "prompt": f"the task of {name}", "wait": True} | more


def of(asked: list[Asked], agent: str) -> Asked:
    return next(one for one in asked if one.agent == agent)


async def test_a_child_has_its_parents_tools_and_level_or_fewer_never_more(desk: Desk) -> None:
    plan: dict[str, list[Answer]] = {
        "root": [Said(calls=[child("a"), child("b", tools=["bash", "read"], thinking="high")]), Said("done")],
        "a": [Said(calls=[("bash", {"command": "touch ran"}), child("a-a")]), Said("a is done")],
        "a-a": [Said(calls=[("bash", {"command": "touch ran"})]), Said("a-a is done")],
        "b": [Said(calls=[("bash", {"command": "touch ran"})]), Said("b is done")],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "--thinking", "low", "--tools", "read,spawn_agent", "go")

    assert (done.status, done.faults) == (0, [])
    seen = {name: of(server.asked, name) for name in plan}
    assert {name: asked.tools for name, asked in seen.items()} == {
        "root": ["read", "spawn_agent"],
        "a": ["read", "spawn_agent"],
        "a-a": ["read", "spawn_agent"],
        "b": ["read"],
    }
    assert [seen[name].body["reasoning_effort"] for name in ("root", "a", "a-a", "b")] == ["low", "low", "low", "high"]
    assert not (desk.folder / "ran").exists()
    assert [event["isError"] for event in done.of("tool_execution_end") if event["toolName"] == "bash"] == [True] * 3


@pytest.mark.parametrize(
    ("model", "why"), [("nowhere/x", "nowhere"), ("other/x", "OTHER_API_KEY"), ("groq/x", "GROQ_API_KEY")]
)
async def test_a_child_with_a_model_that_cannot_be_used_is_refused_and_its_parent_reads_why(
    desk: Desk, model: str, why: str
) -> None:
    plan: dict[str, list[Answer]] = {"root": [Said(calls=[child("a", model=model)]), Said(lambda asked: asked.last)]}
    async with chat_server(by_agent(plan)) as server:
        desk.configure(CONFIG.format(url=server.url, other=server.url))
        done = await desk.run("--mode", "json", "go")

    assert (done.status, done.faults) == (0, [])
    assert done.of("child_spawned") == []
    assert [event["limit"] for event in done.of("limit_reached")] == ["model"]
    assert why in server.of("root")[1].last


async def test_a_child_with_another_providers_model_is_called_there_and_never_with_the_roots_key(desk: Desk) -> None:
    plan: dict[str, list[Answer]] = {"root": [Said(calls=[child("a", model="other/x")]), Said("done")]}
    async with chat_server(by_agent(plan)) as server, chat_server(by_agent({"a": [Said("a is done")]})) as other:
        desk.configure(CONFIG.format(url=server.url, other=other.url))
        environ = {"OTHER_API_KEY": "sk-of-other-1234"}
        done = await desk.run("--mode", "json", "--api-key", "sk-of-local-1234", "go", environ=environ)

    assert (done.status, done.faults) == (0, [])
    assert {one.request.headers["authorization"] for one in server.asked} == {"Bearer sk-of-local-1234"}
    [asked] = other.asked
    assert (asked.body["model"], asked.request.headers["authorization"]) == ("x", "Bearer sk-of-other-1234")


async def test_children_are_told_who_they_are_and_get_the_same_files_as_the_root(desk: Desk) -> None:
    (desk.folder / "AGENTS.md").write_text("Never touch the harbour.")
    plan: dict[str, list[Answer]] = {
        "root": [Said(calls=[child("a")]), Said("done")],
        "a": [Said(calls=[child("a-a")]), Said("a is done")],
        "a-a": [Said("a-a is done")],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        done = await desk.run("--mode", "json", "--append-system-prompt", "Be brief.", "go")

    assert done.faults == []
    for name in plan:
        system = of(server.asked, name).system
        assert "Never touch the harbour." in system
        assert system.endswith("Be brief.")
    assert ["spawn_agent" in of(server.asked, name).system for name in plan] == [True, True, False]
    task = of(server.asked, "a-a").messages[1]
    assert (task["role"], task["content"]) == ("user", "the task of a-a")
