"""The supervisor's decisions: a pure function of the tree and a question."""

import difflib

import msgspec

from actors.protocol.budgets import Used
from actors.protocol.claims import Answered, Budgets
from actors.protocol.compaction import MAX_PASSES, CompactionPolicy
from actors.protocol.limits import RESTARTS, SPAWN_WINDOW_S, Limits, recent
from actors.protocol.questions import (
    Admit,
    CallFailed,
    Compact,
    Crashed,
    Directive,
    Escalate,
    GiveUp,
    Go,
    MayCall,
    MaySettle,
    MaySpawn,
    Question,
    Refuse,
    Restart,
    RetryAfter,
    Settle,
    StandBy,
    SwitchModel,
)
from actors.protocol.retry import RetryPolicy, retry_delay
from actors.protocol.settling import may_settle
from actors.protocol.trial import AutonomyPolicy, GatePolicy

# What another model may not suffer from.
FALLBACK_KINDS = frozenset({"overloaded", "rate_limited", "quota", "server"})


# What a wait may mend, if the provider says how long.
RESETTING_KINDS = frozenset({"overloaded", "rate_limited", "quota"})
RESET_SPREAD_S = 5.0


Answers = tuple[Answered, ...]


class Member(msgspec.Struct, frozen=True):
    """What the supervisor knows of a session when it decides."""

    depth: int
    model: str
    children: frozenset[str] = frozenset()
    crashes: tuple[float, ...] = ()


class TreeState(msgspec.Struct, frozen=True):
    """Counters of one tree. `children` counts all that were ever spawned below the root, `spawned`: when the latest were, by id.

    `budgets`: who may spend what.

    `models`: the names that a child may be given; empty: any.
    """

    root_id: str
    limits: Limits
    retry: RetryPolicy
    members: dict[str, Member]
    children: int = 0
    spawned: dict[str, float] = {}
    budgets: Budgets = Budgets()
    models: frozenset[str] = frozenset()
    compaction: CompactionPolicy = CompactionPolicy()
    fallback_model: str | None = None
    describer: str | None = None
    waits_for_reset: bool = False
    gates: GatePolicy = GatePolicy()
    autonomy: AutonomyPolicy = AutonomyPolicy()

    def with_member(self, session_id: str, member: Member) -> "TreeState":
        return msgspec.structs.replace(self, members={**self.members, session_id: member})


class Draw(msgspec.Struct, frozen=True):
    """What the shell draws for a decision: the time (Unix seconds), a random number in [0, 1), a fresh session id."""

    at: float
    jitter: float
    session_id: str


def decide(tree: TreeState, question: Question, draw: Draw) -> tuple[TreeState, Directive]:
    """The tree after the decision, and the decision."""
    match question:
        case MayCall():
            if tree.waits_for_reset and question.paused_until > draw.at:
                return tree, RetryAfter(question.paused_until - draw.at, 1, tree.retry.max_retries)
            return _may_call(tree, question)
        case CallFailed():
            if question.failure.kind == "overflow" and question.may_compact and tree.compaction.enabled:
                return tree, Compact("overflow")
            return _call_failed(tree, question, draw)
        case MaySpawn():
            return _may_spawn(tree, question, draw)
        case MaySettle():
            return _may_settle(tree, question)
        case Crashed():
            return _crashed(tree, question, draw)


def _may_call(tree: TreeState, question: MayCall) -> tuple[TreeState, Directive]:
    budgets, directive = tree.budgets.asked(question)
    if isinstance(directive, Go | StandBy) and question.passes is not None:
        full = _if_full(tree, question, question.passes)
        if full is not None:
            return tree, full
    return msgspec.structs.replace(tree, budgets=budgets), directive


def _if_full(tree: TreeState, question: MayCall, passes: int) -> Compact | Refuse | None:
    """What is to be done about a context that leaves too little room for an answer, after so many summaries."""
    if not tree.compaction.is_full(question.context_tokens, question.window):
        return None
    answered = question.answered_tokens
    # An answer from a context that was small enough: the summaries before it have helped, and count no more.
    has_helped = answered is not None and not tree.compaction.is_full(answered, question.window)
    if has_helped or passes < MAX_PASSES:
        return Compact("threshold", 0 if has_helped else passes)
    room = question.window - tree.compaction.reserve(question.window)
    reason = (
        f"the context holds about {question.context_tokens} tokens after {passes} summaries, and {room} fit; "
        "use a model with a larger window, shorter instructions, or less [compaction] keep_recent_tokens"
    )
    return Refuse("context", question.context_tokens, room, question.session_id, reason)


def call_made(tree: TreeState, claim: int) -> TreeState:
    """The call that was granted is made now."""
    return msgspec.structs.replace(tree, budgets=tree.budgets.made(claim))


def call_ended(tree: TreeState, session_id: str, claim: int, used: Used | None) -> tuple[TreeState, Answers]:
    """A call has ended, or was never made (`used` None); and what those are told who stood by for it."""
    budgets, answers = tree.budgets.ended(session_id, claim, used)
    return msgspec.structs.replace(tree, budgets=budgets), answers


def withdrawn(tree: TreeState, session_id: str) -> tuple[TreeState, Answers]:
    """The session wants no call any more; and what those are told who stood by behind it."""
    budgets, answers = tree.budgets.withdrawn(session_id)
    return msgspec.structs.replace(tree, budgets=budgets), answers


def disowned(tree: TreeState, parent_id: str, admitted: Admit) -> TreeState:
    """A child that was admitted and then not wanted was never there: its name is free, and it counts no more."""
    parent = tree.members[parent_id]
    members = {one: member for one, member in tree.members.items() if one != admitted.session_id}
    members[parent_id] = msgspec.structs.replace(parent, children=parent.children - {admitted.name})
    spawned = {one: at for one, at in tree.spawned.items() if one != admitted.session_id}
    return msgspec.structs.replace(
        tree,
        members=members,
        budgets=tree.budgets.closed(admitted.session_id),
        children=tree.children - 1,
        spawned=spawned,
    )


def _call_failed(tree: TreeState, question: CallFailed, draw: Draw) -> tuple[TreeState, Directive]:
    delay = retry_delay(tree.retry, question.retry + 1, question.failure, draw.jitter)
    if delay is None and tree.waits_for_reset and question.failure.kind in RESETTING_KINDS:
        # However long it is: somebody asked for that. A little later than told, and not all at the same moment.
        told = question.failure.retry_after_s
        delay = None if told is None else told + draw.jitter * RESET_SPREAD_S
    if delay is not None:
        return tree, RetryAfter(delay, question.retry + 1, tree.retry.max_retries)
    member, fallback = tree.members[question.session_id], tree.fallback_model
    if fallback is not None and member.model != fallback and question.failure.kind in FALLBACK_KINDS:
        return tree.with_member(question.session_id, msgspec.structs.replace(member, model=fallback)), SwitchModel(
            fallback
        )
    return tree, GiveUp()


def _may_spawn(tree: TreeState, question: MaySpawn, draw: Draw) -> tuple[TreeState, Directive]:
    parent = tree.members[question.session_id]
    request = question.request
    depth, limits = parent.depth + 1, tree.limits
    if depth > limits.max_depth:
        return tree, _refused(tree, "max_depth", depth, limits.max_depth, "levels of children", "--max-depth")
    if tree.children >= limits.max_children:
        asked = tree.children + 1
        return tree, _refused(tree, "max_children", asked, limits.max_children, "children in all", "--max-children")
    spawned = {child: at for child, at in tree.spawned.items() if draw.at - SPAWN_WINDOW_S < at <= draw.at}
    if len(spawned) >= limits.max_spawns_per_minute:
        asked, most = len(spawned) + 1, limits.max_spawns_per_minute
        return tree, _refused(
            tree, "max_spawns_per_minute", asked, most, "children in a minute", "--max-spawns-per-minute"
        )
    name = request.name or _free_name(parent.children, tree.children + 1)
    if name in parent.children:
        reason = f"a child named {name!r} is there already; choose another name"
        return tree, Refuse("name", 2, 1, question.session_id, reason)
    model = request.model or parent.model
    unknown = question.unknown_model or _unlisted(tree, model)
    if unknown is not None:
        return tree, Refuse("model", 1, 0, question.session_id, unknown)
    granted = tree.budgets.granted(question.session_id, model, request.limits, is_priced=question.is_priced)
    if isinstance(granted, Refuse):
        return tree, granted
    tree = tree.with_member(question.session_id, msgspec.structs.replace(parent, children=parent.children | {name}))
    tree = tree.with_member(draw.session_id, Member(depth, model))
    budgets = tree.budgets.opened(draw.session_id, name, question.session_id, granted)
    spawned[draw.session_id] = draw.at
    tree = msgspec.structs.replace(tree, children=tree.children + 1, spawned=spawned, budgets=budgets)
    return tree, Admit(draw.session_id, name, depth, model, granted)


def _unlisted(tree: TreeState, model: str) -> str | None:
    """Why a child cannot have this model, if there is a list and it is not on it."""
    if not tree.models or model in tree.models:
        return None
    near = difflib.get_close_matches(model, sorted(tree.models), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no model is named {model!r}{hint} Models: {', '.join(sorted(tree.models)[:10])}"


def _refused(tree: TreeState, limit: str, value: int, allowed: int, what: str, option: str) -> Refuse:
    reason = f"refused: this would make {value} {what}, and the limit ({limit}) is {allowed}; raise it with {option}"
    return Refuse(limit, value, allowed, tree.root_id, reason)


def _free_name(taken: frozenset[str], number: int) -> str:
    while f"agent-{number}" in taken:
        number += 1
    return f"agent-{number}"


def _may_settle(tree: TreeState, question: MaySettle) -> tuple[TreeState, Directive]:
    verdict = may_settle(tree.gates, tree.autonomy, question)
    if isinstance(verdict, Settle) and verdict.goal is not None:
        # It is reached: what comes later is not held to it.
        return msgspec.structs.replace(tree, autonomy=msgspec.structs.replace(tree.autonomy, goal=None)), verdict
    return tree, verdict


def _crashed(tree: TreeState, question: Crashed, draw: Draw) -> tuple[TreeState, Directive]:
    member = tree.members[question.session_id]
    crashes = recent(member.crashes, draw.at)
    tree = tree.with_member(question.session_id, msgspec.structs.replace(member, crashes=crashes))
    if len(crashes) > RESTARTS.most:
        return tree, Escalate(f"it crashed {len(crashes)} times in {RESTARTS.window_s:.0f} s")
    return tree, Restart()
