"""Ids and names of tool calls as one request can hold them."""

import hashlib
import re

import attrs

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 64


def fit_id(id: str) -> str:
    """`id` where a strict server takes it, else one made from it: a session may have begun with another provider."""
    return id if _ID.fullmatch(id) else hashlib.sha256(id.encode(errors="replace")).hexdigest()[:40]


def fit_name(name: str) -> str:
    """`name` where a strict server takes it: models call tools that do not exist, by names that cannot."""
    return _NOT_IN_NAMES.sub("_", name)[:_NAME_CHARS] or "unnamed"


@attrs.define
class CallIds:
    """No id twice in a request: some servers count their calls from 1 in each answer, and strict ones refuse that.

    Results stand behind the answer whose calls they belong to. The same history gives the same ids, so that the prompt
    stays in the provider's cache.
    """

    _used: set[str] = attrs.field(factory=set, init=False)
    _of_answer: dict[str, str] = attrs.field(factory=dict, init=False)

    def begin_answer(self) -> None:
        self._of_answer = {}

    def of_call(self, id: str) -> str:
        sent, number = fit_id(id), 1
        while sent in self._used:
            number += 1
            sent = fit_id(f"{id}_{number}")
        self._used.add(sent)
        self._of_answer[id] = sent
        return sent

    def of_result(self, id: str) -> str:
        return self._of_answer.get(id) or fit_id(id)
