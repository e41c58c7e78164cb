"""The command with a home and a folder of its own."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from tests.orchestrator.engine.processes import Desk, Done, desk_at
from tests.peers.npm import npm_peers

__all__ = ["npm_peers"]

Here = Callable[..., Done]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        yield desk


@pytest.fixture
def here(desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """The command in this process, which takes a tenth of the time. For what no other process sees."""

    def call(*words: str | bytes, env: Mapping[str, str] | None = None) -> Done:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("SAPWOOD_", "OPENAI_"))]:
                patch.delenv(name)
            for name, value in desk.env(**(env or {})).items():
                patch.setenv(name, value)
            patch.chdir(desk.folder)
            with pytest.raises(SystemExit) as ended:
                main([os.fsdecode(word) for word in words])
        out, err = capfd.readouterr()
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, out.encode("utf-8", "surrogateescape"), err)

    return call
