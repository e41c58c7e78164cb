"""A session's one way in."""

import math
from collections.abc import Iterable, Sequence
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
    _urgent: trio.Event = attrs.field(factory=trio.Event)

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
            self._urgent.set()
        return True

    def put_back(self, letters: Iterable[Letter]) -> None:
        """Letters that were taken and not heard: they come first again."""
        self._front[:0] = letters

    async def drain(self) -> Drained:
        """Wait until there is mail, and take all of it."""
        batch = self._front
        self._front = []
        if not batch:
            batch = [await self._receive.receive()]
        while True:
            try:
                batch.append(self._receive.receive_nowait())
            except trio.WouldBlock:
                break
        self._urgent = trio.Event()
        return in_hearing_order(batch)

    async def urgent(self) -> None:
        """Wait until an Abort or a Stop is in the mailbox."""
        await self._urgent.wait()

    def close_if_empty(self) -> bool:
        """Close, if nothing is in it. One step: no mail can come in between."""
        waiting = [letter for letter in self._front if not isinstance(letter.mail, Emptied)]
        if waiting or self._receive.statistics().current_buffer_used:
            return False
        self.close()
        return True

    def close(self) -> list[Letter]:
        """Close and hand back what was in it."""
        left, self._front = self._front, []
        if self._is_closed:
            return left
        self._is_closed = True
        while True:
            try:
                left.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        self._send.close()
        self._receive.close()
        return left

    @property
    def is_closed(self) -> bool:
        return self._is_closed
