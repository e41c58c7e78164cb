"""Whether a root may settle: the gates come first, and before them, where only the model can know, its word that it is done."""

from actors.protocol.questions import Check, FollowUp, MaySettle, Refuse, Settle
from actors.protocol.trial import (
    CONTINUATION_MARK,
    DONE,
    GATE_MARK,
    AutonomyPolicy,
    GatePolicy,
    Trial,
    says_done,
)

Verdict = Settle | Check | FollowUp | Refuse


def may_settle(gates: GatePolicy, autonomy: AutonomyPolicy, question: MaySettle) -> Verdict:
    """What comes before the end of a run that would end well. Every follow-up is counted, so this comes to an end.

    Gates are evidence enough that a task is done. A goal is more than its gates, so there the model has to say it, too.
    """
    trial, root = question.trial, question.session_id
    if trial.failure is not None:
        return _after_failure(gates, trial, root)
    needs_word = autonomy.is_on and (autonomy.goal is not None or not gates.commands)
    if needs_word and not says_done(question.answer):
        return _go_on(autonomy, trial, root)
    if trial.passed < len(gates.commands):
        return Check(gates.commands[trial.passed], gates.timeout_s)
    return Settle(autonomy.goal)


def _after_failure(gates: GatePolicy, trial: Trial, root: str) -> FollowUp | Refuse:
    failure = trial.failure
    assert failure is not None
    if trial.failures > gates.retries:
        last_line = failure.text.rstrip().rpartition("\n")[2][:200]
        times = "once" if trial.failures == 1 else f"{trial.failures} times in this run"
        reason = (
            f"a gate failed {times}, and --gate-retries is {gates.retries}; "
            f"the last one was `{failure.command}`: {last_line}"
        )
        return Refuse("gate_retries", trial.failures, gates.retries, root, reason)
    left = gates.retries - trial.failures
    text = (
        f"The gate `{failure.command}` failed:\n\n{failure.text}\n\n"
        f"Your work is finished only when this command succeeds. Find the cause and mend it, then end your turn: the gates are "
        f"run again. After this, {left} more failed {'try is' if left == 1 else 'tries are'} allowed."
    )
    return FollowUp(GATE_MARK, text)


def _go_on(autonomy: AutonomyPolicy, trial: Trial, root: str) -> FollowUp | Refuse:
    allowed = autonomy.max_continuations
    if trial.continuations >= allowed:
        reason = (
            f"the model was told {trial.continuations} times to go on and has not said that it is done; "
            "allow more with --max-continuations"
        )
        return Refuse("max_continuations", trial.continuations + 1, allowed, root, reason)
    goal = "" if autonomy.goal is None else f"The goal of this session is not reached yet:\n{autonomy.goal}\n\n"
    text = (
        f"{goal}You have stopped without saying that you are done, and nobody is here to answer. Go on with the task: decide open "
        "questions yourself, say what you assumed, and verify what you did. If you are stuck, find out why, and try another way. "
        f"When everything is done and verified, end your message with a line that says {DONE} and nothing else. "
        f"(Continuation {trial.continuations + 1} of {allowed}.)"
    )
    return FollowUp(CONTINUATION_MARK, text)
