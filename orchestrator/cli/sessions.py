"""`sapwood sessions`: what is stored."""

import click

from orchestrator.cli.lazy import LazyGroup

HELP = """Stored sessions.

\b
  sapwood sessions list
  sapwood sessions show port-billing"""

_CLI = "orchestrator.cli"
COMMANDS = {
    "list": (f"{_CLI}.sessions_list", "The stored trees, the newest first."),
    "show": (f"{_CLI}.sessions_show", "One session: what is known of it, and the end of its conversation."),
    "tree": (f"{_CLI}.sessions_find:tree_command", "The entries of a session as a tree."),
    "search": (f"{_CLI}.sessions_find:search_command", "Find sessions by name, and by what was said in them."),
    "rename": (f"{_CLI}.sessions_edit:rename_command", "Give a session another name."),
    "label": (f"{_CLI}.sessions_edit:label_command", "Put a label on an entry, or take it away."),
    "fork": (f"{_CLI}.sessions_edit:fork_command", "Begin a new session with a branch of another one."),
    "clone": (f"{_CLI}.sessions_edit:clone_command", "A fork at the end of the current branch."),
    "branch": (f"{_CLI}.sessions_edit:branch_command", "Go back to an earlier entry, and on from there."),
    "archive": (f"{_CLI}.sessions_edit:archive_command", "Take a session out of the list, or put it back."),
    "delete": (f"{_CLI}.sessions_edit:delete_command", "Move sessions, and all below them, to the trash."),
    "import": (f"{_CLI}.sessions_files:import_command", "Make sessions of files of other programs."),
    "export": (f"{_CLI}.sessions_files:export_command", "Write a plain file, a page, or files as pi has them."),
    "check": (f"{_CLI}.sessions_files:check_command", "Say what is wrong with sessions and files."),
    "repair": (f"{_CLI}.sessions_files:repair_command", "Write damaged journals anew, and what a crash left out."),
}


@click.group(cls=LazyGroup, table=COMMANDS, help=HELP)
def command() -> None:
    """The group."""
