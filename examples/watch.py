"""A monitor over `sapwood --mode json`: one line per event, and the stream split by session.

    python examples/watch.py -m scripted/script.toml "Go"                  # all options of `sapwood run`
    python examples/watch.py --split streams -m scripted/script.toml "Go"  # also one file of events per session
    python examples/watch.py --deltas -m scripted/script.toml "Go"         # also the pieces of answers

What a reader of the stream has to know:

- Records end at byte 0A and nowhere else. A text reader may split inside of a string.
- Every line says which session it is of (`sessionId`). Children talk at the same time; a child's header comes first.
- Only `agent_settled` ends a run. `agent_end` comes before every retry, and a `message_end` with an error may be followed
  by an answer: whoever kills the process there kills a run that would have recovered. A run may even follow a run.
- After that only bookkeeping comes, such as what a child spent.
- A stream without the root's `agent_settled` was cut, whatever else it says, and is no success.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]
TAGS = frozenset({"sessionId", "seq", "at", "depth", "rootSessionId", "parentSessionId"})


@dataclass
class Session:
    """What one session has told. `outcome` is empty while a run is open, or where none was."""

    name: str
    depth: int
    outcome: str = ""
    events: list[Event] = field(default_factory=list)


@dataclass
class Monitor:
    """All sessions of a stream. The first header is the root's."""

    sessions: dict[str, Session] = field(default_factory=dict)

    @property
    def root(self) -> Session | None:
        return next(iter(self.sessions.values()), None)

    def take(self, event: Event) -> Session:
        """Sort one event in; the session that it is of."""
        session_id, kind = event["sessionId"], event["type"]
        if kind == "session":
            name = event.get("name") or ("root" if not self.sessions else session_id[-8:])
            self.sessions[session_id] = Session(name, event["depth"])
        session = self.sessions[session_id]
        session.events.append(untagged(event))
        if kind == "agent_start":
            session.outcome = ""
        elif kind == "agent_settled":
            session.outcome = event["outcome"]
        return session


def untagged(event: Event) -> Event:
    """The event as the session would have told it alone. A child's header has its parent and root of its own."""
    kept = {"rootSessionId", "parentSessionId"} if event["type"] == "session" and event["depth"] else set()
    return {key: value for key, value in event.items() if key not in TAGS or key in kept}


def events(stream: Iterable[bytes]) -> Iterator[Event]:
    """The events of a binary stream, which Python splits at byte 0A only."""
    for line in stream:
        yield json.loads(line)


def shown(event: Event) -> str:
    """One event in a few words."""
    match event["type"]:
        case "session":
            return f"session {event['id']}"
        case "message_start" | "message_end" as kind:
            message = event["message"]
            error = message.get("errorMessage")
            return f"{kind} {message['role']}" + (f", error: {error}" if error else "")
        case "message_update":
            part = event["assistantMessageEvent"]
            said = part.get("delta", part.get("content"))
            return f"{part['type']} {said!r}" if said else str(part["type"])
        case "tool_execution_start" | "tool_execution_end" as kind:
            return f"{kind} {event['toolName']}" + (" (error)" if event.get("isError") else "")
        case "agent_end" if event["willRetry"]:
            return "agent_end, but it will be tried again"
        case "auto_retry_start":
            return (
                f"retry {event['attempt']} of {event['maxAttempts']} in {event['delayMs']} ms: {event['errorMessage']}"
            )
        case "child_spawned":
            return f"child_spawned {event['name']}"
        case "child_usage_attributed":
            return f"child_usage_attributed {event['childUsage']['totalTokens']} tokens"
        case "limit_reached":
            return f"limit_reached {event['limit']}, allowed {event['allowed']:g}"
        case "diagnostic":
            return f"{event['level']}: {event['text']}"
        case "agent_settled" | "child_settled" | "run_settled" as kind:
            return f"{kind} {event['outcome']}"
        case other:
            return str(other)  # types that come with a later version are no reason to stop


def printable(text: str, width: int = 100) -> str:
    """One line that cannot harm a terminal: models and tools write what they like."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= width else line[: width - 1] + "…"


def is_delta(event: Event) -> bool:
    return event["type"] == "message_update" and str(event["assistantMessageEvent"]["type"]).endswith("_delta")


def write_split(monitor: Monitor, folder: Path) -> None:
    """One file per session, named after its id: names may hold anything."""
    folder.mkdir(parents=True, exist_ok=True)
    for session_id, session in monitor.sessions.items():
        lines = [json.dumps(event, separators=(",", ":")) + "\n" for event in session.events]
        (folder / f"{session_id}.jsonl").write_text("".join(lines), "utf-8")


def watch(arguments: list[str], *, has_deltas: bool, folder: Path | None) -> int:
    """Run sapwood, show what it tells; the exit status."""
    monitor = Monitor()
    with subprocess.Popen(["sapwood", "--mode", "json", *arguments], stdout=subprocess.PIPE) as sapwood:
        assert sapwood.stdout is not None
        # Ctrl-C reaches sapwood as well. It closes every run in the stream, which is worth reading to its end.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        for event in events(sapwood.stdout):
            session = monitor.take(event)
            if has_deltas or not is_delta(event):
                name = f"{'  ' * session.depth}{session.name}"
                print(f"{event['seq']:>5} {name:<16} {printable(shown(event))}", flush=True)
    if folder is not None:
        write_split(monitor, folder)
    for session in monitor.sessions.values():
        print(f"{'  ' * session.depth}{session.name}: {session.outcome or 'never settled'}")
    root = monitor.root
    if sapwood.returncode == 0 and (root is None or root.outcome != "completed"):
        print("watch: the stream ends before its root has settled", file=sys.stderr)
        return 1
    return 128 - sapwood.returncode if sapwood.returncode < 0 else sapwood.returncode


def main() -> None:
    arguments = sys.argv[1:]
    has_deltas, folder = False, None
    while arguments and arguments[0] in {"--deltas", "--split"}:
        if arguments.pop(0) == "--deltas":
            has_deltas = True
        else:
            folder = Path(arguments.pop(0))
    sys.exit(watch(arguments, has_deltas=has_deltas, folder=folder))


if __name__ == "__main__":
    main()
