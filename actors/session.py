"""One incarnation of a session: takes mail and carries out what the turn rules answer."""

from collections.abc import Callable, Sequence

import attrs
import trio

from actors.mailbox import Letter, Mailbox
from actors.protocol.effects import Effect, RefuseMail
from actors.protocol.mail import Emptied, Prompt
from actors.protocol.state import TurnState
from actors.protocol.turn import step
from store.errors import JournalPoisoned, StoreError

RETRY_WRITE_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
CLOSING_TRIES = 4


class ClosingFailed(Exception):
    """The records that close an aborted run could not be written; the next open says `lost`."""


@attrs.define(eq=False)
class SessionLoop:
    """`perform` never waits, so an Abort is heard at once, whatever the disk does.

    `may_close` closes the mailbox, if it is empty and nothing below needs this task.
    """

    mailbox: Mailbox
    perform: Callable[[Sequence[Effect]], None]
    state: TurnState
    may_close: Callable[[], bool] = lambda: False
    _failures: int = 0

    async def run(self) -> None:
        """Work until stopped, or until nothing is left to do.

        Raises ClosingFailed, JournalPoisoned (the journal must be opened again), and whatever a bug raises.
        """
        while not self.state.is_stopped:
            drained = await self.mailbox.drain()
            for letter in drained.refused:
                self._refuse(letter)
            if await self._hear([*drained.letters, Letter(Emptied(), self.mailbox.clock.now())]):
                continue
            if self.state.is_settled and self.may_close():
                return

    def _refuse(self, letter: Letter) -> None:
        if isinstance(letter.mail, Prompt):
            mail = letter.mail
            self.perform([RefuseMail(mail.message_id, mail.sender, mail.mode, "an abort came with it")])

    async def _hear(self, letters: list[Letter]) -> bool:
        """Decide and carry out, letter by letter. True: a write failed, and what was not heard is in the mailbox again.

        A step whose entries cannot be written has not happened: its letter is heard again, with the same state, when space
        returns. So no decision is lost, and the work in hand goes on.
        """
        for place, letter in enumerate(letters):
            after, effects = step(self.state, letter.mail, letter.at)
            try:
                self.perform(effects)
            except JournalPoisoned:
                self.mailbox.put_back(letters[place:])
                raise
            except (OSError, StoreError) as error:
                self.mailbox.put_back(letters[place:])
                await self._pause(error)
                return True
            self.state = after
            self._failures = 0
        return False

    async def _pause(self, error: OSError | StoreError) -> None:
        self._failures += 1
        if self.state.is_aborted and self._failures >= CLOSING_TRIES:
            raise ClosingFailed(str(error)) from error
        with trio.move_on_after(RETRY_WRITE_S[min(self._failures, len(RETRY_WRITE_S)) - 1]):
            await self.mailbox.urgent()
