"""What follows for a session from a setting that was written into it."""

from actors.directory import Row
from actors.protocol.effects import Setting
from actors.supervisor import Supervisor
from store.entries import ModelChangeEntry, ServiceTierChangeEntry, SessionInfoEntry, ThinkingLevelChangeEntry


def heed(supervisor: Supervisor, row: Row, setting: Setting) -> None:
    """From the next request on. Children that are spawned later inherit it."""
    match setting:
        case ModelChangeEntry():
            row.model = f"{setting.provider}/{setting.model_id}"
            supervisor.use_model(row)
        case ThinkingLevelChangeEntry():
            row.thinking = setting.thinking_level
        case ServiceTierChangeEntry():
            row.service_tier = setting.service_tier
        case SessionInfoEntry() if row.parent is None and setting.name:
            # A child is known to its family by the name that it was born with.
            row.name, row.is_named = setting.name, True
