"""`sapwood agents --watch`: the screen, what feeds it, and what it asks for."""

import base64
import os
import signal
import sys
import time
from pathlib import Path

import attrs
import trio

from orchestrator.cli.common import has_colour, is_ascii, whole_tree
from orchestrator.cli.hands import WatchedHands
from orchestrator.cli.stored_trees import StoredTrees
from orchestrator.cli.terminal import Terminal
from orchestrator.engine.errors import EngineError
from orchestrator.engine.link import Gap
from orchestrator.engine.watch import Ended, Watch
from orchestrator.views.feed import Feed, FeedLine
from orchestrator.views.money import duration
from orchestrator.views.rows import AgentRow
from orchestrator.views.screen import effects, frame
from orchestrator.views.screen.details import Detail, detail_of
from orchestrator.views.screen.pane import Fed
from orchestrator.views.screen.state import Known, Lost, Screen
from orchestrator.views.screen.step import Answered, Happening, Key, Resized, Said, Seen, Tick, Told, step
from orchestrator.views.signs import title
from orchestrator.views.text import count
from orchestrator.web.ports import Order, Refused
from store.disk.home import Home
from store.events import Event
from store.ids import short
from store.lines import Tags
from store.times import unix_s

FRAME_S = 0.1
TICK_S = 1.0
EXAMINE_S = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@attrs.define(eq=False)
class View:
    """Runs until somebody leaves it. It ends no agent."""

    home: Home
    terminal: Terminal
    stored: StoredTrees
    screen: Screen = attrs.field(factory=Screen)
    watch: Watch = attrs.field(init=False)
    _hands: WatchedHands = attrs.field(init=False)
    status: int = 0
    _feed: Feed = attrs.field(factory=Feed)
    _names: dict[str, str] = attrs.field(factory=dict)
    _lines: list[Fed] = attrs.field(factory=list)
    _told_ended: int = 0
    _told_gaps: dict[Path, int] = attrs.field(factory=dict)
    _wanted: str | None = None
    _wake: trio.Event = attrs.field(factory=trio.Event)
    _examine: trio.Event = attrs.field(factory=trio.Event)
    _nursery: trio.Nursery | None = None

    def __attrs_post_init__(self) -> None:
        self.watch = Watch(self.home, self.stored, [self._hear])
        self._hands = WatchedHands(self.home, self.watch)

    async def run(self) -> int:
        """The exit status."""
        size = self.terminal.size
        now = time.time()
        self.screen = Screen(size.columns, size.lines, is_ascii(), now, now, is_showing_ended=self.stored.shows_all)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self._hear_signals)
            for task in (self.watch.run, self._follow_rows, self._press, self._draw, self._read_details):
                nursery.start_soon(task)
        return self.status

    # What happens

    def happen(self, happening: Happening) -> None:
        self.screen, asked = step(self.screen, happening)
        for effect in asked:
            self._perform(effect)
        self._wake.set()

    async def _press(self) -> None:
        while True:
            keys = await self.terminal.keys()
            if not keys:  # the terminal is gone
                self._leave(128 + signal.SIGHUP)
                return
            for key in keys:
                if key == "ctrl-l":
                    self.terminal.forget()
                self.happen(Key(key))

    async def _hear_signals(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with trio.open_signal_receiver(*SIGNALS, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP) as received:
            task_status.started()
            async for number in received:
                if number == signal.SIGWINCH:
                    self.terminal.forget()
                    self.happen(Resized(*self.terminal.size))
                elif number == signal.SIGTSTP:
                    self.terminal.suspend()
                elif number == signal.SIGCONT:
                    self.terminal.resume()
                    self.happen(Resized(*self.terminal.size))
                else:
                    self._leave(128 + number)

    async def _follow_rows(self) -> None:
        """Rows are looked at when something changed, and every second: clocks count, trees leave."""
        while True:
            now = time.time()
            self.happen(Tick(now))
            self.happen(Seen(self._known(now)))
            with trio.move_on_after(TICK_S):
                await self.watch.changed()
            await trio.sleep(FRAME_S)

    async def _draw(self) -> None:
        """At most ten frames a second, and none where nothing happened."""
        while True:
            self._wake = trio.Event()
            self._gaps()
            if self._lines:
                lines, self._lines = self._lines, []
                self.screen, _ = step(self.screen, Told(lines))
            self.terminal.draw(frame.frame(self.screen))
            await trio.sleep(FRAME_S)
            await self._wake.wait()

    # What is known

    def _known(self, now: float) -> Known:
        rows = self.watch.rows(now)
        self._names = {row.session_id: title(row) for row in rows}
        self._tell_ended(rows)
        trees = len({row.root_session_id for row in rows})
        return Known(tuple(rows), self.watch.is_read, trees, self.stored.left_out, self._lost())

    def _lost(self) -> Lost | None:
        lost = [link for link in self.watch.links.values() if link.state == "lost"]
        if not lost:
            return None
        return Lost(
            min(link.since for link in lost), max(link.tries for link in lost), max(each.next_try for each in lost)
        )

    def _tell_ended(self, rows: list[AgentRow]) -> None:
        """Say which hosts have ended and left agents in the middle of something."""
        fresh, self._told_ended = self.watch.ended[self._told_ended :], len(self.watch.ended)
        for host in fresh:
            text = ended_text(host, [row for row in rows if row.root_session_id in host.roots])
            if text:
                self.happen(Said(text))

    def _hear(self, tags: Tags, event: Event, line: bytes) -> None:
        for told in self._feed.take(tags.session_id, event):
            name = self._names.get(tags.session_id) or short(tags.session_id)
            self._lines.append(Fed(unix_s(tags.at) or 0.0, tags.seq, tags.session_id, name, told))
            self._wake.set()

    def _gaps(self) -> None:
        """What was missed stands in the pane, too."""
        for link in self.watch.links.values():
            told, self._told_gaps[link.socket] = self._told_gaps.get(link.socket, 0), len(link.gaps)
            for gap in link.gaps[told:]:
                line = FeedLine(type="trouble", kind="↯ gap", word="retrying", text=gap_text(gap))
                self._lines.append(Fed(time.time(), 0, "", "", line))

    # What is asked for

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Quit():
                self._leave(0)
            case effects.Suspend():
                self.terminal.suspend()
            case effects.Copy(text):
                self.terminal.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
            case effects.Examine(session_id):
                self._wanted = session_id
                self._examine.set()
            case effects.TryNow():
                self.watch.try_now()
            case effects.ShowEnded(is_wanted):
                self.stored.shows_all = is_wanted
                self.watch.read_again()
            case effects.Do():
                if self._nursery is not None:
                    self._nursery.start_soon(self._do, effect)

    async def _do(self, effect: effects.Do) -> None:
        error: str | None = None
        try:
            await self._hands.do(Order(verb=effect.verb, session_id=effect.session_id, text=effect.text))
        except Refused as refused:
            error = str(refused)
        self.happen(Answered(effect.session_id, effect.verb, error))

    async def _read_details(self) -> None:
        """One after the other, in a thread, and not more often than somebody can look."""
        while True:
            await self._examine.wait()
            self._examine = trio.Event()
            wanted = self._wanted
            if wanted is not None:
                self.happen(await trio.to_thread.run_sync(self._detail, wanted, abandon_on_cancel=True))
            await trio.sleep(EXAMINE_S)

    def _detail(self, session_id: str) -> Detail:
        try:
            return detail_of(whole_tree(self.home, session_id), session_id, time.time())
        except (EngineError, KeyError) as error:
            return Detail(session_id, trouble=str(error))

    def _leave(self, status: int) -> None:
        self.status = status
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()


def gap_text(gap: Gap) -> str:
    why = (
        "because this view was slow"
        if gap.away_s is None
        else f"while disconnected ({duration(int(gap.away_s * 1000))})"
    )
    return f"{count(gap.missed, 'event')} missed {why}. Rows were refreshed from a snapshot."


def ended_text(host: Ended, rows: list[AgentRow]) -> str:
    """What to say of a host that has ended; empty where nothing was lost with it."""
    lost = [row for row in rows if row.state.word == "lost"]
    if not lost:
        return ""
    names = ", ".join(dict.fromkeys(title(row) for row in rows if row.depth == 0))
    at = time.strftime("%H:%M", time.localtime(host.at))
    are = "is" if len(lost) == 1 else "are"
    return (
        f"The host (pid {host.pid}) ended at {at}. {count(len(lost), 'agent')} {are} lost. "
        f"They can be continued: sapwood run -r {names}"
    )


def watch_agents(stored: StoredTrees) -> int:
    """Watch until somebody leaves; the exit status. Raises OSError where there is no terminal."""
    fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        terminal = Terminal(fd, has_colour(), (sys.stdout.encoding or "utf-8") if sys.stdout else "utf-8")
        with terminal.entered():
            return trio.run(View(stored.home, terminal, stored).run)
    finally:
        os.close(fd)
