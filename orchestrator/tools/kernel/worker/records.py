"""What the host tells, as those who write cells see it."""

from __future__ import annotations

from typing import Any, ClassVar


class Record:
    """What the host tells, by attribute or by key."""

    aliases: ClassVar[dict[str, str]] = {}

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        if name in self.aliases:
            return getattr(self, self.aliases[name])
        known = ", ".join(key for key in self.__dict__ if not key.startswith("_"))
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {known}")

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self, key)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __repr__(self) -> str:
        members = ((key, value) for key, value in self.__dict__.items() if value not in (None, "", [], ()))
        return "{}({})".format(type(self).__name__, ", ".join("{}={!r}".format(*member) for member in members))


class Agent(Record):
    """One of the family. `status` is `running` until it has settled; then it is the outcome."""

    aliases: ClassVar[dict[str, str]] = {"session_name": "name", "relationship": "role", "rlm_child_id": "session_id"}


class Model(Record):
    """`selector` is what `rlm(…, model=…)` takes."""


class Receipt(Record):
    aliases: ClassVar[dict[str, str]] = {
        "deliveryStatus": "delivery",
        "delivery_status": "delivery",
        "id": "message_id",
    }


class Result(Record):
    """How a child stands. `ok`: it completed. While it is `running`, `text` is what there is so far."""

    @property
    def ok(self) -> bool:
        return bool(self.outcome == "completed")

    def __str__(self) -> str:
        if self.ok:
            return str(self.text)
        why = ": " + self.error_message if self.error_message else ""
        return f"[{self.status}{why}] {self.text}".rstrip()


class Results(list):  # type: ignore[type-arg]  # list[Result] is not there in 3.8
    """Of several children, and why the wait ended: settled, timeout, message."""

    ended = "settled"
