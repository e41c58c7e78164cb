"""Responses as OpenAI's server streams them, with all that it puts into its events."""

from tests.orchestrator.providers.said import Call, Json, Said, framed

ENCRYPTED = (
    "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT-3uiErKInHDC-lgAaXeky44N77j7aibc2elHISjAvX7OmUwMU1r7NgaiHSVWL5BtWgXVBp4BMFkWZ"
)


def response(said: Said) -> bytes:
    values: list[Json] = [
        {"type": f"response.{phase}", "response": _response("in_progress", [], None)}
        for phase in ("created", "in_progress")
    ]
    output: list[Json] = []
    if said.thinking:
        item, events = _reasoning_item(said)
        output.append(item)
        values += events
    if said.text:
        item, events = _message_item(said, len(output))
        output.append(item)
        values += events
    for call in said.calls:
        item, events = _call_item(said, call, len(output))
        output.append(item)
        values += events
    fresh, spent, read, written, reasoning = said.tokens
    usage = {
        "input_tokens": fresh + read + written,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": spent,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": fresh + read + written + spent,
    }
    status = "incomplete" if said.stop == "length" else "completed"
    values.append({"type": f"response.{status}", "response": _response(status, output, usage)})
    return framed([value | {"sequence_number": number} for number, value in enumerate(values)], named=True)


def _response(status: str, output: list[Json], usage: Json | None) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5.4-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "low", "summary": "auto"},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def _item_events(place: int, begun: Json, inner: list[Json], done: Json) -> list[Json]:
    at = {"item_id": done["id"], "output_index": place}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": begun},
        *(event | at for event in inner),
        {"type": "response.output_item.done", "output_index": place, "item": done},
    ]


def _reasoning_item(said: Said) -> tuple[Json, list[Json]]:
    part = {"type": "summary_text", "text": said.thinking}
    begun = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    done = begun | {"summary": [part], "encrypted_content": ENCRYPTED}
    at = {"summary_index": 0}
    prefix = "response.reasoning_summary_"
    inner: list[Json] = [{"type": f"{prefix}part.added", "part": part | {"text": ""}} | at]
    inner += [{"type": f"{prefix}text.delta", "delta": piece} | at for piece in said.pieces(said.thinking)]
    inner += [
        {"type": f"{prefix}text.done", "text": said.thinking} | at,
        {"type": f"{prefix}part.done", "part": part} | at,
    ]
    return done, _item_events(0, begun, inner, done)


def _message_item(said: Said, place: int) -> tuple[Json, list[Json]]:
    part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    begun = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    done = begun | {"status": "completed", "content": [part]}
    at = {"content_index": 0}
    inner: list[Json] = [{"type": "response.content_part.added", "part": part | {"text": ""}} | at]
    inner += [
        {"type": "response.output_text.delta", "delta": piece, "logprobs": [], "obfuscation": "x"} | at
        for piece in said.pieces(said.text)
    ]
    inner += [
        {"type": "response.output_text.done", "text": said.text, "logprobs": []} | at,
        {"type": "response.content_part.done", "part": part} | at,
    ]
    return done, _item_events(place, begun, inner, done)


def _call_item(said: Said, call: Call, place: int) -> tuple[Json, list[Json]]:
    id, name, arguments = call
    begun = {"id": f"fc_{place}", "type": "function_call", "call_id": id, "name": name}
    begun |= {"status": "in_progress", "arguments": ""}
    done = begun | {"status": "completed", "arguments": arguments}
    prefix = "response.function_call_arguments."
    inner: list[Json] = [{"type": f"{prefix}delta", "delta": piece} for piece in said.pieces(arguments)]
    inner.append({"type": f"{prefix}done", "name": name, "arguments": arguments})
    return done, _item_events(place, begun, inner, done)


def response_failure(code: str, message: str) -> bytes:
    failed = _response("failed", [], None) | {"error": {"code": code, "message": message}}
    return framed([{"type": "response.failed", "response": failed, "sequence_number": 9}], named=True)
