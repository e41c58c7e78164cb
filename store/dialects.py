"""What differs between the event streams of sapwood and its relatives: one row each."""

from typing import Literal

import msgspec


class Dialect(msgspec.Struct, frozen=True):
    """A column of the table of dialects.

    `snapshots` "either": the message so far in each update, or with numbered messages only what is new. `nests_snapshots`:
    once more inside of the update's event.
    """

    snapshots: Literal["never", "always", "either"] = "never"
    nests_snapshots: bool = False
    queue_event: str = "queue_update"
    settles: bool = True
    is_native: bool = False
    leaves_tools_open: bool = False
    succeeds_anyway: bool = False


DIALECTS = {
    "native": Dialect(queue_event="session_action_update", is_native=True),
    "base-context": Dialect(
        snapshots="either", nests_snapshots=True, queue_event="session_action_update", settles=False
    ),
    "prime-agent": Dialect(
        snapshots="either",
        queue_event="session_action_update",
        settles=False,
        leaves_tools_open=True,
        succeeds_anyway=True,
    ),
    "selesai": Dialect(succeeds_anyway=True),
    "pi": Dialect(succeeds_anyway=True),
}
