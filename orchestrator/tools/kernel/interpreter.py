"""Which Python runs the cells, what it sees, and what it may use."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs

GIB = 1024**3


@attrs.frozen
class KernelLimits:
    """Resource limits of the process and of all that it starts, each as setrlimit has it. They catch what runs away.

    Address space is generous, since programs reserve far more than they use. `processes` are all of the user's, and do
    not bind root.
    """

    address_space_bytes: int = max(64 * GIB, 4 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    file_bytes: int = 64 * GIB
    processes: int = 8192

    def as_rlimits(self) -> dict[str, int]:
        return {
            "AS": self.address_space_bytes,
            "FSIZE": self.file_bytes,
            "NPROC": self.processes,
            "CORE": 0,
        }


@attrs.frozen
class KernelSettings:
    """`python`: as configured (`kernel.python`), None for the usual search. `is_rich`: with IPython where it is there."""

    python: str | None = None
    is_rich: bool = True
    limits: KernelLimits = KernelLimits()


def pythons(settings: KernelSettings, env: Mapping[str, str], cwd: str) -> list[str]:
    """Interpreters to try in turn. What a person has chosen stands alone, the project's own comes before sapwood's."""
    chosen = settings.python or env.get("SAPWOOD_KERNEL_PYTHON")
    if chosen:
        return [os.path.join(cwd, os.path.expanduser(chosen)) if os.sep in chosen else chosen]
    folders = [env.get("VIRTUAL_ENV", ""), os.path.join(cwd, ".venv")]
    found = [os.path.join(folder, "bin", "python") for folder in folders if folder]
    usable = [path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)]
    return list(dict.fromkeys([*usable, sys.executable]))


def kernel_env(env: Mapping[str, str], python: str, artifact_dir: str) -> dict[str, str]:
    """The whole environment. Commands of the project's virtual environment are found first, as after its activation."""
    seen = {**env, "SAPWOOD_SCRATCH": str(scratch_folder(artifact_dir))}
    folder = os.path.dirname(python)
    if python != sys.executable and os.path.isfile(os.path.join(folder, os.pardir, "pyvenv.cfg")):
        seen["VIRTUAL_ENV"] = os.path.dirname(folder)
        seen["PATH"] = os.pathsep.join([folder, *filter(None, [env.get("PATH")])])
    return seen


def scratch_folder(artifact_dir: str) -> Path:
    """The session's own place for files of no lasting worth, so that siblings do not overwrite each other's."""
    return Path(artifact_dir, "scratch")
