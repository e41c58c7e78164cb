"""The measurements can be started. What they say is for `make bench`: no test fails on a time."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )


def test_the_cases_are_listed_with_what_they_measure() -> None:
    done = bench("--list")

    assert (done.returncode, done.stderr) == (0, "")
    cases = dict(line.split("  ", 1) for line in done.stdout.strip().split("\n"))
    assert set(cases) >= {"A1", "A2", "A3", "A4", "A5", "B1", "B2", "D1", "F1", "F2", "F3"}
    assert all(cases.values())


def test_a_case_that_is_not_there_is_refused_by_name() -> None:
    done = bench("Z9", "--quick")

    assert done.returncode == 2
    assert "no case is named Z9" in done.stderr
