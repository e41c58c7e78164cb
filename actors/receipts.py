"""What became of a message, and of a question: told to whoever waits."""

import attrs
import trio

from actors.protocol.tools import FamilyAnswer


@attrs.define
class Slip:
    """What became of one message: told by the receiver, once it is in its journal or refused."""

    came: trio.Event = attrs.field(factory=trio.Event)
    delivery: str | None = None
    reason: str = ""

    def tell(self, delivery: str, reason: str = "") -> None:
        if self.delivery is None:
            self.delivery, self.reason = delivery, reason
            self.came.set()


@attrs.define
class Ask:
    """What a session was asked about its children, by a tool or from outside."""

    _answered: trio.Event = attrs.field(factory=trio.Event)
    _value: FamilyAnswer | None = None

    def tell(self, value: FamilyAnswer) -> None:
        self._value = value
        self._answered.set()

    async def answer(self) -> FamilyAnswer:
        await self._answered.wait()
        if self._value is None:
            raise RuntimeError("an answer was announced and is not there")
        return self._value
