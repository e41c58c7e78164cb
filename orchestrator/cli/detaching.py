"""`sapwood run --detach`: hand the work to the resident host. The folder goes with it, and never a key."""

import os
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from orchestrator.cli.common import echo_json, echo_lines
from orchestrator.cli.live import in_loop, reached, said
from orchestrator.engine.client import Client
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.job import Job
from orchestrator.engine.resident import started
from orchestrator.engine.terms import COUNTS
from store.disk.home import Home
from store.ids import short

# What a host can be told with a prompt. Everything else it takes from the configuration files of the home and of the folder.
_SAID = frozenset(
    {"prompt", "detach", "cwd", "mode", "is_json", "quiet", "is_print", "is_continue", "resume", "session"}
)
# Option → what the protocol calls it.
_TRIAL = {
    "gates": "gates",
    "gate_retries": "gateRetries",
    "gate_timeout": "gateTimeoutS",
    "autonomous": "autonomous",
    "max_continuations": "maxContinuations",
    "goal": "goal",
}
# What it can be told of a new tree besides.
_OF_NEW = frozenset(
    {"tree", "name", "model", "provider", "thinking", "tools", "no_tools", "max_cost", "max_tokens", "timeout"}
)


def detach(job: Job, home: Home, options: dict[str, Any]) -> None:
    """Start the resident host if there is none, give it the job, and say how to follow it. Raises EngineError."""
    context = click.get_current_context()
    passed = _SAID if job.session is not None else _SAID.union(_OF_NEW, COUNTS, _TRIAL)
    lost = [name for name in options if name not in passed and _is_given(context, name)]
    if lost:
        names = ", ".join(each.opts[0] for each in context.command.params if each.name in lost)
        raise WrongUsage(f"{names} cannot be passed with --detach{_again(job)}; say it in {home.config_path}")
    if not isinstance(job.prompt, str) or not job.prompt:
        raise WrongUsage("--detach needs a prompt, and it has to be text")
    session_id = in_loop(lambda: _handed_over(job, home, options))
    if job.is_json:
        echo_json({"sessionId": session_id})
    else:
        echo_lines([f"{session_id}   follow it: sapwood attach {short(session_id)}"])


def _again(job: Job) -> str:
    return "" if job.session is None else " to a session that is there already"


def _is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


async def _handed_over(job: Job, home: Home, options: dict[str, Any]) -> str:
    if job.session is not None:
        async with reached(home, job.session, detaches=True) as there:
            await there.call("prompt", message=job.prompt, streamingBehavior="followUp")
            return there.session_id
    host = await said(started(home, os.environ))
    limits = {name: float(options[name]) for name in COUNTS if options[name] is not None}
    if job.timeout_s is not None:
        limits["timeout_s"] = job.timeout_s
    members = {
        "cwd": str(job.cwd),
        "prompt": job.prompt,
        "name": job.name,
        "model": job.model,
        "thinking": job.thinking,
        "tools": job.tools,
        "tree": None if job.tree is None else msgspec.to_builtins(job.tree),
        "limits": {**limits, **job.budgets},
        **{member: options[name] for name, member in _TRIAL.items()},
    }
    async with await said(Client.connect(host.path)) as client:
        given = {name: value for name, value in members.items() if value is not None}
        return str((await said(client.call({"type": "spawn", **given})))["sessionId"])
