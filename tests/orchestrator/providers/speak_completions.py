"""Chat completions as OpenAI's server streams them, with all that it puts into its events."""

from tests.orchestrator.providers.said import Json, Said, framed


def completion(said: Said) -> bytes:
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"reasoning_content": piece} for piece in said.pieces(said.thinking)]
    deltas += [{"content": piece} for piece in said.pieces(said.text)]
    for index, (id, name, arguments) in enumerate(said.calls):
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in said.pieces(arguments)
        ]
    finish = {"stop": "stop", "toolUse": "tool_calls", "length": "length"}[said.stop]
    values = [_completion_chunk(delta, None) for delta in deltas] + [_completion_chunk({}, finish)]
    fresh, output, read, written, reasoning = said.tokens
    usage = {
        "prompt_tokens": fresh + read + written,
        "completion_tokens": output,
        "total_tokens": fresh + read + written + output,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
    }
    values.append(_completion_chunk({}, None) | {"choices": [], "usage": usage})
    return framed(values, named=False) + b"data: [DONE]\n\n"


def _completion_chunk(delta: Json, finish: str | None) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "gpt-5.4-2026-01-01",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
    }


def completion_failure(code: str, message: str) -> bytes:
    return framed([{"error": {"message": message, "type": code, "param": None, "code": code}}], named=False)
