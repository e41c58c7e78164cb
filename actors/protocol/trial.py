"""What a root has to stand before its run may end well: gates, and with autonomy its own word that the task is done."""

from typing import Annotated

import msgspec

DONE = "TASK COMPLETE"
GATE_MARK = "sapwood.gate"
CONTINUATION_MARK = "sapwood.continuation"
# What models put around a line, in Markdown or out of enthusiasm.
_DRESS = " \t\r*_`#>.!-"

_Count = Annotated[int, msgspec.Meta(ge=0)]


class GatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shell commands that have to exit with 0, one after the other. `retries`: failures in a run that the model may mend."""

    commands: tuple[Annotated[str, msgspec.Meta(pattern=r"\S")], ...] = ()
    retries: _Count = 3
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0


class AutonomyPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nobody is there to answer: the model is told to go on until it has done its task. A `goal` is what it is held to."""

    enabled: bool = False
    max_continuations: _Count = 3
    goal: str | None = None

    @property
    def is_on(self) -> bool:
        return self.enabled or self.goal is not None


class GateFailure(msgspec.Struct, frozen=True):
    """A gate that did not pass. `text`: its bounded output, and how it ended."""

    command: str
    text: str


class Trial(msgspec.Struct, frozen=True):
    """How far a run has come. `passed`: gates since anything was done last; `failures` of gates and `continuations` in all.

    `failure`: the gate that failed just now.
    """

    passed: int = 0
    failures: int = 0
    continuations: int = 0
    failure: GateFailure | None = None

    @property
    def outdated(self) -> "Trial":
        """After more work: what passed before says nothing any more, and what failed is told."""
        return Trial(0, self.failures, self.continuations)


def says_done(answer: str) -> bool:
    """Whether the last line of an answer is the word, however it is dressed up."""
    plain = (line.strip(_DRESS) for line in reversed(answer.split("\n")))
    return next(filter(None, plain), "") == DONE


def autonomy_text(policy: AutonomyPolicy) -> str:
    """What the model of an autonomous run is told before anything else."""
    goal = "" if policy.goal is None else f"The goal of this session:\n{policy.goal}\n\n"
    return (
        f"{goal}You work on your own: nobody reads along, and nobody answers questions. Where something is left open, make a"
        " sensible assumption, say so, and check it. Stop only when everything that was asked for is done and you have"
        f" verified it; then end your last message with a line that says {DONE} and nothing else."
    )
