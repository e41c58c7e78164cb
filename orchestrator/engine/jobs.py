"""Jobs for trees that no command line describes: stored ones that are gone on with, and those that a host is asked to begin."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from orchestrator.engine.config import Config, load_config
from orchestrator.engine.declared.plan import TreePlan
from orchestrator.engine.errors import WrongUsage
from orchestrator.engine.job import Job
from orchestrator.engine.models import Models
from orchestrator.engine.terms import COUNTS, MAY_BE_NONE, SPENDING, is_given, terms_given, terms_kept, under
from store.disk.forest import read_header
from store.disk.home import Home


@attrs.frozen
class Jobs:
    """`environ`: the host's own; nobody else's keys."""

    home: Home
    environ: Mapping[str, str]

    def stored(self, root_id: str, *, goes_on: bool = False) -> tuple[Job, Models]:
        """Go on with a stored tree, with the model that it had. `goes_on`: with what was interrupted, at once.

        Raises WrongUsage; OSError.
        """
        header = read_header(self.home.fs, self.home, root_id)
        folder = Path("/") if header is None else Path(header.cwd)
        config, models = self._models(folder)
        job = self._job(folder, config, terms_kept(self.home, root_id), session=root_id)
        return attrs.evolve(job, prompt=None if goes_on else ""), models

    def new(
        self,
        cwd: Path,
        *,
        model: str | None = None,
        thinking: str | None = None,
        name: str | None = None,
        tools: tuple[str, ...] | None = None,
        limits: Mapping[str, float] | None = None,
        trial: Mapping[str, Any] | None = None,
        tree: TreePlan | None = None,
    ) -> tuple[Job, Models]:
        """A new tree, declared or not. Raises WrongUsage.

        `limits`, and `trial` of gates, autonomy and goal, as the options of `run` name them; they win over those of `tree`.
        """
        config, models = self._models(cwd)
        declared = {} if tree is None else tree.options()
        name, thinking = name or declared.get("name"), thinking or declared.get("thinking")
        named = model or declared.get("model") or self.environ.get("SAPWOOD_MODEL") or config.model
        if named is None:
            raise WrongUsage(models.nothing_named())
        named, thinking = models.chosen(named, None, thinking, has_stored=False)
        given = dict(limits or {})
        unknown = [each for each in given if each not in (*SPENDING, *COUNTS, "timeout_s")]
        if unknown:
            known = ", ".join((*SPENDING, *COUNTS, "timeout_s"))
            raise WrongUsage(f"there is no limit {', '.join(unknown)}; limits: {known}")
        if nothing := [each for each, amount in given.items() if not amount and each not in MAY_BE_NONE]:
            raise WrongUsage(f"expected {', '.join(nothing)} above 0")
        terms: dict[str, Any] = {each: int(amount) if each in COUNTS else amount for each, amount in given.items()}
        terms |= {"timeout": terms.pop("timeout_s", None), "tools": None if tools is None else ",".join(tools)}
        terms |= {"no_tools": tools == (), "thinking": thinking, **(trial or {})}
        terms = declared | {each: value for each, value in terms.items() if is_given(value)}
        for node in () if tree is None else tree.nodes():
            if node.model is not None:
                models.get(node.model)
        return self._job(cwd, config, terms, model=named, thinking=thinking, name=name, tree=tree), models

    def _models(self, folder: Path) -> tuple[Config, Models]:
        if not folder.is_dir():
            raise WrongUsage(f"{folder}: expected the folder that the session works in, found none")
        config = load_config(self.home.config_path, folder)
        return config, Models(config, self.environ, folder)

    def _job(self, folder: Path, config: Config, terms: Mapping[str, Any], **members: Any) -> Job:
        return Job(
            prompt="",
            model=members.pop("model", None),
            cwd=folder,
            environ=self.environ,
            durability=config.durability,
            terms=terms_given(terms),
            **under(terms, config),
            **members,
        )
