"""How children stand, as text for a model: fair shares of the bound, and never an empty success."""

from collections.abc import Sequence

from actors.protocol.tools import ChildReport
from orchestrator.tools.output import MAX_BYTES, MAX_LINES, HeadTail
from orchestrator.tools.spill import NOTE_BYTES, NOTE_LINES, Capture

# What the lines around each text may take.
_FRAME_BYTES = 512
_FRAME_LINES = 4
_LEAST_BYTES = 256


def report_title(report: ChildReport) -> str:
    turns = f"{report.turns} turn{'' if report.turns == 1 else 's'}"
    return f"## {report.name}: {report.outcome or 'still running'} ({turns}, session {report.session_id})"


def report_body(report: ChildReport) -> str:
    """The error, if any, and the text; where there is none, it says so."""
    error = f"error: {report.error_message}\n" if report.error_message else ""
    if not report.text.strip():
        return error + ("(no text)" if report.outcome else "(no text yet)")
    return error + (report.text if report.outcome else f"so far:\n{report.text}")


def bounded_texts(texts: Sequence[str], labels: Sequence[str], folder: str) -> list[str]:
    """The texts, together within the bound of a tool's output. One that is cut is whole in a file of `folder`."""
    count = max(1, len(texts))
    room_bytes = MAX_BYTES - NOTE_BYTES - count * _FRAME_BYTES
    bytes_shares = fair_shares([len(text.encode()) for text in texts], room_bytes)
    lines_shares = fair_shares([text.count("\n") + 1 for text in texts], MAX_LINES - NOTE_LINES - count * _FRAME_LINES)
    shares = zip(texts, labels, bytes_shares, lines_shares, strict=True)
    return [
        _bounded(text, label, folder, max(_LEAST_BYTES, size), max(2, lines)) for text, label, size, lines in shares
    ]


def _bounded(text: str, label: str, folder: str, max_bytes: int, max_lines: int) -> str:
    capture = Capture(folder, label, shown=HeadTail(max_bytes, max_lines))
    try:
        capture.add(text.encode())
        return capture.finish().text
    finally:
        capture.close()


def fair_shares(wants: Sequence[int], room: int) -> list[int]:
    """Divide `room`: who wants less than an even share gets it all, and what that leaves goes to the others."""
    shares = [0] * len(wants)
    for place, index in enumerate(sorted(range(len(wants)), key=wants.__getitem__)):
        shares[index] = max(0, min(wants[index], room // (len(wants) - place)))
        room -= shares[index]
    return shares
