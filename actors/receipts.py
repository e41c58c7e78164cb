"""What became of a message between agents."""

import attrs
import trio


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
