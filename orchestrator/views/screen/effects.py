"""What a screen asks of the world around it."""

from typing import Literal

import msgspec


class Quit(msgspec.Struct, frozen=True):
    """Leave. Never ends an agent."""


class Suspend(msgspec.Struct, frozen=True):
    """To the shell and back, as with any program."""


class Copy(msgspec.Struct, frozen=True):
    """Into the clipboard of the terminal."""

    text: str


Verb = Literal["message", "answer", "steer", "abort", "stop", "rename", "archive", "unarchive"]


class Do(msgspec.Struct, frozen=True):
    """An action on a session. `text`: what is said, or the new name."""

    session_id: str
    verb: Verb
    text: str = ""


class Examine(msgspec.Struct, frozen=True):
    """Read what there is of a session, for its detail."""

    session_id: str


class TryNow(msgspec.Struct, frozen=True):
    """Do not wait with the next attempt to reach hosts that do not answer."""


class ShowEnded(msgspec.Struct, frozen=True):
    """Whether trees that ended long ago are wanted, too."""

    is_wanted: bool


Effect = Quit | Suspend | Copy | Do | Examine | TryNow | ShowEnded
