"""A model call beside the conversation: a summary, a description. It keeps to the limits of the tree as any other."""

from typing import TYPE_CHECKING

import attrs
import trio

from actors.model_call import ClaimedCall, request_tokens, with_bounds
from actors.protocol.budgets import estimated
from actors.protocol.model import Model, ModelFailure, ModelRequest, ReplyEnd
from actors.protocol.questions import Directive, Go, MayCall, Refuse
from actors.reply import Reply

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.supervisor import Supervisor


@attrs.frozen
class SideCall:
    supervisor: "Supervisor"
    row: "Row"
    model: Model

    async def make(self, request: ModelRequest, reply: Reply) -> ReplyEnd | ModelFailure:
        """The call, once there is room for it; a failure where there never will be."""
        granted = await self._granted(request)
        if isinstance(granted, Refuse):
            return ModelFailure("quota", granted.reason)
        with ClaimedCall(self.supervisor, self.row, granted.claim, reply) as claimed:
            return await claimed.call(self.model, with_bounds(request, granted.max_output), reply.hear)

    async def _granted(self, request: ModelRequest) -> Go | Refuse:
        """Whether the limits of the tree leave room for this call; waits while only the claims of others are in the way."""
        answered = trio.Event()
        answers: list[Directive] = []

        def answer(directive: Directive) -> None:
            answers.append(directive)
            answered.set()

        estimate = estimated(request.model, request_tokens(request))
        name = request.model.name
        self.supervisor.ask(MayCall(self.row.id, None, is_summary=True, model=name, estimate=estimate), answer)
        try:
            await answered.wait()
        except trio.Cancelled:
            self.supervisor.withdraw(self.row)
            raise
        if isinstance(answers[0], Go | Refuse):
            return answers[0]
        raise TypeError(f"expected Go or Refuse, found {answers[0]!r}")
