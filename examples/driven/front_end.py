"""A front end of one's own over `sapwood --mode rpc`: commands go in as lines of JSON, answers and events come out.

    cd examples/driven
    python front_end.py

Nothing of sapwood is imported, so it could be written in any language. An answer carries the `id` of its command; every other
line is an event of a session of the tree. The end of our side ends the tree. Other terminals reach it, too, while it lasts:
`sapwood attach`, `sapwood agents --watch`.
"""

import json
import subprocess
import sys
from typing import Any

Line = dict[str, Any]


class Backend:
    """The program, and whose text is shown: that of the root."""

    def __init__(self, *words: str) -> None:
        command = ["sapwood", "--mode", "rpc", "--no-session", *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0
        self.root = self.call("get_state")["sessionId"]

    def call(self, command: str, **members: Any) -> Line:
        """Give a command and return the data of its answer. Events that come before it are shown."""
        assert self.process.stdin is not None
        self.number += 1
        self.process.stdin.write(json.dumps({"id": self.number, "type": command, **members}).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            line = self.read()
            if line["type"] == "response" and line.get("id") == self.number:
                if not line["success"]:
                    raise RuntimeError(line["error"]["message"])
                return dict(line.get("data", {}))

    def read(self) -> Line:
        """The next line. Lines end with byte 0x0A and nothing else, which is what reading bytes by line does."""
        assert self.process.stdout is not None
        raw = self.process.stdout.readline()
        if not raw:
            raise SystemExit(f"sapwood has ended with status {self.process.wait()}")
        line: Line = json.loads(raw)
        self.show(line)
        return line

    def show(self, line: Line) -> None:
        if line["type"] == "message_update" and line["sessionId"] == self.root:
            piece = line["assistantMessageEvent"]
            if piece["type"] == "text_delta":
                print(piece["delta"], end="", flush=True)
            elif piece["type"] == "text_end":
                print()
        elif line["type"] == "child_settled":
            print(f"  {line['outcome']}: {line['text']}")

    def until_settled(self) -> str:
        """Read on until the root's run has ended. How."""
        while True:
            line = self.read()
            if line["type"] == "agent_settled" and line["sessionId"] == self.root:
                return str(line["outcome"])

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()


def main() -> int:
    backend = Backend("-m", "scripted/script.toml")
    backend.call("prompt", message="What is 7 * 6?")
    backend.until_settled()
    # A child that nobody but us asked for. When it has ended, the root hears of it, and goes on.
    backend.call("spawn", prompt="Check that 7 * 6 is 42.", name="checker")
    backend.until_settled()
    report = backend.call("get_usage")
    for node in report["nodes"]:
        own, total = node["own"]["totalTokens"], node["total"]["totalTokens"]
        print(f"{node['name'] or 'root'}: {own} tokens, {total} with all below")
    return backend.close()


if __name__ == "__main__":
    sys.exit(main())
