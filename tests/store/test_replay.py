"""A stored tree as one stream: what is in the journals is in it, once, and the stream is sound."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from store.replay import replay_lines
from store.stream import StreamChecker
from tests.stored import Forest, read, sample


@pytest.fixture
def forest(tmp_path: Path) -> Iterator[Forest]:
    forest = Forest.at(tmp_path / "home")
    yield forest
    forest.close()


def replayed(forest: Forest, *, ends: Literal["settled", "open"]) -> list[bytes]:
    root = sample(forest, ends=ends)
    return list(replay_lines(read(forest, root).nodes, root.id))


def of_type(lines: list[bytes], kind: str) -> list[dict[str, Any]]:
    return [event for line in lines if (event := json.loads(line))["type"] == kind]


@pytest.mark.parametrize("ends", ["settled", "open"])
def test_the_replay_of_a_tree_is_a_sound_stream(forest: Forest, ends: Literal["settled", "open"]) -> None:
    lines = replayed(forest, ends=ends)
    checker = StreamChecker()

    found = [finding for line in lines for finding in checker.feed(line)] + checker.end()

    assert found == []
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_each_session_message_and_ending_is_in_it_once(forest: Forest) -> None:
    lines = replayed(forest, ends="settled")

    assert len(of_type(lines, "session")) == len(forest.sessions)
    told = Counter(event["sessionId"] for event in of_type(lines, "message_end"))
    stored = {
        session.id: sum(record.type in {"message", "custom_message"} for record in session.tree.records)
        for session in forest.sessions.values()
    }
    assert told == {session: count for session, count in stored.items() if count}
    assert Counter(event["outcome"] for event in of_type(lines, "run_settled")) == {"completed": 3, "failed": 1}


def test_a_lost_run_ends_behind_those_of_its_children(forest: Forest) -> None:
    root = forest.root()
    root.prompt()
    child = root.child("below")
    child.prompt()
    forest.close()

    lines = list(replay_lines(read(forest, root).nodes, root.id))

    kinds = [(event["type"], event["sessionId"]) for event in map(json.loads, lines)]
    assert kinds.index(("child_settled", root.id)) < kinds.index(("run_settled", root.id))
    checker = StreamChecker()
    assert [finding for line in lines for finding in checker.feed(line)] + checker.end() == []
