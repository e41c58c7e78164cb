"""G1 and G2: what the children of whole commands cost."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.command import SAPWOOD
from tests.bench.harness import Row, beside

LOT = 50
MIB = 1024.0  # KiB, as `ru_maxrss` has them
ANSWER = '[[reply]]\ntext = "fine"\nusage = { input = 100, output = 10 }\n'


def script(children: int) -> str:
    """The root starts so many, a lot at a time, and waits for each lot."""
    parts = []
    for place, begin in enumerate(range(0, children, LOT), start=1):
        parts.append(f"[[reply]]\ndepth = 0\ncall = {place}\n")
        parts += [
            f'[[reply.tool]]\nname = "spawn_agent"\narguments = {{ name = "c{number}", prompt = "go", wait = true }}\n'
            for number in range(begin, min(begin + LOT, children))
        ]
    return "".join([*parts, ANSWER])


# Runs a command and tells its CPU seconds and peak KiB. From a small process of its own: what a process begins with counts as
# its peak, and this one has other cases behind it.
MEASURED = """
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet), 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def command(children: int, *options: str) -> tuple[float, float]:
    """CPU seconds and peak KiB of a `sapwood run`, children of its process included."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.toml").write_text(script(children), "utf-8")
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "SAPWOOD_HOME": f"{folder}/home"}
        words: Sequence[str] = (
            SAPWOOD,
            "-m",
            "scripted/script.toml",
            "--max-children",
            "5000",
            "--max-spawns-per-minute",
            "5000",
            *options,
            "go",
        )
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *words],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            text=True,
        )
        cpu_s, peak_kib = done.stdout.split()
        return float(cpu_s), float(peak_kib)


def g1(rounds: int) -> list[Row]:
    """a run with 16 children that have kernels and use none"""
    figures = [command(16) for _ in range(rounds)]
    cpu_s, mib = min(cpu for cpu, _ in figures), min(kib for _, kib in figures) / MIB
    return [
        Row("G1 16 children, CPU", "<= 1.5 s", f"{cpu_s:.2f} s", f"{cpu_s:.2f} s", "", cpu_s <= 1.5),
        Row("G1 16 children, memory", "<= 120 MiB", f"{mib:.0f} MiB", f"{mib:.0f} MiB", "", mib <= 120),
    ]


def g2(rounds: int) -> list[Row]:
    """1,000 small children under one root, against 100"""
    few, many = ([command(count) for _ in range(min(rounds, 3))] for count in (100, 1_000))
    kib = (min(kib for _, kib in many) - min(kib for _, kib in few)) / 900
    cpu_few, cpu_many = (min(cpu for cpu, _ in figures) for figures in (few, many))
    return [
        # About a third of it is the ring of the stream for late readers, which grows to 8 MiB and no further.
        Row("G2 each further settled child", "<= 32 KiB", f"{kib:.1f} KiB", f"{kib:.1f} KiB", "", kib <= 32),
        beside("G2 CPU of 1,000 children", cpu_many, cpu_few, "100 children"),
    ]
