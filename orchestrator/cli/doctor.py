"""`sapwood doctor`: what is wrong with the home, and, asked to, its mending."""

import sys
import time
from collections.abc import Iterator

import click
import msgspec

from orchestrator.cli.common import AS_JSON, echo_json, echo_lines, home_from_env, told
from orchestrator.cli.run import work_folder
from orchestrator.engine.doctor import Ailment, ailments
from orchestrator.engine.errors import EngineError
from orchestrator.views.text import one_line
from store.errors import StoreError

HELP = """Find what is left of processes that are gone, and what cannot be read: sockets, locks, lost sessions, a broken
catalog, journals that show damage, a wrong configuration. Exit status 1 if something is wrong in the end.

It only looks, unless it is told to mend. Journals are read whole by `sapwood sessions check`.

\b
  sapwood doctor
  sapwood doctor --fix"""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of an ailment. `trouble`: why it could not be mended."""

    part: str
    text: str
    advice: str
    mendable: bool
    mended: bool = False
    trouble: str | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    home: str
    sound: bool
    findings: list[Finding]


@click.command(help=HELP)
@click.option("--fix", "is_mending", is_flag=True, help="Mend what can be mended.")
@AS_JSON
@told
def command(is_mending: bool, as_json: bool) -> None:
    """Look, mend, tell."""
    home = home_from_env()
    found: list[Finding] = []
    for ailment in ailments(home, work_folder(None), time.time):
        finding = _mended(ailment) if is_mending and ailment.mend is not None else _finding(ailment)
        found.append(finding)
        if not as_json:
            echo_lines(_lines(finding))
    left = [finding for finding in found if not finding.mended]
    if as_json:
        echo_json(Verdict(home=str(home.root), sound=not left, findings=found))
    else:
        echo_lines([_summary(found, left, is_mending)])
    if left:
        sys.exit(1)


def _finding(ailment: Ailment, *, is_mended: bool = False, trouble: str | None = None) -> Finding:
    return Finding(
        part=ailment.part,
        text=ailment.text,
        advice=ailment.advice,
        mendable=ailment.mend is not None,
        mended=is_mended,
        trouble=trouble,
    )


def _mended(ailment: Ailment) -> Finding:
    assert ailment.mend is not None
    try:
        ailment.mend()
    except (EngineError, StoreError, OSError) as error:
        return _finding(ailment, trouble=str(error))
    return _finding(ailment, is_mended=True)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.part}: {one_line(finding.text)}"
    if finding.mended:
        yield "  mended"
    else:
        yield f"  {one_line(finding.advice)}"
    if finding.trouble is not None:
        yield f"  it could not be mended: {one_line(finding.trouble)}"


def _summary(found: list[Finding], left: list[Finding], is_mending: bool) -> str:
    if not left:
        return f"nothing is wrong{' any more' if found else ''}"
    mendable = 0 if is_mending else sum(finding.mendable for finding in left)
    hint = f"; `sapwood doctor --fix` mends {mendable}" if mendable else ""
    return f"{len(left)} {'thing is' if len(left) == 1 else 'things are'} wrong{hint}"
