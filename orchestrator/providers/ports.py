"""The wire formats by the names that the configuration gives them."""

from orchestrator.providers import anthropic_body, responses_body
from orchestrator.providers.anthropic_messages import AnthropicMessages
from orchestrator.providers.anthropic_quirks import model_row
from orchestrator.providers.openai_completions import OpenAICompletions
from orchestrator.providers.openai_responses import OpenAIResponses

Port = OpenAICompletions | OpenAIResponses | AnthropicMessages

PORTS: dict[str, type[Port]] = {
    "openai-completions": OpenAICompletions,
    responses_body.API: OpenAIResponses,
    anthropic_body.API: AnthropicMessages,
}


def most_output(api: str, model: str) -> int:
    """How many tokens an answer has at the most where the configuration names no number; 0: as many as the server likes."""
    return model_row(model).max_output if api == anthropic_body.API else 0
