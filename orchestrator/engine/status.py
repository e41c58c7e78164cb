"""Exit statuses: signal > 4 > 3 > 1 > 0.

0    the root's last assistant message ended well
1    it ended in an error or abort, or closing records could not be written
2    wrong usage
3    a limit stopped the run
4    the session is owned by another process, or its journal is damaged
129, 130, 143  SIGHUP, SIGINT, SIGTERM
141  the reader of stdout went away
"""

READER_GONE = 141
_BY_OUTCOME = {"completed": 0, "limit_reached": 3, "timed_out": 3}


def exit_status(
    outcome: str, *, signal: int | None = None, reader_gone: bool = False, failure: str | None = None
) -> int:
    """The status of a run that ended with this outcome. An outcome that we do not know is no success."""
    if signal is not None:
        return 128 + signal
    if reader_gone:
        return READER_GONE
    status = _BY_OUTCOME.get(outcome, 1)
    return 1 if failure is not None and status == 0 else status
