"""Going on with what is stored, over HTTP: what the server is told of earlier runs, and what is billed for them."""

import signal
from pathlib import Path
from typing import Any

from tests.orchestrator.engine.rig import sums_of_journals, sums_of_stream
from tests.orchestrator.http.chat_server import Answer, Refused, Said, by_agent, chat_server, in_turn
from tests.orchestrator.http.command import Desk, Done, each

BIG = "seq 1 60000"


def said_to(server_message: dict[str, Any]) -> tuple[str, Any]:
    return server_message["role"], server_message.get("content")


def tokens(done: Done, desk: Desk) -> tuple[int, int]:
    """(own, total) tokens of the root, which the stream and the journals must agree on."""
    kept = sums_of_journals(desk.stored(done.root_id).nodes)
    return kept.own[done.root_id].tokens, kept.total[done.root_id].tokens


async def test_a_session_that_goes_on_holds_what_was_said_and_is_billed_for_what_is_new(desk: Desk) -> None:
    answers = (
        Said("I shall remember", usage=(100, 10, 0, 0), thinking="secret thought"),
        Said(calls=[("bash", {"command": "echo tool"})], usage=(200, 20, 0, 0)),
        Said("blue", usage=(300, 30, 0, 0)),
        Said("third", usage=(400, 40, 0, 0)),
    )
    async with chat_server(in_turn(*answers)) as server:
        desk.use(server.url)
        first = await desk.run("--mode", "json", "--name", "colours", "remember blue")
        second = await desk.run("--mode", "json", "-c", "which colour?")
        third = await desk.run("--mode", "json", "-r", "colours", "and now?")

    assert [(done.status, done.faults) for done in (first, second, third)] == [(0, [])] * 3
    assert first.root_id == second.root_id == third.root_id
    assert first.events[0]["name"] == "colours"
    assert [said_to(message) for message in server.asked[3].messages[1:]] == [
        ("user", "remember blue"),
        ("assistant", "I shall remember"),
        ("user", "which colour?"),
        ("assistant", None),
        ("tool", "tool\n"),
        ("assistant", "blue"),
        ("user", "and now?"),
    ]
    assert sums_of_stream(second.events).own[second.root_id].tokens == 200 + 20 + 300 + 30
    assert tokens(third, desk) == (1100, 1100)


async def test_a_session_keeps_its_model_until_another_one_is_named(desk: Desk) -> None:
    async with chat_server(in_turn(Said("ok"))) as server:
        desk.use(server.url)
        await desk.run("-m", "local/first", "one")
        await desk.run("-c", "two")
        changed = await desk.run("--mode", "json", "-c", "-m", "local/second", "three")
        await desk.run("-c", "four")
        forked = await desk.run("--mode", "json", "--fork", changed.root_id, "five")

    assert changed.faults == forked.faults == []
    assert [asked.body["model"] for asked in server.asked] == ["first", "first", "second", "second", "second"]
    assert [event["modelId"] for event in changed.of("model_change")] == ["second"]


async def test_a_fork_holds_what_its_source_said_is_not_billed_for_it_and_leaves_it_alone(desk: Desk) -> None:
    plan: dict[str, list[Answer]] = {
        "root": [
            Said(calls=[("spawn_agent", {"name": "a", "prompt": "x", "wait": True})], usage=(100, 10, 0, 0)),
            Said("source", usage=(200, 20, 0, 0)),
            Said("fork", usage=(300, 30, 0, 0)),
            Said("source goes on", usage=(400, 40, 0, 0)),
            Said("fork goes on", usage=(500, 50, 0, 0)),
        ],
        "a": [Said("a is done", usage=(1000, 1, 0, 0))],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        source = await desk.run("--mode", "json", "begin")
        kept = desk.store.journal_path(source.root_id).read_bytes()
        fork = await desk.run("--mode", "json", "--fork", source.root_id[-8:], "go on")
        assert desk.store.journal_path(source.root_id).read_bytes() == kept
        more = await desk.run("--mode", "json", "-r", source.root_id, "source, go on")
        fork_more = await desk.run("--mode", "json", "-r", fork.root_id, "fork, go on")

    assert [(done.status, done.faults) for done in (source, fork, more, fork_more)] == [(0, [])] * 4
    assert fork.root_id != source.root_id
    header = fork.events[0]
    assert header["forkedFrom"]["sessionId"] == source.root_id
    assert header["parentSession"] == str(desk.store.journal_path(source.root_id))
    assert "parentSessionId" not in header
    roots = server.of("root")
    assert [said_to(message) for message in roots[2].messages[1:2] + roots[2].messages[-2:]] == [
        ("user", "begin"),
        ("assistant", "source"),
        ("user", "go on"),
    ]
    assert sums_of_stream(fork.events).own[fork.root_id].tokens == 330
    assert tokens(fork_more, desk) == (330 + 550, 330 + 550)
    assert tokens(more, desk) == (330 + 440, 330 + 440 + 1001)


async def test_what_failed_is_no_part_of_what_goes_on(desk: Desk) -> None:
    answers = (Said("half", usage=(5, 5, 0, 0), ending="cut"), Refused(400), Said("well"))
    async with chat_server(in_turn(*answers)) as server:
        desk.use(server.url)
        failed = await desk.run("--mode", "json", "first")
        done = await desk.run("--mode", "json", "-c", "again")

    assert (failed.status, done.status, failed.faults, done.faults) == (1, 0, [], [])
    assert [said_to(message) for message in server.asked[2].messages[1:]] == [("user", "first"), ("user", "again")]


async def test_without_a_session_nothing_is_kept_whatever_tools_and_children_do(desk: Desk) -> None:
    work = [("bash", {"command": BIG}), ("spawn_agent", {"name": "a", "prompt": "x", "wait": True})]
    plan: dict[str, list[Answer]] = {
        "root": [Said(calls=work), Said("done")],
        "a": [Said(calls=[("bash", {"command": BIG})]), Said("a is done")],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        (scratch := desk.home / "tmp").mkdir()
        done = await desk.run("--mode", "json", "--no-session", "go", environ={"TMPDIR": str(scratch)})

    assert (done.status, done.faults, done.stderr) == (0, [], "")
    assert [path.name for path in desk.home.rglob("*") if path.is_file()] == ["config.toml"]
    assert list(desk.folder.iterdir()) == list(scratch.iterdir()) == []
    assert sum(f"whole output: {scratch}" in str(event) for event in done.of("tool_execution_end")) == 2
    assert "parentSession" not in done.events[0]


async def test_a_session_by_the_path_of_its_journal_and_a_folder_of_ones_own(desk: Desk) -> None:
    async with chat_server(in_turn(Said("ok"))) as server:
        desk.use(server.url)
        first = await desk.run("--mode", "json", "--session-dir", "here", "one")
        [journal] = (desk.folder / "here").glob("*.jsonl")
        second = await desk.run("--mode", "json", "--session-dir", "here", "--session", f"here/{journal.name}", "two")
        elsewhere = await desk.run("--session", str(journal), "three")

    assert (first.root_id, first.status, second.status) == (second.root_id, 0, 0)
    assert journal.stem == first.root_id
    assert (elsewhere.status, elsewhere.stdout) == (2, b"")
    assert "--session-dir" in elsewhere.stderr
    assert not list((desk.home / "sessions").glob("*.jsonl"))


async def test_a_folder_of_ones_own_keeps_its_mode_and_what_is_put_there_is_private(desk: Desk) -> None:
    (shared := desk.folder / "shared").mkdir()
    shared.chmod(0o755)
    async with chat_server(in_turn(Said(calls=[("bash", {"command": BIG})]), Said("ok"))) as server:
        desk.use(server.url)
        done = await desk.run("--session-dir", str(shared), "one")

    assert done.status == 0
    assert shared.stat().st_mode & 0o777 == 0o755
    files = [path for path in (*shared.rglob("*"), *desk.home.rglob("*.log")) if path.is_file()]
    assert len(files) >= 3
    assert {path.name: path.stat().st_mode & 0o077 for path in files} == {path.name: 0 for path in files}


async def test_a_foreign_file_given_as_a_session_is_refused_and_stays_as_it_is(desk: Desk) -> None:
    async with chat_server(in_turn(Said("never"))) as server:
        desk.use(server.url)
        contents = (b'{"some":"log"}\n{"other":"line"}\n', b"", b"\0\0\0")
        for number, content in enumerate(contents):
            file = desk.folder / f"log{number}.jsonl"
            file.write_bytes(content)
            done = await desk.run("--session", str(file), "hello")
            assert (done.status, done.stdout) == (2, b"")
            assert file.read_bytes() == content
    assert server.asked == []


async def test_what_names_no_one_session_is_status_2_and_starts_none(desk: Desk) -> None:
    plan: dict[str, list[Answer]] = {
        "root": [Said(calls=[("spawn_agent", {"name": "kid", "prompt": "x", "wait": True})]), Said("done")],
        "kid": [Said("kid is done")],
    }
    async with chat_server(by_agent(plan)) as server:
        desk.use(server.url)
        first = await desk.run("--mode", "json", "go")
        asked = len(server.asked)
        [child] = [event["childSessionId"] for event in first.of("child_spawned")]
        cases: dict[str, tuple[list[str], str]] = {
            "a child": (["-r", child], first.root_id),
            "more than one": (["-r", "0"], child),
            "none": (["-r", "nowhere"], "nowhere"),
            "an empty name": (["-r", ""], "name"),
            "an empty fork": (["--fork", ""], "name"),
            "an empty session": (["--session", ""], "name"),
            "a path that leads elsewhere": (["-r", "../../etc/passwd"], "passwd"),
            "another folder's": (["-C", "/", "-c"], "no session"),
        }
        before = desk.files()
        for name, (arguments, text) in cases.items():
            done = await desk.run(*arguments, "go on")
            assert (name, done.status, done.stdout) == (name, 2, b"")
            assert text in done.stderr

    assert len(server.asked) == asked
    assert desk.files() == before


async def test_a_session_that_another_process_works_on_is_status_4_and_that_one_goes_on(desk: Desk) -> None:
    async with chat_server(in_turn(Said("it stands", ending="stalled"))) as server, desk.started("--json", "go") as run:
        desk.use(server.url)
        await run.line(b'"text_delta"')
        second = await desk.run("-c", "and me")
        forked = await desk.run("--fork", run.root_id, "-m", "scripted/none.toml", "and me")
        run.process.send_signal(signal.SIGINT)
        done = await run.end()

    assert (second.status, second.stdout) == (4, b"")
    assert str(run.process.pid) in second.stderr
    assert forked.status == 2
    assert (done.status, done.faults) == (130, [])
    assert len(server.asked) == 1


async def test_an_abort_in_the_pause_before_a_retry_ends_it_and_nothing_more_is_asked(desk: Desk) -> None:
    async with chat_server(in_turn(Refused(500))) as server, desk.started("--json", "go") as run:
        desk.use(server.url, retry="base_s = 1e6\nceiling_s = 1e6")
        await run.line(b'"auto_retry_start"')
        run.process.send_signal(signal.SIGINT)
        done = await run.end()

    assert (done.status, done.faults, len(server.asked)) == (130, [], 1)
    [end] = done.of("auto_retry_end")
    assert end["success"] is False
    [settled] = done.of("agent_settled")
    assert (settled["aborted"], settled["outcome"]) == (True, "aborted")


async def test_the_answer_is_also_written_to_a_file_and_nothing_is_where_there_is_none(desk: Desk) -> None:
    async def written(desk: Desk, case: tuple[Answer, list[str]]) -> tuple[int, str | None]:
        async with chat_server(in_turn(case[0])) as server:
            desk.use(server.url)
            done = await desk.run("-o", "answer.txt", *case[1], "go")
        file = desk.folder / "answer.txt"
        return done.status, file.read_text("utf-8") if file.exists() else None

    cases: dict[str, tuple[Answer, list[str]]] = {
        "text": (Said("Grüße 🌲"), []),
        "json": (Said("Grüße 🌲"), ["--json"]),
        "failed": (Refused(400), []),
    }
    assert await each(desk, cases, written) == {
        "text": (0, "Grüße 🌲\n"),
        "json": (0, "Grüße 🌲\n"),
        "failed": (1, None),
    }


async def test_an_answer_that_cannot_be_written_to_its_file_is_status_1_and_named(desk: Desk) -> None:
    async with chat_server(in_turn(Said("ok"))) as server:
        desk.use(server.url)
        done = await desk.run("-o", "/dev/full", "go")

    assert done.status == 1
    assert "/dev/full" in done.stderr


async def test_an_answer_that_there_is_no_place_for_is_not_asked_for(desk: Desk) -> None:
    async with chat_server(in_turn(Said("ok"))) as server:
        desk.use(server.url)
        done = await desk.run("-o", str(Path("nowhere") / "answer.txt"), "go")

    assert (done.status, server.asked) == (2, [])
    assert "nowhere/answer.txt" in done.stderr
