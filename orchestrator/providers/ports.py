"""The wire formats by the names that the configuration gives them."""

from orchestrator.providers import anthropic_body, responses_body
from orchestrator.providers.anthropic_messages import AnthropicMessages
from orchestrator.providers.openai_completions import OpenAICompletions
from orchestrator.providers.openai_responses import OpenAIResponses

Port = OpenAICompletions | OpenAIResponses | AnthropicMessages

PORTS: dict[str, type[Port]] = {
    "openai-completions": OpenAICompletions,
    responses_body.API: OpenAIResponses,
    anthropic_body.API: AnthropicMessages,
}
