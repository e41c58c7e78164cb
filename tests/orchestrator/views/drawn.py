"""Drawings as plain text, for tests."""

from collections.abc import Sequence

from orchestrator.views.grid import Look, list_lines
from orchestrator.views.rows import AgentRow
from orchestrator.views.spans import Line, line_text
from orchestrator.views.usage_report import UsageReport
from orchestrator.views.usage_text import usage_lines


def texts(lines: Sequence[Line]) -> list[str]:
    return [line_text(line).rstrip() for line in lines]


def listed(rows: Sequence[AgentRow], width: int = 80, is_ascii: bool = False, now: float = 0.0) -> list[str]:
    return texts(list_lines(rows, Look(width, now, is_ascii)))


def usage_text(report: UsageReport, width: int = 120, is_ascii: bool = False) -> list[str]:
    return texts(usage_lines(report, Look(width, 0.0, is_ascii)))
