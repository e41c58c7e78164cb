"""How children stand, as text for a model: fair shares of the bound, and never an empty success."""

from collections.abc import Sequence

from actors.protocol.tools import ChildReport
from orchestrator.tools.output import MAX_BYTES, MAX_LINES, HeadTail
from orchestrator.tools.spill import NOTE_BYTES, NOTE_LINES, Capture

# What the lines around each text may take.
_FRAME_BYTES = 512
_FRAME_LINES = 4
_LEAST_BYTES = 256
_LEAST_LINES = 2


def reports_text(reports: Sequence[ChildReport], call_id: str, folder: str) -> str:
    """One block per child, all within the bound of a tool's output. What is cut is whole in a file of `folder`."""
    count = max(1, len(reports))
    bodies = [report_body(report) for report in reports]
    room_bytes, room_lines = MAX_BYTES - 2 * NOTE_BYTES, MAX_LINES - 2 * NOTE_LINES
    shares = zip(
        fair_shares([len(body.encode()) for body in bodies], room_bytes - count * _FRAME_BYTES),
        fair_shares([body.count("\n") + 1 for body in bodies], room_lines - count * _FRAME_LINES),
        strict=True,
    )
    blocks = []
    for report, body, (size, lines) in zip(reports, bodies, shares, strict=True):
        shown = HeadTail(max(_LEAST_BYTES, size), max(_LEAST_LINES, lines))
        blocks.append(f"{report_title(report)}\n{_bounded(body, f'{report.name}-{call_id}', folder, shown)}")
    # Very many children do not fit even with the least of each.
    return _bounded("\n\n".join(blocks), f"agents-{call_id}", folder, HeadTail(room_bytes, room_lines))


def report_title(report: ChildReport) -> str:
    turns = f"{report.turns} turn{'' if report.turns == 1 else 's'}"
    return f"## {report.name}: {report.outcome or 'still running'} ({turns}, session {report.session_id})"


def report_body(report: ChildReport) -> str:
    """The error, if any, and the text; where there is none, it says so."""
    error = f"error: {report.error_message}\n" if report.error_message else ""
    if not report.text.strip():
        return error + ("(no text)" if report.outcome else "(no text yet)")
    return error + (report.text if report.outcome else f"so far:\n{report.text}")


def _bounded(text: str, label: str, folder: str, shown: HeadTail) -> str:
    capture = Capture(folder, label, shown=shown)
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
