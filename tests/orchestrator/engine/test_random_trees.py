"""Trees that chance makes: whatever a script asks for, streams keep their rules, totals are exact, and nothing crashes."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.limits import Limits
from actors.protocol.retry import RetryPolicy
from orchestrator.engine.errors import WrongUsage
from store.disk.forest import read_header
from store.entries import UsageEntry
from tests.faulty_fs import FaultyFs, PowerLoss
from tests.orchestrator.engine.rig import Flushes, Rig, sums_of_journals, sums_of_rows, sums_of_stream
from tests.orchestrator.engine.test_crash import IMAGES, check_whole, home_on, is_all, load

RETRY = RetryPolicy(max_retries=2, base_s=0.0, ceiling_s=0.0)
FAILURES = ("overloaded", "auth", "timeout", "incomplete", "rate_limited", "refusal", "quota", "server", "network")
EACH = 100


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(member)}" for key, member in value.items()) + " }"
    return json.dumps(value)


def some_tool(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A call that a model might make, wise or not."""

    def perhaps(share: float, **members: Callable[[], object]) -> dict[str, object]:
        return {name: value() for name, value in members.items() if chance.random() < share}

    name = chance.choice(["spawn_agent"] * 4 + ["wait_agents"] * 3 + ["list_agents", "write", "read", "bush", "edit"])
    match name:
        case "spawn_agent":
            tools = [[], ["list_agents"], ["bush"], ["spawn_agent", "wait_agents"]]
            given = perhaps(0.4, name=lambda: chance.choice("xyz"), wait=lambda: True)
            return name, {
                "prompt": "do it",
                **given,
                **perhaps(0.1, tools=lambda: chance.choice(tools), bogus=lambda: 1),
            }
        case "wait_agents":
            names = ["x", "y", "agent-1", "nobody"]
            return name, perhaps(
                0.4,
                names=lambda: chance.sample(names, 2),
                mode=lambda: chance.choice(["any", "all"]),
                timeout_s=lambda: chance.choice([0, 0.001]),
            )
        case "write":
            return name, {"path": "file.txt", "content": "words"}
        case "read":
            return name, {"path": "file.txt"}
    return name, {}


def some_script(chance: random.Random) -> str:
    parts = ["[cost]\ninput = 3.0\noutput = 15.0\n"]
    for number in range(chance.randint(2, 9)):
        fail = {"kind": chance.choice(FAILURES), "after_chunks": chance.randint(0, 3), "retry_after_s": 0.0}
        members = {
            "depth": (0.5, chance.randint(0, 2)),
            "call": (0.5, chance.randint(1, 4)),
            "times": (0.3, chance.randint(1, 2)),
            "text": (0.7, f"text {number}"),
            "thinking": (0.3, "hm"),
            "usage": (0.8, {"input": chance.randint(0, 99), "output": chance.randint(0, 9)}),
            "stop": (0.2, chance.choice(["stop", "length"])),
            "fail": (0.25, fail),
            "chunk": (0.2, 2),
        }
        lines = [f"{key} = {toml(value)}" for key, (share, value) in members.items() if chance.random() < share]
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
            name, arguments = some_tool(chance)
            sent = toml(arguments) if chance.random() < 0.95 else '"{bad"'
            lines.append(f'[[reply.tool]]\nname = "{name}"\narguments = {sent}')
        parts.append("[[reply]]\n" + "\n".join(lines) + "\n")
    return "".join([*parts, '[[reply]]\ntext = "done"\nusage = { input = 1, output = 1 }\n'])


def some_rig(chance: random.Random, cwd: Path) -> tuple[Rig, dict[str, Any]]:
    rig = Rig(home_on(FaultyFs.holding("/s/sessions")), cwd, some_script(chance), Flushes)
    limits = Limits(
        max_depth=chance.randint(0, 3),
        max_children=chance.choice([0, 1, 3, 12]),
        max_live_children=chance.choice([1, 2, 16]),
        max_turns=chance.choice([1, 3, 12, 40]),
    )
    return rig, {"limits": limits, "retry": RETRY}


def check_run(rig: Rig, seed: int, **members: Any) -> str:
    """Run the job; the root's id."""
    ended = rig.run(**members)
    assert rig.tree is not None
    assert rig.faults(ended) == [], seed
    assert [event for event in rig.events if event["type"] == "diagnostic" and event["level"] == "error"] == [], seed
    nodes, repairs = load(rig.home.fs, ended.root_id)
    assert repairs == [], seed
    check_whole(nodes, ended.root_id, is_power_lost=True)
    held, kept = sums_of_rows(rig.tree), sums_of_journals(nodes)
    assert {session: held.total[session] for session in nodes} == kept.total, seed
    if "session" not in members:
        assert not any(isinstance(record.body(), UsageEntry) for node in nodes.values() for record in node.records)
        seen = sums_of_stream(rig.events)
        assert {session: seen.total[session] for session in nodes} == kept.total, seed
    return ended.root_id


@pytest.mark.parametrize("start", [0, 1_000])
def test_a_tree_of_chance_keeps_the_rules_and_folds_exactly(tmp_path: Path, start: int) -> None:
    for seed in range(start, start + EACH):
        rig, members = some_rig(random.Random(seed), tmp_path)
        check_run(rig, seed, **members)


def test_a_tree_of_chance_that_is_stopped_at_any_line_does_too(tmp_path: Path) -> None:
    for seed in range(2_000, 2_000 + EACH):
        chance = random.Random(seed)
        rig, members = some_rig(chance, tmp_path)
        left = chance.randint(1, 80)

        def count(line: bytes, rig: Rig = rig) -> None:
            nonlocal left
            left -= 1
            if left == 0 and rig.one_shot is not None:
                rig.one_shot.stop("enough")

        rig.hear = count
        check_run(rig, seed, **members)


def test_a_tree_of_chance_goes_on_after_crash_upon_crash(tmp_path: Path) -> None:
    crashes = 0
    for seed in range(3_000, 3_000 + EACH):
        chance = random.Random(seed)
        rig, members = some_rig(chance, tmp_path)
        root: str | None = None
        for _ in range(3):
            fs = rig.home.fs
            assert isinstance(fs, FaultyFs)
            fs.calls, fs.power_fails_at = 0, chance.randint(12, 120)
            try:
                root = rig.run(session=root, model="scripted/script", **members).root_id
                fs.power_fails_at = None
            except BaseException as error:
                if not is_all(error, PowerLoss):
                    raise
                crashes += 1
                fs = IMAGES[chance.choice(list(IMAGES))](fs)
                rig.home = home_on(fs)
            if root is None and rig.tree is not None and rig.tree.root.id in rig.home.session_ids():
                root = rig.tree.root.id
            if root is None or read_header(fs, rig.home, root) is None:
                break  # it died before there was anything
        else:
            check_run(rig, seed, session=root, model="scripted/script", **members)
    assert crashes > EACH


def test_a_tree_of_chance_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    crashes = resumed = 0
    for seed in range(4_000, 4_000 + 3 * EACH):
        chance = random.Random(seed)
        rig, members = some_rig(chance, tmp_path)
        root: str | None = None
        for attempt in range(4):
            fs = rig.home.fs
            assert isinstance(fs, FaultyFs)
            fs.calls, fs.power_fails_at = 0, chance.randint(12, 120) if attempt < 3 else None
            try:
                if root is None:
                    root = rig.run(**members).root_id
                else:
                    check_run(rig, seed, prompt=None, session=root, model="scripted/script", **members)
                    resumed += 1
                break
            except WrongUsage as error:
                assert "was not interrupted" in str(error), seed  # noqa: PT017
                break
            except BaseException as error:
                if not is_all(error, PowerLoss):
                    raise
                crashes += 1
                fs = IMAGES[chance.choice(list(IMAGES))](fs)
                rig.home = home_on(fs)
            if root is None and rig.tree is not None and rig.tree.root.id in rig.home.session_ids():
                root = rig.tree.root.id
            if root is None or read_header(fs, rig.home, root) is None:
                break  # it died before there was anything
    assert crashes > EACH
    assert resumed > EACH // 2
