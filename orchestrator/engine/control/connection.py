"""One connection: commands in, answers and lines of the stream out."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from orchestrator.engine.control.answers import Answer, Data, Followed, Refused, failure, success
from orchestrator.engine.control.lines import LINE_BYTES, LineReader, TooLong
from orchestrator.engine.control.outgoing import Target
from orchestrator.engine.control.requests import BadRequest, Request, read_request

MAX_OPEN = 256
"""So many commands of one connection may wait for their answers."""


@attrs.define(eq=False)
class Connection:
    """`take` begins a command at once, in the order in which they came; what it waits for is waited for beside the others.

    `translated`: a line in our words.
    """

    target: Target
    take: Callable[[Request, Target], Answer]
    translated: Callable[[bytes], bytes] = lambda line: line
    _open: int = 0

    async def serve(self, receive: Callable[[], Awaitable[bytes]]) -> None:
        """Until `receive` gives nothing more, and what was asked is answered."""
        reader = LineReader()
        async with trio.open_nursery() as nursery:
            while data := await receive():
                for line in reader.feed(data):
                    self._hear(line, nursery)
                    await self.target.wait_for_answers()

    def _hear(self, line: bytes | TooLong, nursery: trio.Nursery) -> None:
        if isinstance(line, TooLong):
            self.target.say(failure(None, "parse", "line_too_long", f"a line holds at most {LINE_BYTES} bytes"))
            return
        try:
            request = read_request(self.translated(line))
        except BadRequest as error:
            self.target.say(failure(error.id, error.name, error.code, str(error)))
            return
        except Exception as error:
            self.target.say(failure(None, "parse", "internal", f"{type(error).__name__}: {error}"))
            return
        try:
            if self._open >= MAX_OPEN:
                raise Refused("busy", f"{MAX_OPEN} commands of this connection wait for their answers already")
            answer = self.take(request, self.target)
        except Exception as error:
            self._fail(request, error)
            return
        if callable(answer):
            self._open += 1
            nursery.start_soon(self._wait, request, answer)
        elif isinstance(answer, Followed):
            self.target.say(success(request.id, request.name, answer.data))
            answer.then()
        else:
            self.target.say(success(request.id, request.name, answer))

    async def _wait(self, request: Request, answer: Callable[[], Awaitable[Data]]) -> None:
        try:
            data = await answer()
        except Exception as error:
            self._fail(request, error)
        else:
            self.target.say(success(request.id, request.name, data))
        finally:
            self._open -= 1

    def _fail(self, request: Request, error: Exception) -> None:
        """A bug in a command is its own answer: the connection, and the host, go on."""
        code = error.code if isinstance(error, Refused) else "internal"
        text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        self.target.say(failure(request.id, request.name, code, text))
