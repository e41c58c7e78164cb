"""Makes the pictures of the README: the demo as it runs, as it ends, and what it cost.

    .venv/bin/python examples/pictures/make.py

Runs `sapwood demo` in a fresh home, folds its event stream with the code that draws the live tree, and writes SVG.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from orchestrator.views.grid import Look
from orchestrator.views.live import LiveTree
from orchestrator.views.progress import final_lines, progress_lines
from orchestrator.views.spans import Line
from store.times import unix_s

HERE = Path(__file__).parent
WIDTH, HEIGHT = 92, 42


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "SAPWOOD_HOME": home, "COLUMNS": str(WIDTH)}
        sapwood = str(Path(sys.executable).with_name("sapwood"))
        lines = subprocess.run([sapwood, "demo", "--mode", "json"], env=environ, capture_output=True, check=True).stdout
        usage = subprocess.run([sapwood, "usage"], env=environ, capture_output=True, check=True, text=True).stdout
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115
    busiest, last = folded([line + b"\n" for line in lines.split(b"\n") if line])
    shown(console, "sapwood demo", busiest)
    shown(console, "…and when it has ended", last)
    shown(console, "sapwood usage", [((line, ""),) for line in usage.splitlines()])
    picture = console.export_svg(title="sapwood", theme=SVG_EXPORT_THEME)
    # The picture asks nobody for a font: the reader's own monospace will do.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    (HERE / "run.svg").write_text(picture, "utf-8")
    print(f"wrote {HERE / 'run.svg'}")


def folded(lines: list[bytes]) -> tuple[list[Line], list[Line]]:
    """The block at the moment when most agents work, and the final one."""
    fold = LiveTree()
    most, busiest, now = 0, [], 0.0
    for line in lines:
        taken = fold.take_line(line)
        now = (taken and unix_s(taken[0].at)) or now
        rows = fold.rows(now + 1)
        working = sum(row.state.is_working for row in rows) + len({row.activity and row.activity.kind for row in rows})
        if working >= most:
            most, busiest = working, progress_lines(rows, Look(WIDTH, now), HEIGHT)
    return busiest, final_lines(fold.rows(now), Look(WIDTH, now))


def shown(console: Console, command: str, lines: list[Line]) -> None:
    console.print(Text(f"❯ {command}", style="bold"))
    for line in lines:
        console.print(Text.assemble(*line), no_wrap=True, overflow="crop")
    console.print()


if __name__ == "__main__":
    main()
