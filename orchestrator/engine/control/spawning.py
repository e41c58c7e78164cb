"""Children and roots that somebody outside asks for: by the same gate as those that a model asks for."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from actors.directory import Row
from actors.protocol import mail
from actors.protocol.budgets import CHILD_LIMITS
from actors.protocol.tools import Handle, Spawn
from actors.protocol.tools import Refused as FamilyRefused
from actors.receipts import Ask
from orchestrator.engine.control import requests
from orchestrator.engine.control.answers import Data, Refused
from orchestrator.engine.control.changing import model_named
from orchestrator.engine.control.mailing import Mailing
from orchestrator.engine.declared.plan import plan_of
from orchestrator.engine.errors import EngineError, NoKey, WrongUsage
from orchestrator.engine.keeper import Keeper
from orchestrator.engine.planted import Planted
from orchestrator.engine.toolset import chosen_tools
from store.errors import StoreError


def spawn_child(planted: Planted, row: Row, command: requests.Spawn) -> Callable[[], Awaitable[Data]]:
    """Answered with the handle, or refused by the limit that is in the way."""
    _check_limits(command.limits)
    if command.trial:
        raise Refused("wrong_shape", f"a child has no {', '.join(command.trial)}: only a root is held to that")
    if command.tree is not None:
        raise Refused("wrong_shape", "a tree is declared for a new root: expected cwd, and no session")
    if command.model is not None:
        model_named(planted, command.model)
    request = Spawn(
        command.prompt,
        command.name,
        command.model,
        command.thinking,
        _tools(command.tools),
        dict(command.limits),
    )
    mailing = Mailing(planted, row)
    supervisor = planted.tree.supervisor
    ask_id = supervisor.next_numbers()
    ask = supervisor.asks[ask_id] = Ask()
    mailing.deliver(mail.SpawnChild(ask_id, request))

    async def admitted() -> Data:
        answer = await mailing.asked(ask_id, ask)
        if isinstance(answer, FamilyRefused):
            raise Refused("refused", answer.reason)
        if not isinstance(answer, Handle):
            raise TypeError(f"expected a handle, found {answer!r}")
        return {"sessionId": answer.session_id, "name": answer.name, "model": answer.model}

    return admitted


def spawn_root(keeper: Keeper, command: requests.Spawn) -> Callable[[], Awaitable[Data]]:
    """A new tree with its task. Answered once the task is in its journal."""
    if command.cwd is None or not Path(command.cwd).is_absolute():
        raise Refused("wrong_shape", "expected cwd, the absolute path of the folder that the new tree works in")
    if not command.prompt.strip():
        raise Refused("wrong_shape", "expected a prompt, found nothing but space")
    try:
        planted = keeper.begin(
            Path(command.cwd),
            model=command.model,
            thinking=command.thinking,
            name=command.name,
            tools=_tools(command.tools),
            limits=command.limits,
            trial=command.trial,
            tree=None if command.tree is None else plan_of(command.tree, "tree"),
        )
    except NoKey as error:
        raise Refused("no_key", str(error)) from error
    except WrongUsage as error:
        raise Refused("wrong_value", str(error)) from error
    except (EngineError, StoreError, OSError) as error:
        raise Refused("not_begun", str(error)) from error
    mailing = Mailing(planted, planted.tree.root)
    task_id = mailing.new_id("task")
    slip = mailing.expect(task_id)
    mailing.deliver(mail.Prompt(task_id, command.prompt, origin="spawn_task"))

    async def begun() -> Data:
        await mailing.receipt(task_id, slip)
        root = planted.tree.root
        return {"sessionId": root.id, "name": root.name if root.is_named else None, "model": root.model}

    return begun


def _tools(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    try:
        return None if names is None else chosen_tools(",".join(names))
    except EngineError as error:
        raise Refused("wrong_shape", str(error)) from error


def _check_limits(limits: Mapping[str, float]) -> None:
    unknown = [name for name in limits if name not in CHILD_LIMITS]
    if unknown:
        raise Refused("wrong_shape", f"a child has no limit {', '.join(unknown)}; limits: {', '.join(CHILD_LIMITS)}")
    if nothing := [name for name, amount in limits.items() if not amount]:
        raise Refused("wrong_shape", f"expected {', '.join(nothing)} above 0")
