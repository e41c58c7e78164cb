"""What a tree spent, per level of the tree and per model: `sapwood usage --json`, folded in plain Python.

    python examples/costs.py              # the newest tree
    python examples/costs.py SESSION      # another one: id, its beginning or end, or name

A model without a known price costs nothing in the figures and is named: then the sums are lower bounds (≥). Fold `own`
only: `total` of a session holds already what is below it.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

TOKENS = ("input", "output", "cacheRead", "cacheWrite")
Node = dict[str, Any]


def dollars(usage: dict[str, Any]) -> Decimal:
    return Decimal(str(usage["cost"]["total"]))


def folded(nodes: list[Node], key: Callable[[Node], str]) -> dict[str, tuple[int, int, Decimal]]:
    """(sessions, tokens, dollars) of all nodes with the same key."""
    sums: dict[str, tuple[int, int, Decimal]] = defaultdict(lambda: (0, 0, Decimal(0)))
    for node in nodes:
        sessions, tokens, cost = sums[key(node)]
        own = node["own"]
        sums[key(node)] = (sessions + 1, tokens + sum(own[kind] for kind in TOKENS), cost + dollars(own))
    return sums


def main() -> None:
    done = subprocess.run(["sapwood", "usage", *sys.argv[1:], "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)  # it has said why on stderr
    report = json.loads(done.stdout)
    nodes: list[Node] = report["nodes"]
    unpriced = sorted({name for node in nodes for name in node["unpricedModels"]})
    sign = "≥ " if unpriced else ""
    for title, key in (
        ("level", lambda node: str(node["depth"])),
        ("model", lambda node: node["model"]),
    ):
        print(f"{title:<28} sessions   tokens  dollars")
        for name, (sessions, tokens, cost) in sorted(folded(nodes, key).items()):
            print(f"  {name:<26} {sessions:>8} {tokens:>8,}  {cost:.4f}")
    total = dollars(report["total"])
    print(f"sum {sign}{total:.4f} dollars, verified: {'yes' if report['verified'] else 'no'}")
    if unpriced:
        print(f"price unknown: {', '.join(unpriced)}")
    own = sum((dollars(node["own"]) for node in nodes), Decimal(0))
    if abs(own - total) > Decimal("1e-9"):
        sys.exit(f"the sessions' own costs make {own}, the report says {total}")


if __name__ == "__main__":
    main()
