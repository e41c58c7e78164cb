"""What differs between the event streams of sapwood and its relatives: one row each."""

from typing import Literal

import msgspec


class Dialect(msgspec.Struct, frozen=True):
    """A column of the table of dialects."""

    snapshots: Literal["never", "always", "either"] = "never"
    queue_event: str = "queue_update"
    settles: bool = True
    is_native: bool = False
    leaves_tools_open: bool = False
    succeeds_anyway: bool = False


DIALECTS = {
    "native": Dialect(queue_event="session_action_update", is_native=True),
    "base-context": Dialect(snapshots="either", queue_event="session_action_update", settles=False),
    "prime-agent": Dialect(
        snapshots="always",
        queue_event="session_action_update",
        settles=False,
        leaves_tools_open=True,
        succeeds_anyway=True,
    ),
    "selesai": Dialect(succeeds_anyway=True),
    "pi": Dialect(succeeds_anyway=True),
}
