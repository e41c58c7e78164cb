"""`sapwood config`: what is set, and where it comes from."""

import os
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from orchestrator.cli import run
from orchestrator.cli.common import AS_JSON, echo_json, echo_lines, home_from_env, told
from orchestrator.engine.config import read_layers
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.settings import OPTIONS, Setting, Source, settings
from orchestrator.views.text import escaped_json, one_line

HELP = """Show what is set, and where it comes from: flag, environment, project, home, default. Keys are never shown.

NAME: only settings of this name, or of this table. The options are those of `run`: what they would come to is shown.

\b
  sapwood config
  sapwood config limits --max-depth 3
  sapwood config --json | jq '.[] | select(.source != "default")'"""

_SOURCES: dict[ParameterSource, Source] = {
    ParameterSource.COMMANDLINE: "flag",
    ParameterSource.ENVIRONMENT: "environment",
}


@click.command(help=HELP, params=[option for option in run.command.params if option.name in OPTIONS])
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("-C", "--cwd", type=click.Path(exists=True, file_okay=False), help="For work in this folder.")
@AS_JSON
@told
def command(names: tuple[str, ...], cwd: str | None, as_json: bool, **options: Any) -> None:
    """Read all that can say something, and tell who was heard."""
    ctx = click.get_current_context()
    home = home_from_env()
    found = settings(read_layers(home.config_path, run.work_folder(cwd)), _given(ctx, options), os.environ)
    places = {"home": str(home.root), "session_dir": str(home.sessions)}
    found = [msgspec.structs.replace(each, value=places.get(each.name, each.value)) for each in found]
    shown = [each for each in found if not names or any(_is_in(each.name, name) for name in names)]
    if not shown:
        raise WrongUsage(f"there is no setting {one_line(' '.join(names))!r}; `sapwood config` shows all")
    if as_json:
        echo_json(shown)
    else:
        echo_lines(_table(shown))


def _given(ctx: click.Context, options: dict[str, Any]) -> dict[str, Setting]:
    """What options and their variables say."""
    found = {}
    for option in ctx.command.params:
        source = _SOURCES.get(ctx.get_parameter_source(option.name or "") or ParameterSource.DEFAULT)
        if source is not None and option.name in options:
            where = (
                next(name for name in option.opts if name.startswith("--")) if source == "flag" else str(option.envvar)
            )
            found[OPTIONS[option.name]] = Setting(OPTIONS[option.name], options[option.name], source, where)
    return found


def _is_in(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}.")


def _table(shown: list[Setting]) -> list[str]:
    rows = [(each.name, _text(each.value), each.source + (f" ({each.where})" if each.where else "")) for each in shown]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{name:{widths[0]}}  {value:{widths[1]}}  {source}".rstrip() for name, value, source in rows]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return one_line(value) if isinstance(value, str) else escaped_json(msgspec.json.encode(value).decode())
