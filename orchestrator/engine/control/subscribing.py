"""The beginning of a subscription: what stands, or what was missed, and then everything as it happens."""

from collections.abc import Iterable

from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Followed, snapshot
from orchestrator.engine.control.audience import Audience, Subscription
from orchestrator.engine.control.outgoing import Target
from orchestrator.engine.planted import Planted


def subscribe(
    request: requests.Subscribe, target: Target, audience: Audience, trees: Iterable[Planted], now: float
) -> Followed:
    """The connection's subscription from now on, in place of the one that it had.

    Trees whose cursor is good go on from it, with no line missed or twice; of the others all rows are shown. `seqs` of the
    answer: per root, the number behind which lines follow.
    """
    audience.leave(target)
    target.forget_lines()
    subscription = Subscription(target, request.session_id, None if request.types is None else frozenset(request.types))
    covered = [planted for planted in trees if subscription.covers(planted.feed)]
    seqs: dict[str, int] = {}
    snapshots: list[bytes] = []
    missed: list[bytes] = []
    for planted in covered:
        ring = planted.feed.ring
        since = _cursor(request.since, audience.generation, planted.root_id, is_only=len(covered) == 1)
        if since is not None and ring.holds_all_after(since):
            seqs[planted.root_id] = since
            missed += subscription.wanted(planted.feed, ring.after(since))
        else:
            seqs[planted.root_id] = ring.seq
            snapshots += [
                snapshot(audience.generation, row) for row in subscription.shown(planted.feed, planted.rows(now))
            ]

    def begin() -> None:
        for line in (*snapshots, *missed):
            target.say(line)
        audience.subscriptions.append(subscription)

    return Followed({"generation": audience.generation, "seqs": seqs, "rows": len(snapshots)}, begin)


def _cursor(since: requests.Since | None, generation: str, root_id: str, *, is_only: bool) -> int | None:
    if since is None or since.generation != generation:
        return None
    if since.seqs is not None:
        return since.seqs.get(root_id)
    return since.seq if is_only else None
