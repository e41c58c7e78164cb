"""One incarnation of a session: takes mail and carries out what the turn rules answer."""

from collections.abc import Callable, Sequence

import attrs
import trio

from actors.mailbox import Letter, Mailbox
from actors.protocol.effects import Effect, PublishEvent, RefuseMail
from actors.protocol.mail import URGENT, ChildEnded, Emptied, Prompt
from actors.protocol.state import TurnState
from actors.protocol.turn import step
from store.errors import JournalPoisoned
from store.events import Diagnostic

RETRY_WRITE_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
CLOSING_TRIES = 4
# Heard again even if it has crashed the session: others wait for what it brings about.
NEVER_DROPPED = (*URGENT, ChildEnded)


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
            letters = [*drained.letters, Letter(Emptied(), self.mailbox.clock.now())]
            try:
                self._refuse(drained.refused)
            except Exception:
                self.mailbox.put_back(letters)
                raise
            if await self._hear(letters):
                continue
            if self.state.is_settled and self.may_close():
                return
            if self.state.will_run:
                self.mailbox.put_back([Letter(Emptied(), self.mailbox.clock.now())])

    def _refuse(self, letters: Sequence[Letter]) -> None:
        prompts = [letter.mail for letter in letters if isinstance(letter.mail, Prompt)]
        if prompts:
            reason = "an abort came with it"
            self.perform([RefuseMail(mail.message_id, mail.sender, mail.mode, reason) for mail in prompts])

    async def _hear(self, letters: list[Letter]) -> bool:
        """Decide and carry out, letter by letter. True: a write failed, and what was not heard is in the mailbox again.

        A step whose entries cannot be written has not happened: its letter is heard again, with the same state, when space
        returns. So no decision is lost, and the work in hand goes on. A letter that shows a bug is dropped, those behind it
        are not.
        """
        for place, letter in enumerate(letters):
            try:
                after, effects = step(self.state, letter.mail, letter.at)
                self.perform(effects)
            except JournalPoisoned:
                self.mailbox.put_back(letters[place:])
                raise
            except OSError as error:
                # Each round brings its own Emptied; without other mail this one is needed to be heard again.
                rest = [other for other in letters[place:] if not isinstance(other.mail, Emptied)]
                self.mailbox.put_back(rest or letters[-1:])
                await self._pause(error, is_closing=self.state.is_aborted or isinstance(letter.mail, URGENT))
                return True
            except Exception:
                is_owed = isinstance(letter.mail, NEVER_DROPPED)
                self.mailbox.put_back(letters[place if is_owed else place + 1 :])
                raise
            self.state = after
            self._failures = 0
        return False

    async def _pause(self, error: OSError, *, is_closing: bool) -> None:
        self._failures += 1
        if self._failures == 1:
            text = f"not written, trying again: {error}"
            self.perform([PublishEvent(Diagnostic(level="warning", code="store", text=text))])
        if is_closing and self._failures >= CLOSING_TRIES:
            raise ClosingFailed(str(error)) from error
        with self.mailbox.until_urgent(write_pause_s(self._failures)):
            await trio.sleep_forever()


def write_pause_s(failures: int) -> float:
    """How long to wait after so many failed writes in a row, from 1."""
    return RETRY_WRITE_S[min(failures, len(RETRY_WRITE_S)) - 1]
