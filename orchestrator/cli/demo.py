"""`sapwood demo`: a tree that surveys the folder it is started in. The model is a script, children and tools are real."""

import os
import shutil
import sys
import time
from importlib.resources import files
from pathlib import Path

import click

from orchestrator.cli.common import home_from_env, look, stored_tree, told
from orchestrator.cli.ended import show_end, watched
from orchestrator.cli.run import work_folder
from orchestrator.engine.config import Config
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.one_shot import run_job
from orchestrator.views.grid import list_lines
from orchestrator.views.rows import tree_rows
from orchestrator.views.spans import line_text
from store.disk.home import Home
from store.ids import short

SCRIPT = "demo"


@click.command()
@click.option("--mode", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output.")
@told
def command(mode: str) -> None:
    """Watch a tree of agents survey this folder: no key, no network.

    \b
      sapwood demo
      sapwood demo --mode json | sapwood events validate
    """
    folder = work_folder(None)
    home = home_from_env()
    models = Models(Config(), os.environ, folder)
    models.add_script(SCRIPT, files("orchestrator.cli").joinpath("demo.toml").read_text("utf-8"))
    job = Job(
        prompt="What is in this folder?",
        model=f"scripted/{SCRIPT}",
        cwd=folder,
        environ=os.environ,
        name="demo",
        has_context_files=False,
        is_json=mode == "json",
    )
    ended = run_job(job, home, models, watched(job, is_quiet=False))
    show_end(job, ended)
    if not job.is_json:
        _tell_where(home, ended)
    sys.exit(ended.status)


def _tell_where(home: Home, ended: Ended) -> None:
    """The tree with its figures, and where to look next."""
    tree = stored_tree(home, ended.root_id)
    if not tree.nodes:
        return  # its disk failed, which `show_end` has told
    rows = tree_rows(tree, time.time())
    name, sapwood = short(ended.root_id), _callable_as()
    drawn = look(now=time.time())
    lines = [
        *(line_text(line).rstrip() for line in list_lines(rows, drawn)),
        "",
        f"The model was a script, so the money is make-believe; the {len(rows)} agents, their tools and files are real.",
        f"Journals: {home.sessions}/*.jsonl, one per agent. Look closer:",
        f"  {sapwood} usage {name}",
        f"  {sapwood} sessions show {name}",
        f"  {sapwood} demo --mode json | {sapwood} events validate",
    ]
    click.echo("\n".join(lines))


def _callable_as() -> str:
    """How to call this program from here: by its name where the shell finds it, else by where it lies."""
    if shutil.which("sapwood"):
        return "sapwood"
    own = Path(sys.argv[0])
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)
