"""What bounds a tree. Held at the root; a child may be given less, never more."""

import msgspec


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`max_children` counts all descendants of a root over its life; above `max_live_children` a child waits for a slot.

    `max_turns` counts the model calls of one invocation, those of retries and summaries too, but no last turn that hands back;
    None: no limit. `max_spawns_per_minute` stops who only spawns, also where many children are allowed.
    """

    max_depth: int = 2
    max_live_children: int = 16
    max_children: int = 128
    max_turns: int | None = None
    max_spawns_per_minute: int = 600


SPAWN_WINDOW_S = 60.0


class Restarts(msgspec.Struct, frozen=True):
    """More than `most` crashes in `window_s` end the session."""

    most: int = 3
    window_s: float = 60.0


RESTARTS = Restarts()


def recent(crashes: tuple[float, ...], at: float, restarts: Restarts = RESTARTS) -> tuple[float, ...]:
    """The crashes that still count at `at`, this one included. A clock that went backwards keeps them."""
    return (*(crash for crash in crashes if at - crash < restarts.window_s), at)
