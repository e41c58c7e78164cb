"""The kernels of a host: one per session, from its first cell on."""

from collections.abc import Mapping

import attrs
import trio

from actors.protocol.tools import ToolContext
from orchestrator.tools.kernel.host import CellEnd, Kernel
from orchestrator.tools.kernel.interpreter import KernelSettings

# Settled sessions keep their kernels, since they can go on; so many at most, besides those in which a cell runs.
MAX_IDLE = 32


@attrs.define
class Kernels:
    """By artifact folder, which every session has of its own. A session without cells costs nothing."""

    settings: KernelSettings = attrs.field(factory=KernelSettings)
    max_idle: int = MAX_IDLE
    _kernels: dict[str, Kernel] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._kernels)

    async def execute(self, code: str, timeout_s: float, context: ToolContext) -> CellEnd:
        """As `Kernel.execute`, in the kernel of the session."""
        kernel = self._of(context.artifact_dir)
        # The last one used stands at the end.
        self._kernels[context.artifact_dir] = self._kernels.pop(context.artifact_dir)
        try:
            return await kernel.execute(code, timeout_s, context)
        finally:
            with trio.CancelScope(shield=True):
                await self._close_the_eldest()

    def warm(self, artifact_dir: str, env: Mapping[str, str], cwd: str) -> None:
        """Start the session's process early, where its first cell is to be expected."""
        self._of(artifact_dir).warm(env, cwd)

    def _of(self, artifact_dir: str) -> Kernel:
        if artifact_dir not in self._kernels:
            self._kernels[artifact_dir] = Kernel(artifact_dir, self.settings)
        return self._kernels[artifact_dir]

    async def _close_the_eldest(self) -> None:
        idle = [key for key, kernel in self._kernels.items() if not kernel.is_running]
        for key in idle[: max(0, len(idle) - self.max_idle)]:
            await self.close(key)

    async def close(self, artifact_dir: str) -> None:
        """End the session's kernel. A later cell gets a new one, and is told."""
        kernel = self._kernels.pop(artifact_dir, None)
        if kernel is not None:
            await kernel.close()

    async def aclose(self) -> None:
        """End all of them, also under their cells."""
        async with trio.open_nursery() as nursery:
            for key in list(self._kernels):
                nursery.start_soon(self.close, key)
