"""`python -m tests.bench [NAMES…] [--quick] [--list]`: the table of what was promised, and what is measured here and now."""

import argparse
import sys
from collections.abc import Callable

from tests.bench import child, command, dashboard, folding, idle, lines, mail, store, streams, trees, views, watchers
from tests.bench.harness import Row, table

CASES: dict[str, Callable[[int], list[Row]]] = {
    "A1": mail.a1,
    "A2": mail.a2,
    "A3": mail.a3,
    "A4": child.a4,
    "A5": idle.a5,
    "A6": idle.a6,
    "B1": lines.b1,
    "B2": lines.b2,
    "B3": lines.b3,
    "B4": lines.b4,
    "B5": store.b5,
    "C1": store.c1,
    "C2": store.c2,
    "C3": store.c3,
    "C4": store.c4,
    "C5": store.c5,
    "C6": store.c6,
    "D1": folding.d1,
    "E1": streams.e1,
    "E2": streams.e2,
    "F1": command.f1,
    "F2": command.f2,
    "F3": command.f3,
    "G1": trees.g1,
    "G2": trees.g2,
    "G3": watchers.g3,
    "H1": views.h1,
    "H2": dashboard.h2,
}
ROUNDS, QUICK_ROUNDS = 7, 3


def told(name: str) -> str:
    """What a case is about, in one line."""
    return str(CASES[name].__doc__).partition("\n")[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in CASES]
    if unknown:
        parser.error(f"no case is named {', '.join(unknown)}; cases: {', '.join(CASES)}")
    names = given.names or list(CASES)
    if given.list:
        for name in names:
            print(f"{name}  {told(name)}")
        return 0
    rows: list[Row] = []
    for name in names:
        print(f"{name}: {told(name)} …", file=sys.stderr, flush=True)
        rows += CASES[name](QUICK_ROUNDS if given.quick else ROUNDS)
    for line in table(rows):
        print(line)
    missed = sum(row.is_met is False for row in rows)
    print(f"{missed} of {sum(row.is_met is not None for row in rows)} targets missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
