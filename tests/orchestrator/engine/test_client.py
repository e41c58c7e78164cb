"""The client's end of a connection."""

from pathlib import Path

import pytest
import trio

from orchestrator.engine.client import Client, HostGone


async def test_after_a_command_that_may_have_gone_out_in_half_nothing_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "host.sock"
    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(path))
    listener.listen(1)
    async with await Client.connect(path) as client:
        with trio.move_on_after(0.05) as patience:
            await client.call({"type": "prompt", "message": "x" * (8 << 20)})  # nobody reads it
        assert patience.cancelled_caught
        with pytest.raises(HostGone), trio.fail_after(5):
            await client.call({"type": "abort"})
    listener.close()
