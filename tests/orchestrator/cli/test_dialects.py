"""`--dialect`, `--json-deltas`, `--events`: on a run, and on a stored tree that is replayed."""

from typing import Any

import pytest

from store.dialects import DIALECTS
from store.stream import check_stream
from tests.orchestrator.cli.conftest import Here
from tests.orchestrator.engine.processes import Desk, Done

TREE = """
[[reply]]
session = "kid"
text = "the kid's answer"
[[reply]]
call = 1
text = "Let me ask."
[[reply.tool]]
name = "spawn_agent"
arguments = { prompt = "think", name = "kid", wait = true }
[[reply]]
text = "done"
"""
RELATIVES = sorted(set(DIALECTS) - {"native"})


@pytest.mark.parametrize("options", [(), ("--json-deltas",), ("--events", "tree"), ("--events", "root")], ids=" ".join)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_is_told_in_every_dialect(desk: Desk, here: Here, dialect: str, options: tuple[str, ...]) -> None:
    done = here("--mode", "json", "--dialect", dialect, *options, "-m", desk.script(TREE), "go")

    assert (done.status, done.err) == (0, "")
    is_filtered = dialect == "native" and "root" in options
    lines = done.lines
    assert check_stream(lines, dialect, exit_status=0, is_filtered=is_filtered) == []
    has_kid = b"the kid's answer" in b"".join(line for line in lines if b'"assistantMessageEvent"' in line)
    assert has_kid is ("tree" in options or (dialect == "native" and "root" not in options))


@pytest.mark.parametrize("dialect", RELATIVES)
def test_a_failure_is_a_failure_in_every_dialect(desk: Desk, here: Here, dialect: str) -> None:
    script = '[[reply]]\ntext = "half of"\nfail = { kind = "auth", message = "no such key", after_chunks = 1 }\n'

    done = here("--mode", "json", "--dialect", dialect, "-m", desk.script(script), "go")

    assert done.status == 1
    assert check_stream(done.lines, dialect, exit_status=1) == []
    (last,) = [event["message"] for event in done.events if event["type"] == "message_end"][1:]
    assert (last["stopReason"], last["errorMessage"]) == ("error", "no such key")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_warning_is_an_event_or_stands_on_stderr(desk: Desk, here: Here, dialect: str) -> None:
    (desk.home).mkdir()
    (desk.home / "run").write_text("in the way of the sockets")

    done = here("--mode", "json", "--dialect", dialect, "-m", desk.script(TREE), "go")

    told = [event["text"] for event in done.events if event["type"] == "diagnostic"]
    texts = told if dialect == "native" else done.err.split("\n")[:-1]
    assert done.status == 0
    assert [text for text in texts if "no other terminal can reach this run" in text] == texts
    assert len(texts) == 1
    assert done.err == "" or dialect != "native"


def test_a_reader_who_leaves_ends_a_run_that_is_told_in_a_dialect(desk: Desk) -> None:
    script = '[[reply]]\n[[reply.tool]]\nname = "bash"\narguments = { command = "echo on; sleep 1000" }\n'
    run = desk.start("--mode", "json", "--dialect", "pi", "-m", desk.script(script), "go")
    run.until_seen("tool_execution_update")

    run.stop_reading()

    done = run.end()
    assert (done.status, done.err.count("Traceback")) == (141, 0)
    assert desk.tree().unrepaired == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stored_tree_is_replayed_in_every_dialect(desk: Desk, here: Here, dialect: str) -> None:
    lived = here("--mode", "json", "--dialect", dialect, "-m", desk.script(TREE), "go")

    replayed = here("events", "--dialect", dialect)

    assert check_stream(replayed.lines, dialect) == []

    def ends(done: Done) -> list[Any]:
        return [event["message"] for event in done.events if event["type"] == "message_end"]

    assert ends(replayed) == ends(lived)


def test_the_events_of_a_dialect_can_be_picked(desk: Desk, here: Here) -> None:
    here("-m", desk.script(TREE), "go")

    picked = here("events", "--dialect", "pi", "--events", "tree", "--type", "agent_settled", "--type", "queue_update")

    assert [(event["type"], event["depth"]) for event in picked.events] == [("agent_settled", 1), ("agent_settled", 0)]


@pytest.mark.parametrize("words", [("--json-deltas",), ("--dialect", "pi"), ("--events", "tree")], ids=" ".join)
def test_what_is_said_of_the_stream_requires_a_stream(desk: Desk, here: Here, words: tuple[str, ...]) -> None:
    done = here(*words, "-m", desk.script(TREE), "go")

    assert (done.status, done.out) == (2, b"")
    assert f"{words[0]} is about the stream of events; it requires --mode json" in done.err
    assert not desk.home.exists() or not list(desk.home.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "words", [("--dialect", "prime-agent"), ("--json-deltas",), ("--events", "tree")], ids=" ".join
)
def test_what_a_client_cannot_be_told_in_is_wrong_usage(desk: Desk, here: Here, words: tuple[str, ...]) -> None:
    done = here("--mode", "rpc", *words, "-m", desk.script(TREE))

    assert (done.status, done.out) == (2, b"")
    assert "--mode rpc speaks native, pi, selesai" in done.err


def test_a_stream_without_the_children_is_sound_to_who_says_so(desk: Desk, here: Here) -> None:
    done = here("--mode", "json", "--events", "root", "-m", desk.script(TREE), "go")
    path = desk.folder / "stream.jsonl"
    path.write_bytes(done.out)

    assert here("events", "validate", str(path), "--exit-status", "0").status == 1
    assert here("events", "validate", "--filtered", str(path), "--exit-status", "0").status == 0
