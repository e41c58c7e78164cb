"""`--mode rpc --dialect pi`, driven by what clients have said to pi 1.6.0: each answer has its shape and its values."""

import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from orchestrator.dialects.pi_rpc import PiClient, commanded, told
from store.events import Place
from store.lines import tagged
from tests.orchestrator.dialects.differences import PI, assert_alike, unequal, without, without_differences
from tests.orchestrator.dialects.provider import ROOT, provider
from tests.orchestrator.dialects.recorded import Event, Events, Recording, Reply, role_of
from tests.orchestrator.http.command import PATIENCE_S, PROGRAM, Desk

DATA = Path(__file__).resolve().parents[2] / "data" / "rpc"
CONFIG = """
[retry]
max_retries = 3
base_s = {pause_s}
[compaction]
reserve_tokens = 2000
keep_recent_tokens = 60
[providers.fake-openai]
api = "openai-completions"
base_url = "{url}/v1"
[[providers.fake-openai.models]]
id = "{model}"
context_window = {window}
max_output = {output}
cost = {{ input = 1.0, output = 2.0, cache_read = 0.1, cache_write = 1.25 }}
"""
# Of these a client waits for as many as the recording shows before it says the next thing, or for the first so many.
AWAITED = {"message_update": 1, "agent_settled": 100, "tool_execution_start": 100, "auto_retry_start": 1}


@attrs.frozen
class Talk:
    """A recorded conversation of a client with pi: `(is_command, line)`, as they came."""

    lines: tuple[tuple[bool, Any], ...]

    @classmethod
    def read(cls, name: str) -> "Talk":
        rows = map(msgspec.json.decode, (DATA / f"pi.{name}.jsonl").read_bytes().split(b"\n")[:-1])
        return cls(tuple((row["dir"] == "in", row["data"]) for row in rows))

    @property
    def events(self) -> Events:
        return [line for is_command, line in self.lines if not is_command and line["type"] != "response"]

    @property
    def answers(self) -> dict[str, Event]:
        return answers_in(line for is_command, line in self.lines if not is_command)

    @property
    def replies(self) -> list[Reply]:
        """What the provider said; a call that was begun by nobody but pi, to be aborted at once, said nothing."""
        found = Recording("", tuple(self.events)).replies
        return [reply for reply in found if reply.updates or not reply.is_unfinished]


def answers_in(lines: Iterator[Event]) -> dict[str, Event]:
    """By the id of the command; that to a line which was none has no id."""
    return {str(line.get("id")): line for line in lines if line["type"] == "response"}


@attrs.define
class Client:
    """A program that talks to sapwood as it would talk to pi."""

    process: trio.Process
    heard: Events = attrs.field(factory=list)
    _begun: bytes = b""

    async def say(self, command: Any) -> None:
        assert self.process.stdin is not None
        line = command if isinstance(command, str) else json.dumps(command)
        await self.process.stdin.send_all(line.encode() + b"\n")

    async def until_answered(self, name: str) -> None:
        await self._until(lambda: name in self.answers)

    async def until_heard(self, kind: str, times: int) -> None:
        await self._until(lambda: sum(event["type"] == kind for event in self.heard) >= times)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        assert self.process.stdout is not None
        with trio.fail_after(PATIENCE_S):
            while not is_so():
                piece = await self.process.stdout.receive_some()
                assert piece, f"it ended: {self.heard[-3:]}"
                *whole, self._begun = (self._begun + piece).split(b"\n")
                self.heard += map(msgspec.json.decode, whole)

    async def end(self) -> int:
        """Close the input, as a client that has had enough; the exit status."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with trio.fail_after(PATIENCE_S):
            assert self.process.stdout is not None
            while await self.process.stdout.receive_some():
                pass
            return await self.process.wait()

    @property
    def answers(self) -> dict[str, Event]:
        return answers_in(iter(self.heard))

    @property
    def events(self) -> Events:
        return [event for event in self.heard if event["type"] != "response"]


@asynccontextmanager
async def client(desk: Desk, talk: Talk, *, pause_s: float = 0.001) -> AsyncIterator[Client]:
    """sapwood in RPC mode, and a provider that replies as in the recording."""
    model = talk.replies[0].message["model"]
    window, output = (10_000, 1000) if model == "fake-small" else (128_000, 4096)
    async with provider({ROOT: talk.replies}) as server:
        desk.configure(CONFIG.format(url=server.url, model=model, window=window, output=output, pause_s=pause_s))
        process = await trio.lowlevel.open_process(
            [PROGRAM, "--mode", "rpc", "--dialect", "pi", "-m", f"fake-openai/{model}"],
            cwd=desk.folder,
            env=desk.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            yield Client(process)
        finally:
            if process.poll() is None:
                process.kill()
                await process.wait()


async def talked(found: Client, talk: Talk) -> None:
    """Say what the recorded client said, each thing when as much has been heard as then."""
    seen: Counter[str] = Counter()
    for is_command, line in talk.lines:
        if is_command:
            await found.say(line if "entryId" not in line else line | {"entryId": _entry(talk, found, line["entryId"])})
        elif line["type"] == "response":
            await found.until_answered(str(line.get("id")))
        elif seen[line["type"]] < AWAITED.get(line["type"], 0):
            seen[line["type"]] += 1
            await found.until_heard(line["type"], seen[line["type"]])


def _entry(talk: Talk, found: Client, name: str) -> str:
    """What the entry is called in our session, as a client knows it from `get_fork_messages`: by what was said there."""
    asked = next(id for id, answer in talk.answers.items() if answer["command"] == "get_fork_messages")
    theirs, ours = (answers[asked]["data"]["messages"] for answers in (talk.answers, found.answers))
    text = next(each["text"] for each in theirs if each["entryId"] == name)
    return next(str(each["entryId"]) for each in ours if each["text"] == text)


# --- what may differ --------------------------------------------------------------------------------------------------

NAMES = ("sessionFile", "sessionId", "id", "entryId", "parentId", "leafId")
"""Names and ids: other ones each time."""
MEMBERS = {
    "get_state": {
        "model": "pi's model tells its address and whether it reasons; ours what it takes besides text",
        "steeringMode": "what waits goes in together, which pi calls `all`; pi hands it over one by one",
        "followUpMode": "as steeringMode",
        "messageCount": "pi counts its instructions as a message",
        "pendingMessageCount": "as steeringMode",
    },
    "get_session_stats": {"totalMessages": "pi counts its instructions as a message"},
    "get_entries": {"entries": "each keeps its own entries", "leafId": "an id"},
    "get_tree": {
        "tree": "pi nests entries in each other; ours are flat, as conversations are long chains",
        "nodes": "so",
    },
    "compact": {
        "summary": "how a history is parted for its summary is each one's own",
        "firstKeptEntryId": "an id",
        "tokensBefore": "so is how much it holds",
        "usage": "and what it costs",
        "estimatedTokensAfter": "pi guesses it",
    },
    "bash": {},
}
ERRORS = {
    "prompt": "a run is open; say with streamingBehavior (steer or followUp)",
    "parse": "expected a JSON object on one line",
    "no_such_command": "there is no command 'no_such_command'",
    "set_model": "no provider is named 'nope'",
    "compact": "",
}


def compared(answer: Event) -> Event:
    """An answer without what may differ."""
    data = answer.get("data", {})
    if answer["command"] == "get_messages":
        data = {"messages": [message for message in data["messages"] if message["role"] != "system"]}
    found = {name: value for name, value in answer.items() if name not in {"data", "error"}}
    found["data"] = {name: value for name, value in data.items() if name not in MEMBERS.get(answer["command"], {})}
    bare = without(*NAMES, "timestamp", "durationMs", "responseId")([found])
    return PI["members of its own"].theirs(bare)[0]


def assert_answered_alike(talk: Talk, found: Client, *others: str) -> None:
    """Every answer, but for those to the commands with the ids `others`, has the success, the members and the values of pi's."""
    for name, theirs in talk.answers.items():
        ours = found.answers[name]
        if name in others:
            continue
        assert (name, list(unequal(compared(theirs), compared(ours)))) == (name, [])
        if not theirs["success"]:
            assert ERRORS[theirs["command"]] in ours["error"]


# --- line by line -----------------------------------------------------------------------------------------------------


def test_lines_that_are_no_commands_stay_as_they_are() -> None:
    for line in (b"no json", b"[1]", b"3", b"\xff"):
        assert commanded(PiClient("other"), line) == line


def test_after_a_fork_commands_are_for_it_and_the_old_session_is_not_told_any_more() -> None:
    state, _ = told(PiClient(), line("agent_start", "old"))
    forked = b'{"id":1,"type":"response","command":"fork","success":true,"data":{"sessionId":"new","text":"hi"}}\n'

    state, answer = told(state, forked)

    assert json.loads(answer)["data"] == {"text": "hi", "cancelled": False}
    assert json.loads(commanded(state, b'{"type":"prompt","message":"x"}'))["sessionId"] == "new"
    assert json.loads(commanded(state, b'{"type":"abort","sessionId":"old"}'))["sessionId"] == "old"
    assert told(state, line("agent_start", "old"))[1] == b""
    assert told(state, line("agent_start", "new"))[1] == b'{"type":"agent_start"}\n'


def test_children_are_not_told_and_an_error_is_a_string() -> None:
    state, _ = told(PiClient(), line("turn_start", "root"))
    refused = (
        b'{"id":[1],"type":"response","command":"prompt","success":false,"error":{"code":"busy","message":"wait"}}\n'
    )

    assert told(state, line("turn_start", "kid"))[1] == b""
    assert json.loads(told(state, refused)[1]) == {
        "id": [1],
        "type": "response",
        "command": "prompt",
        "success": False,
        "error": "wait",
    }


def line(kind: str, session: str) -> bytes:
    return tagged(b"}", kind, Place(session, "root", None, 0), 1, "2026-01-02T03:04:05.678Z")


# --- the conversations ------------------------------------------------------------------------------------------------


async def test_a_client_that_prompts_and_reads(desk: Desk) -> None:
    talk = Talk.read("prompt")
    async with client(desk, talk) as found:
        await talked(found, talk)

        assert_answered_alike(talk, found)
        shell = {
            "bash_execution_update"
        }  # pi shows a person's command as it runs, ours as the message that is kept of it
        theirs = [event for event in talk.events if event["type"] not in shell]
        ours = [event for event in found.events if role_of(event) != "bashExecution"]
        assert_alike(
            without_differences(theirs, PI, "theirs"),
            without_differences(ours, PI, "ours"),
        )
        assert await found.end() == 0


async def test_a_client_that_steers_and_follows_up(desk: Desk) -> None:
    talk = Talk.read("steer_followup")
    async with client(desk, talk) as found:
        await talked(found, talk)

        assert_answered_alike(talk, found)
        queues = [event for event in found.events if event["type"] == "queue_update"]
        theirs = [event for event in talk.events if event["type"] == "queue_update"]
        assert queues[:4] == theirs[:4]
        assert (queues[-1]["steering"], queues[-1]["followUp"]) == ([], [])
        said = [text_of(event) for event in found.events if event["type"] == "message_end" and role_of(event) == "user"]
        assert said == [
            text_of(event) for event in talk.events if event["type"] == "message_end" and role_of(event) == "user"
        ]


def text_of(event: Event) -> str:
    return str(event["message"]["content"][0]["text"])


async def test_a_client_that_aborts_an_answer_a_tool_and_a_retry(desk: Desk) -> None:
    talk = Talk.read("abort")
    async with client(desk, talk, pause_s=60.0) as found:
        await talked(found, talk)

        # What waited when the first run was aborted went in with the next prompt; pi still has it, and goes on with it now.
        assert_answered_alike(talk, found, "11")
        ends = [event["aborted"] for event in found.events if event["type"] == "agent_settled"]
        assert ends[:2] == [True, True]
        (retry,) = [event for event in found.events if event["type"] == "auto_retry_end"]
        assert retry["success"] is False


async def test_a_client_that_compacts_and_goes_on_in_a_fork(desk: Desk) -> None:
    talk = Talk.read("compact_fork")
    async with client(desk, talk) as found:
        await talked(found, talk)

        # To begin another session pi's clients say `new_session`; ours is one conversation with the host's root and its forks.
        assert_answered_alike(talk, found, "11", "12")
        before, after = found.answers["7"]["data"]["entries"], found.answers["10"]["data"]
        assert Path(after["sessionFile"]).stem == after["sessionId"]
        (root, fork) = sorted((desk.home / "sessions").glob("*.jsonl"))
        assert (fork.stem, len(before) > 0, root.stem != fork.stem) == (after["sessionId"], True, True)
        behind = without_differences(found.events[-len(after_fork(talk)) :], PI, "ours")
        assert [event["type"] for event in behind] == [event["type"] for event in after_fork(talk)]
        assert await found.end() == 0


def after_fork(talk: Talk) -> Events:
    """What pi told of the run in the fork."""
    place = max(place for place, (_, line) in enumerate(talk.lines) if isinstance(line, dict) and line.get("id") == "9")
    told = [line for is_command, line in talk.lines[place:] if not is_command and line["type"] != "response"]
    return without_differences(told, PI, "theirs")
