"""`run --gate` and `--autonomous` as processes: real shells, whatever they do, a sound stream and an honest status."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.protocol.trial import DONE
from store.stream import check_stream
from tests.orchestrator.engine.processes import Desk, Done, desk_at, living, marked_sleep, until

SAYS_SO = '[[reply]]\ntext = "it is done"\nusage = { input = 10, output = 1 }\n'
MENDS = f"""
{SAYS_SO}times = 1

[[reply]]
last = "The gate .* failed"
[[reply.tool]]
name = "bash"
arguments = {{ command = "touch mended" }}

{SAYS_SO}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


def gates(done: Done) -> list[tuple[bool, int | None]]:
    """Whether each gate passed, and its exit status."""
    ends = [event for event in done.events if event["type"] == "gate_end"]
    return [(end["passed"], end["result"].get("details", {}).get("exitCode")) for end in ends]


def order(done: Done) -> list[str]:
    """Where gates stand among the loops of the run."""
    kinds = {"agent_start", "agent_end", "gate_start", "gate_end", "run_settled"}
    return [event["type"] for event in done.events if event["type"] in kinds]


def outcomes(done: Done) -> list[str]:
    return [event["outcome"] for event in done.events if event["type"] == "agent_settled"]


def test_a_gate_that_passes_lets_the_run_end_well(desk: Desk) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), "--gate", "test -e script.toml", "go")

    assert (done.status, done.faults(), outcomes(done)) == (0, [], ["completed"])
    assert gates(done) == [(True, 0)]


def test_a_gate_that_fails_is_told_to_the_model_which_mends_it(desk: Desk) -> None:
    gate = "test -e mended || { echo what is wrong; exit 7; }"
    done = desk.run("--mode", "json", "-m", desk.script(MENDS), "--autonomous-gate", gate, "go")

    assert (done.status, done.faults(), outcomes(done)) == (0, [], ["completed"])
    assert gates(done) == [(False, 7), (True, 0)]
    (told,) = [
        event["message"] for event in done.events if event["type"] == "message_end" and "customType" in event["message"]
    ]
    assert all(word in told["content"] for word in ("what is wrong", "exit status 7", gate))
    again = desk.run("events", done.events[0]["id"])
    assert check_stream(again.lines) == []
    assert (gates(again), order(again)) == (gates(done), order(done))


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("no-such-command", 127), ("kill -9 $$", -9)])
def test_a_gate_that_never_passes_fails_the_run_after_its_retries(desk: Desk, command: str, status: int) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), "--gate", command, "--gate-retries", "1", "go")

    assert (done.status, done.faults(), outcomes(done)) == (1, [], ["failed"])
    assert gates(done) == [(False, status)] * 2
    assert command in done.err


def test_in_text_mode_a_failed_gate_leaves_stdout_empty_and_says_why(desk: Desk) -> None:
    done = desk.run("-m", desk.script(SAYS_SO), "--gate", "echo so wrong; false", "--gate-retries", "0", "go")

    assert (done.status, done.out) == (1, b"")
    assert all(word in done.err for word in ("gate", "echo so wrong; false", "[exit status 1]", "--gate-retries"))


def test_the_first_gate_that_fails_keeps_those_behind_it_from_running(desk: Desk) -> None:
    words = ("--gate", "false", "--gate", "touch seen", "--gate-retries", "0", "go")
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), *words)

    assert (done.status, gates(done)) == (1, [(False, 1)])
    assert not (desk.folder / "seen").exists()


def test_a_gate_that_hangs_is_killed_with_its_group_and_has_failed(desk: Desk) -> None:
    sleep = marked_sleep()
    words = ("--gate", f"{sleep} & {sleep}", "--gate-timeout", "0.3", "--gate-retries", "0", "go")
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), *words)

    assert (done.status, done.faults(), outcomes(done)) == (1, [], ["failed"])
    assert "timeout" in done.err
    assert living(sleep) == set()


def test_the_time_of_the_run_counts_for_its_gates_which_then_have_not_passed(desk: Desk) -> None:
    sleep = marked_sleep()
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), "--gate", sleep, "--timeout", "3", "go")

    assert (done.status, done.faults(), outcomes(done)) == (3, [], ["timed_out"])
    assert [passed for passed, _ in gates(done)] == [False]
    assert living(sleep) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_gate_with_its_grandchildren(desk: Desk, number: signal.Signals) -> None:
    sleep = marked_sleep()
    gate = f"bash -c '{sleep} & {sleep} & wait' & trap '' TERM; {sleep}; {sleep}"
    running = desk.start("--mode", "json", "-m", desk.script(SAYS_SO), "--gate", gate, "go")
    until(lambda: len(living(sleep)) == 3, "the gate")

    running.send(number)

    done = running.end()
    assert (done.status, done.faults(), outcomes(done)) == (128 + number, [], ["aborted"])
    assert [passed for passed, _ in gates(done)] == [False]
    assert living(sleep) == set()


@pytest.mark.parametrize("lines", [13, 14, 16, 20, 26, 38])
def test_a_signal_at_any_moment_of_a_trial_closes_every_bracket(desk: Desk, lines: int) -> None:
    words = ("--gate", "sleep 0.05; test -e never", "--gate-retries", "9", "--gate", "true", "go")
    running = desk.start("--mode", "json", "-m", desk.script(MENDS), *words)
    running.until_seen("\n", times=lines)
    running.send(signal.SIGTERM)

    done = running.end()

    assert (done.status, done.faults(), outcomes(done)) == (143, [], ["aborted"])
    assert "Traceback" not in done.err
    assert check_stream(desk.run("events", done.events[0]["id"]).lines) == []


@pytest.mark.parametrize(("passes", "status", "outcome"), [(True, 0, "completed"), (False, 1, "failed")])
def test_a_run_that_was_killed_in_a_gate_goes_on_with_that_gate(
    desk: Desk, passes: bool, status: int, outcome: str
) -> None:
    sleep = marked_sleep()
    gate = f"test -e told && exit $(cat told); {sleep}"
    running = desk.start(
        "--mode", "json", "-m", desk.script(SAYS_SO), "--gate", gate, "--gate-retries", "0", "--name", "it", "go"
    )
    until(lambda: living(sleep), "the gate")
    running.send(signal.SIGKILL)
    running.end()
    until(lambda: not living(sleep), "the end of the gate")
    (desk.folder / "told").write_text("0" if passes else "5")

    done = desk.run("--mode", "json", "-r", "it")

    assert (done.status, done.faults(), outcomes(done)) == (status, [], [outcome])
    assert gates(done) == [(passes, 0 if passes else 5)]


def test_a_hundred_megabytes_of_output_are_a_short_message_and_a_file(desk: Desk) -> None:
    gate = "yes | head -c 100000000; false"
    done = desk.run("--mode", "json", "-m", desk.script(SAYS_SO), "--gate", gate, "--gate-retries", "1", "go")

    assert (done.status, done.faults(), outcomes(done)) == (1, [], ["failed"])
    assert len(done.out) < 1_000_000
    details = next(event["result"]["details"] for event in done.events if event["type"] == "gate_end")
    assert details["truncated"] is True
    assert Path(details["fullOutputPath"]).stat().st_size == 100_000_000


def test_a_gate_sees_no_key_and_the_folder_of_the_run(desk: Desk) -> None:
    (desk.folder / "below").mkdir()
    gate = 'test -z "$MY_API_KEY$OPENAI_API_KEY" && test "$(basename "$PWD")" = below'
    desk.script(SAYS_SO, "below/script.toml")
    words = ("--mode", "json", "-m", "scripted/script.toml", "-C", "below", "--gate", gate, "go")
    done = desk.run(*words, env={"MY_API_KEY": "secret", "OPENAI_API_KEY": "secret"})

    assert (done.status, gates(done)) == (0, [(True, 0)])


def test_gates_of_the_configuration_hold_and_those_of_the_command_line_stand_in_for_them(desk: Desk) -> None:
    desk.home.mkdir()
    (desk.home / "config.toml").write_text('[gates]\ncommands = ["exit 9"]\nretries = 0\n')
    model = desk.script(SAYS_SO)

    assert gates(desk.run("--mode", "json", "-m", model, "go")) == [(False, 9)]
    assert gates(desk.run("--mode", "json", "-m", model, "--gate", "true", "go")) == [(True, 0)]


def test_a_gate_that_would_always_pass_is_wrong_usage(desk: Desk) -> None:
    done = desk.run("-m", desk.script(SAYS_SO), "--gate", " ", "go")

    assert (done.status, done.out) == (2, b"")
    assert "--gate" in done.err


# --- on its own -------------------------------------------------------------------------------------------------------

GOES_ON = f"""
[[reply]]
last = "Continuation 2 of"
text = "all is done\\n{DONE}"

[[reply]]
text = "shall I go on?"
usage = {{ input = 10, output = 1 }}
"""


def test_an_autonomous_run_goes_on_until_it_says_that_it_is_done(desk: Desk) -> None:
    done = desk.run("--mode", "json", "-m", desk.script(GOES_ON), "--autonomous", "go")

    assert (done.status, done.faults(), outcomes(done)) == (0, [], ["completed"])
    marks = [event["message"].get("customType") for event in done.events if event["type"] == "message_end"]
    assert marks.count("sapwood.continuation") == 2


@pytest.mark.parametrize(
    ("words", "outcome", "limit"),
    [
        (("--max-continuations", "1"), "limit_reached", "max_continuations"),
        (("--max-turns", "2"), "limit_reached", "max_turns"),
        (("--max-tokens", "20"), "limit_reached", "max_tokens"),
        (("--max-cost", "0.00003"), "limit_reached", "max_cost"),
    ],
)
def test_one_that_is_not_done_ends_at_each_of_its_limits(
    desk: Desk, words: tuple[str, ...], outcome: str, limit: str
) -> None:
    script = f"[cost]\ninput = 1.0\noutput = 10.0\n{GOES_ON}"
    done = desk.run("--mode", "json", "-m", desk.script(script), "--autonomous", *words, "go")

    assert (done.status, done.faults(), outcomes(done)) == (3, [], [outcome])
    assert [event["limit"] for event in done.events if event["type"] == "limit_reached"] == [limit]


def test_one_that_is_not_done_in_time_is_timed_out(desk: Desk) -> None:
    script = '[[reply]]\ntext = "and now?"\ndelay_s = 0.2\n'
    words = ("--autonomous", "--max-continuations", "1000000", "--timeout", "1")
    done = desk.run("--mode", "json", "-m", desk.script(script), *words, "go")

    assert (done.status, done.faults(), outcomes(done)) == (3, [], ["timed_out"])


def test_a_goal_that_is_not_reached_holds_the_next_run_of_the_session_too(desk: Desk) -> None:
    model = desk.script(GOES_ON)
    first = desk.run("--mode", "json", "-m", model, "--goal", "ship it", "--max-continuations", "1", "go")
    root = first.events[0]["id"]
    shown = desk.run("sessions", "show", root)
    second = desk.run("--mode", "json", "-r", root, "once more")
    third = desk.run("--mode", "json", "-r", root, "what was that?")

    assert [done.status for done in (first, second, third)] == [3, 0, 0]
    assert [done.faults() for done in (first, second, third)] == [[], [], []]
    assert (b"ship it" in first.out, b"sapwood.continuation" in second.out) == (True, True)
    assert b"sapwood.continuation" not in third.out
    assert [b"Goal:" in done.out for done in (shown, desk.run("sessions", "show", root))] == [True, False]


def test_a_goal_can_be_dropped(desk: Desk) -> None:
    first = desk.run(
        "--mode", "json", "-m", desk.script(GOES_ON), "--goal", "ship it", "--max-continuations", "0", "go"
    )
    root = first.events[0]["id"]

    assert desk.run("-r", root, "--goal", "", "never mind").status == 0
    assert desk.run("-r", root, "and now").status == 0
