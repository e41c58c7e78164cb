"""Which events belong to a run, which begin one, and which are bookkeeping."""

from typing import Any

from store.events import Event

# A summary that a person asks for between two runs is no run, and neither is what it cost.
_BOOKKEEPING = frozenset(
    {
        "child_usage_attributed",
        "session_state",
        "agent_status",
        "diagnostic",
        "session_info",
        "model_change",
        "thinking_level_change",
        "service_tier_change",
        "compaction_start",
        "compaction_end",
        "usage",
    }
)
OF_A_RUN = frozenset(
    {
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "auto_retry_start",
        "auto_retry_end",
        "run_settled",
        "agent_settled",
        "child_spawned",
        "limit_reached",
        "gate_start",
        "gate_end",
    }
)
# A child that a person gives to a session at rest: with its end the session's next run begins.
BEGIN_A_RUN = frozenset({"agent_start", "run_settled", "child_spawned"})
KNOWN = frozenset(str(member.__struct_config__.tag) for member in Event.__args__)


def is_bookkeeping(kind: str, event: dict[str, Any]) -> bool:
    """A message that comes too late is refused: that is told, and begins nothing."""
    return kind in _BOOKKEEPING or (kind == "agent_message" and event.get("delivery") == "refused")
