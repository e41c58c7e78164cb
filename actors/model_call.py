"""One model call: what must be durable first, a slot, the request, chunks to the stream, one signal at the end."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
import trio

from actors.protocol.mail import ModelEnded, ModelFailed
from actors.protocol.model import Chunk, Hear, Model, ModelFailure, ModelRequest, ReplyEnd
from actors.reply import Reply
from store.context import build_context, for_model
from store.errors import StoreError
from store.events import Diagnostic
from store.times import unix_ms
from store.wire import encode

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor


async def call_model(
    supervisor: "Supervisor", row: "Row", outbox: "Outbox", work: int, call: int, scope: trio.CancelScope
) -> ModelEnded | ModelFailed:
    """Make the call; `scope` cancels it. The one signal holds what came, whatever happened."""
    model, info = supervisor.workshop.model(row.model)
    clock = supervisor.clock
    reply = Reply(info, unix_ms(clock.now()), clock.steady_s())
    outbox.start_reply(reply)

    async def hear(chunk: Chunk) -> None:
        await supervisor.sink.wait_for_room()
        outbox.show_reply(reply, reply.take(chunk))

    end: ReplyEnd | ModelFailure | None = None
    with scope:
        try:
            # The prompt is durable before the provider sees it.
            await outbox.durable()
        except StoreError as error:
            end = ModelFailure("invalid_request", f"the prompt could not be made durable: {error}")
        if end is None:
            request = _request(supervisor, row, outbox, call)
            speaker = supervisor.workshop.speaker(row)
            if speaker is not None:
                end = await speaker.call(request, hear)
            else:
                end = await admitted_call(supervisor, row, model, request, hear)
    if reply.refused_usage:
        outbox.publish(Diagnostic(level="warning", code="usage", text=reply.refused_usage))
    return _signal(work, reply, outbox, end, clock.steady_s())


async def admitted_call(
    supervisor: "Supervisor", row: "Row", model: Model, request: ModelRequest, hear: Hear
) -> ReplyEnd | ModelFailure:
    """The call itself, once there is a slot of the live children (the root needs none) and the provider's gate is open."""
    gate = supervisor.gates.of(request.model.provider)
    async with AsyncExitStack() as stack:
        if row.place.depth:
            await stack.enter_async_context(supervisor.slots.hold(row.id))
        await stack.enter_async_context(gate.entered())
        end = await model.call(request, hear)
    gate.heard(end if isinstance(end, ModelFailure) else None)
    return end


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
