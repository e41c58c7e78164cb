"""A session's one way in."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import attrs
import trio

from actors.clock import Clock
from actors.protocol.mail import URGENT, Emptied, Mail, Prompt


@attrs.frozen
class Letter:
    """A mail, and when it was put in (Unix seconds)."""

    mail: Mail
    at: float


@attrs.frozen
class Drained:
    """What was in the mailbox, in the order in which it is heard; `refused` are prompts that an abort covers."""

    letters: tuple[Letter, ...]
    refused: tuple[Letter, ...] = ()


def in_hearing_order(batch: Sequence[Letter]) -> Drained:
    """Abort and Stop first. They also cover the prompts in front of them, but not a child's task: it must end as aborted."""
    last_urgent = max((place for place, letter in enumerate(batch) if isinstance(letter.mail, URGENT)), default=-1)
    if last_urgent < 0:
        return Drained(tuple(batch))
    front = batch[:last_urgent]
    tasks = [letter for letter in front if isinstance(letter.mail, Prompt) and letter.mail.origin == "spawn_task"]
    refused = [letter for letter in front if isinstance(letter.mail, Prompt) and letter.mail.origin != "spawn_task"]
    urgent = [letter for letter in batch if isinstance(letter.mail, URGENT)]
    others = [letter for letter in front if not isinstance(letter.mail, (Prompt, *URGENT))]
    return Drained((*tasks, *urgent, *others, *batch[last_urgent + 1 :]), tuple(refused))


@attrs.define(eq=False)
class Mailbox:
    """An unbounded channel: every signal is owed by work that was started. Putting never waits and never raises."""

    clock: Clock = attrs.field(factory=Clock)
    _front: list[Letter] = attrs.field(factory=list)
    _is_closed: bool = False
    _is_urgent: bool = False
    _pause: trio.CancelScope | None = None

    def __attrs_post_init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Letter](math.inf)

    _send: trio.MemorySendChannel[Letter] = attrs.field(init=False)
    _receive: trio.MemoryReceiveChannel[Letter] = attrs.field(init=False)

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
        self._send.send_nowait(Letter(mail, self.clock.now()))
        if isinstance(mail, URGENT):
            self._is_urgent = True
            if self._pause is not None:
                self._pause.cancel()
        return True

    def put_back(self, letters: Iterable[Letter]) -> None:
        """Letters that were taken and not heard: they come first again."""
        self._front[:0] = letters

    async def drain(self) -> Drained:
        """Wait until there is mail, and take all of it."""
        if not self._front:
            self._front = [await self._receive.receive()]
        batch = self.waiting()
        self._front = []
        self._is_urgent = False
        return in_hearing_order(batch)

    def waiting(self) -> list[Letter]:
        """What is in it, in the order in which it came. It stays there."""
        while True:
            try:
                self._front.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                return self._front

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
        left = self.waiting()
        self._front = []
        self._is_closed = True
        self._send.close()
        self._receive.close()
        return left

    @property
    def is_urgent(self) -> bool:
        """Whether an Abort or a Stop has come since it was drained."""
        return self._is_urgent

    @property
    def is_closed(self) -> bool:
        return self._is_closed
