"""What a session's model is told before anything else: how to work here, as parent or as child, and what the folder says."""

from collections.abc import Iterator
from pathlib import Path

import attrs

from actors.directory import Row
from actors.protocol.trial import AutonomyPolicy, autonomy_text

MAX_FILE_BYTES = 64 * 1024

ROOT_ROLE = """\
You are an agent of sapwood. You work in the folder {cwd} with the tools you are given, for a person who reads your last
message. Look before you answer: read files and run commands instead of guessing. Change only what you were asked to.
When you are done, answer briefly and say what you did not do."""

CHILD_ROLE = """\
You are {name}, a child agent of sapwood. You work in the folder {cwd} with the tools you are given. Another agent gave you
the task below and sees nothing but your last message, so put everything it needs into that: results, file names, what failed.
Do not ask questions back unless you cannot go on; do what you were asked and no more."""

PARENT_ROLE = """\
Work that splits into parts that do not depend on each other can go to children: `spawn_agent` starts one with its own
context and returns at once, `wait_agents` gives their answers. A child knows only the prompt that you write, so put file
names and all it needs into it. What a child spends counts as yours. Small steps are done faster by yourself."""


@attrs.frozen
class Instructions:
    """`replacement` stands in for our own words; `files` are (path, text) of AGENTS.md and the like; then comes `addition`,
    and last how to work alone, where that is asked for."""

    cwd: Path
    max_depth: int
    replacement: str | None = None
    addition: str | None = None
    files: tuple[tuple[str, str], ...] = ()

    def for_session(self, row: Row, autonomy: AutonomyPolicy) -> str:
        """The system prompt of one session. Children get the same files."""
        parts: list[str] = []
        if self.replacement is not None:
            parts.append(self.replacement)
        else:
            role = ROOT_ROLE if row.parent is None else CHILD_ROLE
            parts.append(role.format(cwd=self.cwd, name=row.name))
            may_spawn = row.tools is None or "spawn_agent" in row.tools
            if may_spawn and row.place.depth < self.max_depth:
                parts.append(PARENT_ROLE)
        parts += [f'<instructions from="{path}">\n{text.strip()}\n</instructions>' for path, text in self.files]
        if self.addition is not None:
            parts.append(self.addition)
        if autonomy.is_on and row.parent is None:
            parts.append(autonomy_text(autonomy))
        return "\n\n".join(parts)


def context_files(cwd: Path, home: Path) -> tuple[tuple[str, str], ...]:
    """(path, text) of the user's own file and of one in each folder from the top down to `cwd`: the nearest speaks last.

    In each folder AGENTS.md, or CLAUDE.md where there is none. Unreadable ones are passed over.
    """
    found = dict.fromkeys([home, *reversed((cwd, *cwd.parents))])
    return tuple(item for folder in found for item in _file_in(folder))


def _file_in(folder: Path) -> Iterator[tuple[str, str]]:
    for name in ("AGENTS.md", "CLAUDE.md"):
        path = folder / name
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError:
            continue
        text = data[:MAX_FILE_BYTES].decode("utf-8", "replace")
        if len(data) > MAX_FILE_BYTES:
            text += f"\n[cut here: {path} is longer than {MAX_FILE_BYTES} bytes]"
        yield str(path), text
        return
