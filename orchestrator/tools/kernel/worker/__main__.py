"""The process in which cells run. The folder needs the standard library alone, of any Python from 3.8 on: the project's own
interpreter runs it, which knows nothing of ours.

    python -u worker IN OUT LIFE CONFIG

JSON lines come in by the descriptor IN and go out by OUT; LIFE ends when the host does. The other ends are in `../link.py`.
Descriptor 0 is empty, 1 and 2 are one pipe that the host reads: so what C code and child processes write is heard too, no
thread of ours can stand in its way, and the last words of a killed process are not lost. Results and tracebacks go that
way as well.

Cells run in the main thread. One asyncio loop lives as long as the process: it turns between the cells, so that tasks of
one cell go on after it, and in those that `await`. All others run outside of it: there `asyncio.run` works.
"""

from __future__ import annotations

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Before all else: a file beside this one, or in the project, must not stand in for a module of the standard library.
if sys.path and os.path.abspath(sys.path[0]) == HERE:
    del sys.path[0]

import importlib  # noqa: E402
import types  # noqa: E402

NAME = "_sapwood_worker"
"""What the folder is imported as: it is nowhere on `sys.path`."""

if __name__ == "__main__":
    package = sys.modules[NAME] = types.ModuleType(NAME)
    package.__path__ = [HERE]
    importlib.import_module(NAME + ".process").main()
