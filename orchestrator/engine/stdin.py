"""What comes in on a descriptor that others may have open, too."""

import os

import trio

from orchestrator.engine.stdout import must_wait

READ_BYTES = 64 << 10


async def read_input(fd: int) -> bytes:
    """What comes next; empty at the end. We do not set O_NONBLOCK: the open file description belongs to others too."""
    while True:
        if must_wait(fd):
            await trio.lowlevel.wait_readable(fd)
        else:
            await trio.lowlevel.checkpoint()
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            continue  # somebody made the description non-blocking, and another reader was faster
        except OSError:
            return b""
