"""A session's one way in."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import attrs
import msgspec
import trio

from actors.clock import Clock
from actors.protocol.mail import URGENT, Emptied, Mail, Prompt


class Letter(msgspec.Struct, frozen=True):
    """A mail, and when it was put in (Unix seconds)."""

    mail: Mail
    at: float


class Drained(msgspec.Struct, frozen=True):
    """What was in the mailbox, in the order in which it is heard; `refused` are prompts that an abort covers."""

    letters: Sequence[Letter]
    refused: Sequence[Letter] = ()


def in_hearing_order(batch: Sequence[Letter]) -> Drained:
    """Abort and Stop first. They also cover the prompts in front of them, but not a child's task: it must end as aborted."""
    last_urgent = -1
    for place, letter in enumerate(batch):
        if isinstance(letter.mail, URGENT):
            last_urgent = place
    if last_urgent < 0:
        return Drained(batch)
    front = batch[:last_urgent]
    tasks = [letter for letter in front if isinstance(letter.mail, Prompt) and letter.mail.origin == "spawn_task"]
    refused = [letter for letter in front if isinstance(letter.mail, Prompt) and letter.mail.origin != "spawn_task"]
    urgent = [letter for letter in batch if isinstance(letter.mail, URGENT)]
    others = [letter for letter in front if not isinstance(letter.mail, (Prompt, *URGENT))]
    return Drained((*tasks, *urgent, *others, *batch[last_urgent + 1 :]), tuple(refused))


@attrs.define(eq=False)
class Mailbox:
    """Unbounded: every signal is owed by work that was started. Putting never waits and never raises.

    A list and one parked task: a memory channel costs twice as much per mail, and is taken whole only letter by letter.
    """

    clock: Clock = attrs.field(factory=Clock)
    _letters: list[Letter] = attrs.field(factory=list)
    _waiter: trio.lowlevel.Task | None = None
    _is_closed: bool = False
    _is_urgent: bool = False
    _pause: trio.CancelScope | None = None

    @classmethod
    def holding(cls, *mail: Mail) -> Self:
        mailbox = cls()
        for one in mail:
            mailbox.put(one)
        return mailbox

    def put(self, mail: Mail) -> bool:
        """Put it in. False: the mailbox is closed and the mail stays with the sender."""
        if self._is_closed:
            return False
        self._letters.append(Letter(mail, self.clock.now()))
        if self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None
        if isinstance(mail, URGENT):
            self._is_urgent = True
            if self._pause is not None:
                self._pause.cancel()
        return True

    def put_back(self, letters: Iterable[Letter]) -> None:
        """Letters that were taken and not heard: they come first again."""
        self._letters[:0] = letters

    async def drain(self) -> Drained:
        """Wait until there is mail, and take all of it. One task at a time."""
        if self._letters:
            await trio.lowlevel.checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)
        batch, self._letters = self._letters, []
        self._is_urgent = False
        return in_hearing_order(batch)

    def _give_up(self, _: object) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED

    def waiting(self) -> Sequence[Letter]:
        """What is in it, in the order in which it came. It stays there."""
        return self._letters

    def discard(self, is_it: Callable[[Mail], bool]) -> None:
        """Take out what nobody is to hear."""
        self._letters = [letter for letter in self._letters if not is_it(letter.mail)]

    @contextmanager
    def until_urgent(self, seconds: float = math.inf) -> Iterator[None]:
        """Cancel what is inside when an Abort or a Stop is in the mailbox, at the latest after these seconds."""
        with trio.move_on_after(seconds) as self._pause:
            if self._is_urgent:
                self._pause.cancel()
            try:
                yield
            finally:
                self._pause = None

    def close_if_empty(self) -> bool:
        """Close, if nothing is in it that anybody sent. One step: no mail can come in between."""
        if any(not isinstance(letter.mail, Emptied) for letter in self.waiting()):
            return False
        self.close()
        return True

    def close(self) -> list[Letter]:
        """Close and hand back what was in it."""
        left, self._letters = self._letters, []
        self._is_closed = True
        return left

    @property
    def is_urgent(self) -> bool:
        """Whether an Abort or a Stop has come since it was drained."""
        return self._is_urgent

    @property
    def is_closed(self) -> bool:
        return self._is_closed
