"""What becomes of stdout when nobody takes it any more."""

import os
import sys
from typing import NoReturn

from orchestrator.engine.status import READER_GONE


def leave() -> NoReturn:
    """The reader of stdout went away (`| head -1`): end without a word."""
    drop_stdout()
    sys.exit(READER_GONE)


def drop_stdout() -> None:
    """At exit Python would flush it once more, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
