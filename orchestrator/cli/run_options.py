"""What `sapwood run` can be told, in the groups in which its help shows it."""

import click

from orchestrator.cli.common import Amount, known_names, options_of
from orchestrator.engine.job import DURABILITY
from store.dialects import DIALECTS

THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")


output = options_of(
    click.option(
        "--mode",
        type=click.Choice(["text", "json", "rpc"]),
        default="text",
        show_default=True,
        help="Output: the answer, the stream of events, or the control protocol on stdin and stdout.",
    ),
    click.option("--json", "is_json", is_flag=True, help="The same as --mode json."),
    click.option(
        "--dialect",
        type=click.Choice(list(DIALECTS)),
        default="native",
        show_default=True,
        help="Whose stream --mode json writes: our own, or that of a relative; pi's clients can drive --mode rpc, too.",
    ),
    click.option("--json-deltas", is_flag=True, help="With --mode json: no snapshots in message_update."),
    click.option(
        "--events",
        "shown",
        type=click.Choice(["tree", "root"]),
        help="With --mode json: the sessions that are shown. The whole tree, with tags; or the root alone.",
    ),
    click.option("-p", "--print", "is_print", is_flag=True, help="Accepted for people who are used to it."),
    click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write the last answer there, too."),
    click.option("-q", "--quiet", is_flag=True, help="No progress on stderr."),
    click.option(
        "--detach", is_flag=True, help="Hand the work to the resident host, which is started if need be, and return."
    ),
)
model = options_of(
    click.option("-m", "--model", envvar="SAPWOOD_MODEL", metavar="PROVIDER/ID[:THINKING]", help="The model."),
    click.option("--provider", envvar="SAPWOOD_PROVIDER", help="The provider of a model that is named without one."),
    click.option("--thinking", type=click.Choice(THINKING), envvar="SAPWOOD_THINKING", help="How long to think."),
    click.option("--fallback-model", envvar="SAPWOOD_FALLBACK_MODEL", help="When that one is overloaded or used up."),
    click.option("--wait-for-reset", is_flag=True, help="Wait as long as the provider says, also over a restart."),
    click.option("--api-key", help="Key of the provider; a variable keeps it out of the list of processes."),
)
sessions = options_of(
    click.option("-c", "--continue", "is_continue", is_flag=True, help="Go on with the newest session of this folder."),
    click.option(
        "-r",
        "--resume",
        metavar="SESSION",
        shell_complete=known_names,
        help="Go on with this session (id, its beginning or end, name); without a prompt, with what was interrupted.",
    ),
    click.option(
        "--session",
        metavar="SESSION|PATH",
        shell_complete=known_names,
        help="The same, also by the path of its journal.",
    ),
    click.option("--fork", metavar="SESSION", shell_complete=known_names, help="Go on with a copy of this session."),
    click.option("--no-session", is_flag=True, help="Keep nothing."),
    click.option("--session-dir", type=click.Path(file_okay=False), help="Where journals lie."),
    click.option("--name", help="A name for the session."),
    click.option(
        "--durability",
        type=click.Choice(DURABILITY),
        envvar="SAPWOOD_DURABILITY",
        help="Go on when a record is written (flushed once a second), flushed with others (default), or flushed alone.",
    ),
)
work = options_of(
    click.option(
        "--tree",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Start the agents that this TOML file declares: [[children]] with name, prompt and, as wanted, model, thinking, "
        "tools, limits, after (names of siblings; their answers come in front of the prompt, or where it says "
        "{{child.NAME}}) and children of their own. Its own prompt is asked of the root when all have ended.",
    ),
    click.option("-t", "--tools", help="Only these tools, comma-separated."),
    click.option("--no-tools", is_flag=True, help="No tools at all."),
    click.option("-C", "--cwd", type=click.Path(exists=True, file_okay=False), help="Work in this folder."),
    click.option("--system-prompt", help="Instead of our own instructions."),
    click.option("--append-system-prompt", help="After all other instructions."),
    click.option("--no-context-files", is_flag=True, help="Leave AGENTS.md and CLAUDE.md out."),
)
limits = options_of(
    click.option("--max-depth", type=click.IntRange(0), envvar="SAPWOOD_MAX_DEPTH", help="Levels of children."),
    click.option("--max-children", type=click.IntRange(0), envvar="SAPWOOD_MAX_CHILDREN", help="Children in all."),
    click.option(
        "--max-live-children",
        type=click.IntRange(1),
        envvar="SAPWOOD_MAX_LIVE_CHILDREN",
        help="So many children work at the same time; the others wait.",
    ),
    click.option(
        "--max-spawns-per-minute",
        type=click.IntRange(1),
        envvar="SAPWOOD_MAX_SPAWNS_PER_MINUTE",
        help="So many children may be started within a minute.",
    ),
    click.option(
        "--max-turns",
        type=click.IntRange(1),
        envvar="SAPWOOD_MAX_TURNS",
        help="Model calls of the tree, before the last ones that hand back.",
    ),
    click.option(
        "--max-cost",
        "--max-budget-usd",
        type=Amount(),
        envvar="SAPWOOD_MAX_COST",
        help="Dollars for the tree; a call is begun only if it fits at its worst.",
    ),
    click.option("--max-tokens", type=click.IntRange(1), envvar="SAPWOOD_MAX_TOKENS", help="Tokens for the tree."),
    click.option("--timeout", type=Amount(), envvar="SAPWOOD_TIMEOUT", help="Seconds for this run."),
)
trial = options_of(
    click.option(
        "--gate",
        "--autonomous-gate",
        "gates",
        multiple=True,
        metavar="CMD",
        help="A shell command that has to succeed before the run may end well; its failure goes back to the model.",
    ),
    click.option(
        "--gate-retries",
        "--autonomous-gate-retries",
        type=click.IntRange(0),
        envvar="SAPWOOD_GATE_RETRIES",
        help="So many failures of gates may be mended.",
    ),
    click.option(
        "--gate-timeout",
        type=Amount(86400),
        envvar="SAPWOOD_GATE_TIMEOUT",
        help="Seconds for one gate.",
    ),
    click.option(
        "--autonomous",
        is_flag=True,
        envvar="SAPWOOD_AUTONOMOUS",
        help="Nobody answers: go on until the gates pass or, without gates, the model says that it is done.",
    ),
    click.option(
        "--max-continuations",
        "--autonomous-max-continuations",
        type=click.IntRange(0),
        envvar="SAPWOOD_MAX_CONTINUATIONS",
        help="How often it is told to go on.",
    ),
    click.option(
        "--goal", help='What an autonomous run, and those that go on with it, are held to; "" drops the last one.'
    ),
)
