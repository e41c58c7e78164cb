"""What a stream tells, in short."""

from typing import Any

from tests.orchestrator.http.command import Done


def retries(done: Done) -> list[tuple[str, Any]]:
    """What the stream says around retries, in order."""
    told: list[tuple[str, Any]] = []
    for event in done.events:
        match event["type"]:
            case "message_end" if event["message"]["role"] == "assistant":
                told.append(("message_end", event["message"]["stopReason"]))
            case "agent_end":
                told.append(("agent_end", event["willRetry"]))
            case "auto_retry_start":
                told.append(("auto_retry_start", event["attempt"]))
            case "auto_retry_end":
                told.append(("auto_retry_end", event["success"]))
            case "agent_settled":
                told.append(("agent_settled", event["outcome"]))
    return told


def answers_of(done: Done) -> list[dict[str, Any]]:
    """The messages of assistants, in the order of their ends."""
    ends = (event["message"] for event in done.of("message_end"))
    return [message for message in ends if message["role"] == "assistant"]
