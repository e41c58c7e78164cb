"""`sapwood completion SHELL`: what a shell needs to complete our commands."""

import click
from click.shell_completion import get_completion_class

from orchestrator.cli.common import echo_lines

HELP = """Print a script that lets a shell complete commands and options.

\b
  eval "$(sapwood completion bash)"      # in ~/.bashrc
  eval "$(sapwood completion zsh)"       # in ~/.zshrc
  sapwood completion fish > ~/.config/fish/completions/sapwood.fish"""


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """By click, which the script calls back for each word."""
    root, found = ctx.find_root(), get_completion_class(shell)
    name = root.info_name or "sapwood"
    if found is not None:
        echo_lines(found(root.command, {}, name, f"_{name.upper()}_COMPLETE").source().split("\n"))
