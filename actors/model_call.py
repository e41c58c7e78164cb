"""One model call: what must be durable first, a slot, the request, chunks to the stream, one signal at the end."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import attrs
import msgspec
import trio

from actors.protocol.budgets import Estimate, estimated
from actors.protocol.effects import CallModel
from actors.protocol.mail import ModelEnded, ModelFailed
from actors.protocol.model import Chunk, Hear, Model, ModelFailure, ModelRequest, ReplyEnd
from actors.protocol.questions import MayCall
from actors.reply import Reply
from store.context import build_context, for_model
from store.errors import StoreError
from store.events import Diagnostic
from store.size import answered_tokens, context_tokens, guessed, message_chars
from store.times import unix_ms
from store.wire import encode

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor


async def call_model(
    supervisor: "Supervisor",
    row: "Row",
    outbox: "Outbox",
    effect: CallModel,
    scope: trio.CancelScope,
    speaker: Model | None = None,
) -> ModelEnded | ModelFailed:
    """Make the call; `scope` cancels it. The one signal holds what came, whatever happened. `speaker` answers for the model."""
    model, info = supervisor.workshop.model(row.model)
    clock = supervisor.clock
    reply = Reply(info, unix_ms(clock.now()), clock.steady_s())
    outbox.start_reply(reply)

    async def hear(chunk: Chunk) -> None:
        await supervisor.sink.wait_for_room()
        outbox.show_reply(reply, reply.take(chunk))

    end: ReplyEnd | ModelFailure | None = None
    claim = ClaimedCall(supervisor, row, effect.claim, reply)
    with scope, claim:
        try:
            # The prompt is durable before the provider sees it.
            await outbox.durable()
        except StoreError as error:
            end = ModelFailure("invalid_request", f"the prompt could not be made durable: {error}")
        if end is None:
            request = with_bounds(_request(supervisor, row, outbox, effect.call), effect.max_output)
            if effect.is_last:
                request = msgspec.structs.replace(request, tools=())
            end = await (claim.call(model, request, hear) if speaker is None else speaker.call(request, hear))
    if reply.refused_usage:
        outbox.publish(Diagnostic(level="warning", code="usage", text=reply.refused_usage))
    return _signal(effect.work, reply, outbox, end, clock.steady_s())


@attrs.define
class ClaimedCall:
    """A call for which `claim` was granted: when it is left, however that comes about, the claim is settled."""

    supervisor: "Supervisor"
    row: "Row"
    claim: int
    reply: Reply
    _is_made: bool = False
    _end: ReplyEnd | ModelFailure | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        used = self.reply.used(self._end) if self._is_made else None
        self.supervisor.call_ended(self.row, self.claim, used)

    async def call(self, model: Model, request: ModelRequest, hear: Hear) -> ReplyEnd | ModelFailure:
        """The call itself, once there is a slot of the live children (the root needs none) and the provider's gate is open."""
        gate = self.supervisor.gates.of(request.model.provider)
        async with AsyncExitStack() as stack:
            if self.row.place.depth:
                await stack.enter_async_context(self.supervisor.slots.hold(self.row.id))
            await stack.enter_async_context(gate.entered())
            self._is_made = True
            self.supervisor.call_made(self.claim)
            end = self._end = await model.call(request, hear)
        gate.heard(end if isinstance(end, ModelFailure) else None)
        return end


def with_bounds(request: ModelRequest, max_output: int) -> ModelRequest:
    """The request, for an answer of so many tokens at the most; 0: as many as the model likes."""
    if not max_output:
        return request
    return msgspec.structs.replace(request, model=msgspec.structs.replace(request.model, max_output=max_output))


def with_sizes(supervisor: "Supervisor", row: "Row", outbox: "Outbox", question: MayCall) -> MayCall:
    """The question, with how full the context is, and what the call will take where somebody has set a limit."""
    _, info = supervisor.workshop.model(row.model)
    is_paid = supervisor.has_budget(row)
    path = outbox.tree.path() if info.context_window or is_paid else []
    tokens = context_tokens(path) or 0
    estimate = Estimate(0, 0)
    if is_paid:
        asked = max(tokens, request_tokens(_request(supervisor, row, outbox, 0)))
        estimate = estimated(info, asked + guessed(question.incoming_chars))
    return msgspec.structs.replace(
        question,
        context_tokens=tokens,
        answered_tokens=answered_tokens(path) if question.passes else None,
        window=info.context_window,
        model=row.model,
        estimate=estimate,
    )


def request_tokens(request: ModelRequest) -> int:
    """About how many tokens a request holds, its instructions and tools included."""
    chars = len(request.system) + sum(len(encode(spec)) for spec in request.tools)
    return guessed(chars + sum(message_chars(message) for message in request.messages))


def _request(supervisor: "Supervisor", row: "Row", outbox: "Outbox", call: int) -> ModelRequest:
    _, info = supervisor.workshop.model(row.model)
    context = build_context(outbox.tree.path())
    names = row.tools if row.tools is not None else tuple(supervisor.workshop.tools)
    return ModelRequest(
        session_id=row.id,
        session_name=row.name,
        depth=row.place.depth,
        call=call,
        model=info,
        messages=for_model(context.messages),
        system=supervisor.workshop.system_prompt(row),
        tools=tuple(tool.spec for name, tool in supervisor.workshop.tools.items() if name in names),
        thinking=row.thinking,
        service_tier=row.service_tier,
    )


def _signal(
    work: int, reply: Reply, outbox: "Outbox", end: ReplyEnd | ModelFailure | None, now_s: float
) -> ModelEnded | ModelFailed:
    if isinstance(end, ReplyEnd):
        outbox.show_reply(reply, reply.finish(end.stop_reason))
        message = reply.message(end.stop_reason, now_s, raw=end.raw)
        return ModelEnded(work, msgspec.Raw(encode(message)), end.stop_reason, reply.whole_calls, reply.has_text)
    if end is None:
        message = reply.message("aborted", now_s, "the call was aborted")
    else:
        message = reply.message("error", now_s, end.message, end.raw)
    return ModelFailed(work, msgspec.Raw(encode(message)), end, reply.whole_calls)
