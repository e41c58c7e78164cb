"""What sapwood streams for the prompts of a recording, from a provider that replies as the recorded one did."""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from actors.protocol.compaction import CompactionPolicy
from actors.protocol.retry import RetryPolicy
from orchestrator.dialects.projection import Projection, project
from orchestrator.engine.config import Config, CostConfig, ModelConfig, ProviderConfig
from orchestrator.engine.job import Ended, Job
from orchestrator.engine.models import Models
from orchestrator.engine.one_shot import OneShot
from tests.orchestrator.dialects.provider import ROOT, provider
from tests.orchestrator.dialects.recorded import Event, Recording, Reply
from tests.orchestrator.engine.rig import PATIENCE_S, Listener, WatchedHost, home_at


@attrs.define
class Played:
    """What sapwood streamed, natively: a list of lines per prompt; and how each run ended."""

    streams: list[list[bytes]] = attrs.field(factory=list)
    ends: list[Ended] = attrs.field(factory=list)

    def told(self, dialect: str) -> list[Event]:
        """All of it in the dialect, as one process with several prompts would tell it: with one header."""
        found: list[Event] = []
        for lines in self.streams:
            state = Projection.of(dialect)
            for line in lines:
                state, told = project(state, line)
                if told and not (found and told.startswith(b'{"type":"session"')):
                    found.append(msgspec.json.decode(told))
        return found


async def played(recording: Recording, root: Path, children: Mapping[str, Sequence[Reply]], **policy: Any) -> Played:
    """Give sapwood the prompts of a recording, and a provider that replies as the recorded one did.

    `policy`: members of CompactionPolicy. Where the recording breaks off the peer was sent a signal, and so is sapwood.
    """
    result = Played()
    model = recording.model
    work = root / "work"
    work.mkdir(parents=True)
    async with provider({ROOT: recording.replies, **children}, recording.refused_summaries) as server:
        config = configured(model, server.url)
        for prompt in recording.prompts:
            stopping = _Stopping(recording, server.silent)
            host = WatchedHost(home_at(root / "home"), outlet=Listener(hear=stopping.hear))
            job = Job(
                prompt,
                f"{model['provider']}/{model['model']}",
                work,
                {"PATH": os.environ.get("PATH", os.defpath)},
                retry=RetryPolicy(3, 0.001, 0.001),
                compaction=CompactionPolicy(**policy),
                session=result.ends[0].root_id if result.ends else None,
            )
            with trio.fail_after(PATIENCE_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(stopping.run)
                    result.ends.append(await OneShot(job, host, Models(config, {}, work)).run())
                    nursery.cancel_scope.cancel()
            result.streams.append(host.outlet.lines)
    return result


@attrs.define
class _Stopping:
    """Sends the signal that the peer was sent: while it waited for more of a reply, or while a tool ran."""

    recording: Recording
    now: trio.Event

    def hear(self, line: bytes) -> None:
        if self.recording.is_broken_off and line.startswith(b'{"type":"tool_execution_update"'):
            self.now.set()

    async def run(self) -> None:
        await self.now.wait()
        signal.raise_signal(signal.SIGTERM)


def configured(model: Event, url: str) -> Config:
    """The provider and model of a recording, at this address, with the prices that they had."""
    is_openai = model["api"] == "openai-completions"
    output = 2.0 if model["provider"].startswith("fake-") else 10.0
    window = 10_000 if model["model"] == "fake-small" else 128_000
    models = (ModelConfig(model["model"], window, 4096, CostConfig(1.0, output, 0.1, 1.25)),)
    given = ProviderConfig(model["api"], f"{url}/v1" if is_openai else url, models=models)
    return Config(providers={model["provider"]: given})
