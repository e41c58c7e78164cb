"""Makes the terminal's picture of the README: `sapwood agents --watch` over a scripted tree at work.

    .venv/bin/python -m examples.pictures.terminal

Runs the tree, folds its stream with the code of the live view, presses some keys, and writes SVG. No key, no network.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from orchestrator.cli.common import whole_tree
from orchestrator.views.live import LiveTree
from orchestrator.views.screen.details import detail_of
from orchestrator.views.screen.effects import Examine
from orchestrator.views.screen.frame import frame
from orchestrator.views.screen.state import Known, Screen
from orchestrator.views.screen.step import Key, Seen, step
from orchestrator.views.spans import Line
from store.disk.fs import RealFs
from store.disk.home import Home
from store.times import unix_s

HERE = Path(__file__).parent
SAPWOOD = Path(sys.executable).with_name("sapwood")
WIDTH, HEIGHT = 120, 32
WORK = '#!/bin/sh\nexec sleep "$1"\n'
MODEL = "scripted/billing.toml"
PROMPT = "Port the billing package to API v3. Keep invoices, refunds and webhooks compatible."
AWAITED = {"failed", "retrying", "limit reached"}
ENDED = 6
KEYS = ("j", "j", "right", "space")
"""To the second child, which is unfolded and peeked at."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home", Path(folder) / "home" / "sessions", RealFs())
        with running(Path(folder)) as stream:
            fold, now = watched(stream)
            screen = looked_at(fold, now, home)
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115
    for line in frame(screen):
        console.print(drawn(line), no_wrap=True, overflow="crop")
    picture = console.export_svg(title="sapwood agents --watch", theme=SVG_EXPORT_THEME)
    # The picture asks nobody for a font: the reader's own monospace will do.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    (HERE / "agents.svg").write_text(picture, "utf-8")
    print(f"wrote {HERE / 'agents.svg'}")


@contextmanager
def running(folder: Path) -> Iterator[IO[bytes]]:
    """The tree at work, as the lines of its stream."""
    cwd = folder / "shop"
    cwd.mkdir()
    (cwd / "billing.toml").write_bytes((HERE / "billing.toml").read_bytes())
    (cwd / "work").write_text(WORK)
    (cwd / "work").chmod(0o755)
    environ = {**os.environ, "SAPWOOD_HOME": str(folder / "home")}
    options = ["--mode", "json", "-m", MODEL, "--name", "port-billing", "--max-live-children", "64"]
    tree = subprocess.Popen(
        [SAPWOOD, "run", *options, PROMPT], cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert tree.stdout is not None
        yield tree.stdout
    finally:
        tree.send_signal(signal.SIGINT)
        tree.communicate(timeout=20)


def watched(stream: IO[bytes]) -> tuple[LiveTree, float]:
    """The tree when every kind of trouble is there and something has ended, and the time then."""
    fold, now = LiveTree(), 0.0
    for line in stream:
        taken = fold.take_line(line)
        now = (taken and unix_s(taken[0].at)) or now
        words = [row.state.word for row in fold.rows()]
        if set(words) >= AWAITED and words.count("completed") >= ENDED:
            break
    return fold, now


def looked_at(fold: LiveTree, now: float, home: Home) -> Screen:
    screen, _ = step(Screen(WIDTH, HEIGHT, now=now), Seen(Known(tuple(fold.rows(now)), is_read=True)))
    for key in KEYS:
        screen, effects = step(screen, Key(key))
        for effect in effects:
            if isinstance(effect, Examine):
                screen, _ = step(screen, detail_of(whole_tree(home, effect.session_id), effect.session_id, now))
    return screen


def drawn(line: Line) -> Text:
    """In rich's words: a background is `on` a colour."""
    parts: Sequence[tuple[str, str]] = [(text, style.replace("on_", "on ")) for text, style in line]
    return Text.assemble(*parts) if parts else Text(" ")


if __name__ == "__main__":
    main()
