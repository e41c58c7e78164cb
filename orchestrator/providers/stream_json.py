"""The events of a provider's stream as JSON objects, and the errors that stand among them."""

from collections.abc import Callable
from typing import Any

from actors.protocol.model import ModelFailure
from orchestrator.providers.failures import classify_error
from orchestrator.providers.sse import Event
from orchestrator.providers.text import decoded_json

Redact = Callable[[str], str]
"""Takes the keys of a request out of what is quoted."""

_SHOWN_CHARS = 200
_NO_ERROR = (None, "", False)


def object_of(event: Event, redacted: Redact) -> dict[str, Any] | ModelFailure | None:
    """The object in `event`; None where there is none to read, or half of one; a failure for anything else."""
    data = event.data.strip()
    if data in {"", "[DONE]"}:
        return None
    try:
        value = decoded_json(data)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return value
    if event.is_cut:
        return None
    shown = redacted(data)[:_SHOWN_CHARS]
    return ModelFailure(kind="server", message=f"expected JSON objects in the stream, found {shown!r}")


def is_error(event: Event, value: dict[str, Any]) -> bool:
    """Whether a stream that began well tells of a failure, in whichever of the usual ways."""
    if event.type == "error" or "error" in (value.get("type"), value.get("object")):
        return True
    return value.get("error") not in _NO_ERROR


def told_failure(event: Event, redacted: Redact) -> ModelFailure:
    """The failure that the error in `event` means: by what it says, since the status was one of success."""
    try:
        value = decoded_json(redacted(event.data))  # before anything is cut off: half a key would not be found
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return classify_error(value)
    for holder in (value, value.get("response")):
        if isinstance(holder, dict) and holder.get("error") not in _NO_ERROR:
            return classify_error({key: holder[key] for key in ("error", "request_id") if key in holder})
    return classify_error({} if "response" in value else value)
