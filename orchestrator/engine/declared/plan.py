"""A tree that is declared in a file: who is in it, who waits for whom. Every mistake is told with its place."""

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from actors.protocol.limits import Limits
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.terms import MAY_BE_NONE
from orchestrator.engine.toolset import chosen_tools

SPAWN = "spawn_agent"
ANSWER_OF = re.compile(r"\{\{\s*child\.([^{}]+?)\s*\}\}")
_Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
# What `message_agent` takes for something else than a child.
_NOT_NAMES = frozenset({"parent", "all"})


class _Table(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table of the file."""


class NodeLimits(_Table, frozen=True):
    """What a node, with all below it, may spend and how long it may take."""

    max_cost: float | None = None
    max_tokens: float | None = None
    max_turns: int | None = None
    timeout_s: float | None = None


class TreeLimits(NodeLimits, frozen=True):
    """The same for the whole tree, and what bounds its size."""

    max_depth: int | None = None
    max_children: int | None = None
    max_live_children: int | None = None
    max_spawns_per_minute: int | None = None


class PlannedNode(_Table, frozen=True):
    """A child that is started once all of `after`, its siblings, have completed. Its own children come before its first call."""

    name: str
    prompt: str
    model: str | None = None
    thinking: _Thinking | None = None
    tools: tuple[str, ...] | None = None
    limits: NodeLimits = NodeLimits()
    after: tuple[str, ...] = ()
    children: tuple["PlannedNode", ...] = ()


class TreePlan(_Table, frozen=True):
    """The whole: what the root is, and its children. Without `prompt` the root makes no call: its answer is what they answered."""

    children: tuple[PlannedNode, ...]
    prompt: str | None = None
    name: str | None = None
    model: str | None = None
    thinking: _Thinking | None = None
    tools: tuple[str, ...] | None = None
    limits: TreeLimits = TreeLimits()

    def at(self, path: Sequence[str]) -> "PlannedNode | TreePlan | None":
        """The node under these names, from the root's children down; the plan itself for the root."""
        node: PlannedNode | TreePlan | None = self
        for name in path:
            node = None if node is None else next((child for child in node.children if child.name == name), None)
        return node

    def nodes(self) -> Iterator[PlannedNode]:
        waiting = [*self.children]
        while waiting:
            node = waiting.pop(0)
            yield node
            waiting += node.children

    def options(self) -> dict[str, Any]:
        """What the file says of the root, under the names of the options of `run`."""
        limits = msgspec.structs.asdict(self.limits)
        limits["timeout"] = limits.pop("timeout_s")
        tools = None if self.tools is None else ",".join(self.tools)
        own = {"model": self.model, "thinking": self.thinking, "name": self.name, "tools": tools}
        return {name: value for name, value in {**own, **limits}.items() if value is not None}


def must_fit(plan: TreePlan, limits: Limits) -> None:
    """Raises WrongUsage for a tree of which a part would be refused at work, when the rest of it is paid for."""
    levels, level = 0, plan.children
    while level:
        levels, level = levels + 1, tuple(child for node in level for child in node.children)
    declared = {"max_depth": (levels, "levels of children"), "max_children": (len([*plan.nodes()]), "children in all")}
    for limit, (amount, of_what) in declared.items():
        allowed = getattr(limits, limit)
        if amount > allowed:
            raise WrongUsage(
                f"the tree that is declared has {amount} {of_what}, and the limit ({limit}) is {allowed}; raise it with "
                f"--{limit.replace('_', '-')} {amount}, or in the file: limits = {{ {limit} = {amount} }}"
            )


def read_plan(path: Path) -> TreePlan:
    """The tree that is declared in a TOML file. Raises WrongUsage, which names the place."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WrongUsage(f"{path}: expected a TOML file that can be read: {error}") from error
    return plan_of(values, str(path))


def plan_of(values: Mapping[str, Any], file: str) -> TreePlan:
    """The tree in these values. Raises WrongUsage."""
    try:
        _check_keys(values, TreePlan, "")
        plan = msgspec.convert(values, TreePlan)
        if not plan.children:
            raise WrongUsage("expected at least one [[children]], found none")
        _check_node(plan, "the root", "")
    except msgspec.ValidationError as error:
        raise WrongUsage(f"{file}: {str(error).replace('$.', '').replace('`', '')}") from error
    except WrongUsage as error:
        raise WrongUsage(f"{file}: {error}") from None
    return plan


def _check_keys(values: Mapping[str, Any], kind: type[_Table], place: str) -> None:
    """Raise WrongUsage for a key that nothing reads, at any depth."""
    for key, value in values.items():
        if key not in kind.__struct_fields__:
            near = difflib.get_close_matches(key, kind.__struct_fields__, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(kind.__struct_fields__)}"
            raise WrongUsage(f"{place.strip() or 'the root'}: there is no key {key!r}; {hint}")
        if key == "limits" and isinstance(value, dict):
            _check_keys(value, TreeLimits if kind is TreePlan else NodeLimits, f"{place}limits")
        if key == "children" and isinstance(value, list):
            for number, child in enumerate(value):
                if isinstance(child, dict):
                    _check_keys(
                        child, PlannedNode, f"{place}children[{number}] ({child.get('name', 'without a name')}) "
                    )


def _check_node(node: PlannedNode | TreePlan, called: str, path: str) -> None:
    chosen_tools(None if node.tools is None else ",".join(node.tools))
    if node.children and node.tools is not None and SPAWN not in node.tools:
        raise WrongUsage(
            f"{called} has children, so its tools must name {SPAWN}; found {', '.join(node.tools) or 'none'}"
        )
    for name, amount in msgspec.structs.asdict(node.limits).items():
        least = 0 if name in MAY_BE_NONE else math.ulp(0.0)
        if amount is not None and not (least <= amount and math.isfinite(amount)):
            raise WrongUsage(f"{called}: expected limits.{name} above 0, found {amount}")
    _check_siblings(node.children, called)
    for child in node.children:
        _check_node(child, f"node {path}{child.name}", f"{path}{child.name}/")


def _check_siblings(children: Sequence[PlannedNode], of: str) -> None:
    known: list[str] = []
    for child in children:
        if not child.name.strip() or not child.prompt.strip():
            raise WrongUsage(
                f"a child of {of}: expected a name and a prompt, found {child.name!r} and {child.prompt!r}"
            )
        if child.name in _NOT_NAMES or not child.name.isprintable() or set(child.name) & set("{}"):
            raise WrongUsage(f"a child of {of}: {child.name!r} cannot be a name; choose another one")
        if child.name in known:
            raise WrongUsage(f"two children of {of} are named {child.name!r}; names of siblings differ")
        known.append(child.name)
    for child in children:
        for wanted in child.after:
            if wanted not in known:
                near = difflib.get_close_matches(wanted, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"its siblings: {', '.join(known)}"
                raise WrongUsage(f"node {child.name}: after names {wanted!r}, which is none of its siblings; {hint}")
        for told in ANSWER_OF.findall(child.prompt):
            if told not in child.after:
                raise WrongUsage(f"node {child.name}: its prompt wants the answer of {told!r}, which its `after` lacks")
    circle = _circle(children)
    if circle:
        raise WrongUsage(f"these wait for each other, so none can start: {' after '.join(circle)}")


def _circle(children: Sequence[PlannedNode]) -> list[str]:
    """A chain of names that ends where it begins, each after the next; empty if there is none."""
    after = {child.name: child.after for child in children}
    done: set[str] = set()
    for child in children:
        chain, turns = [child.name], [iter(after[child.name])]
        while turns:
            name = next(turns[-1], None)
            if name is None:
                turns.pop()
                done.add(chain.pop())
            elif name in chain:
                return [*chain[chain.index(name) :], name]
            elif name not in done:
                chain.append(name)
                turns.append(iter(after[name]))
    return []
