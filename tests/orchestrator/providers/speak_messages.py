"""Messages as Anthropic's server streams them, with all that it puts into its events."""

from collections.abc import Iterator

from tests.orchestrator.providers.said import Json, Said, framed

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"


def message(said: Said) -> bytes:
    fresh, output, read, written, reasoning = said.tokens
    usage = {
        "input_tokens": fresh,
        "output_tokens": min(1, output),
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
    }
    started = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    stop = {"stop": "end_turn", "toolUse": "tool_use", "length": "max_tokens"}[said.stop]
    values: list[Json] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    for index, (block, deltas) in enumerate(_blocks(said)):
        values.append({"type": "content_block_start", "index": index, "content_block": block})
        values += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        values.append({"type": "content_block_stop", "index": index})
    counts = {"output_tokens": output, "output_tokens_details": {"thinking_tokens": reasoning}}
    delta = {"stop_reason": stop, "stop_sequence": None, "stop_details": None, "container": None}
    values += [{"type": "message_delta", "delta": delta, "usage": counts}, {"type": "message_stop"}]
    return framed(values, named=True)


def _blocks(said: Said) -> Iterator[tuple[Json, list[Json]]]:
    if said.thinking:
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in said.pieces(said.thinking)]
        signed = {"type": "signature_delta", "signature": SIGNATURE}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, signed]
    if said.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in said.pieces(said.text)]
        yield {"type": "text", "text": "", "citations": None}, pieces
    for id, name, arguments in said.calls:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *said.pieces(arguments)]]
        yield {"type": "tool_use", "id": id, "name": name, "input": {}}, pieces


def message_failure(code: str, message: str) -> bytes:
    value = {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}
    return framed([value], named=True)
