"""One compaction: where to cut, the calls to the summariser, one signal at the end. The history is touched by nobody here."""

import random
from typing import TYPE_CHECKING

import attrs
import trio

from actors.model_call import admitted_call
from actors.protocol.compaction import SUMMARISER, Cut, choose_cut, summary_prompt, summary_windows
from actors.protocol.mail import Summarised, SummaryFailed
from actors.protocol.model import Chunk, ModelFailure, ModelRequest, ReplyEnd
from actors.protocol.retry import retry_delay
from actors.reply import Reply
from store.entries import CompactionEntry, UsageEntry
from store.messages import user_text
from store.size import context_tokens, guessed
from store.times import unix_ms
from store.usage import NOTHING, Spend, spend_of, usage_of

if TYPE_CHECKING:
    from actors.directory import Row
    from actors.outbox import Outbox
    from actors.supervisor import Supervisor

_SHRINKING = (1, 4, 16)
"""A token may be a single character; a window may be smaller than we were told, or not known at all."""


@attrs.define
class Summary:
    """`scope` cancels it; the signal is sent all the same, with what the calls were billed."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    work: int
    instructions: str | None
    scope: trio.CancelScope
    _spent: Spend = NOTHING

    async def run(self) -> Summarised | SummaryFailed:
        cut: Cut | None = None
        text: str | None = None
        reason = "the summary was aborted"
        with self.scope:
            cut = self._cut()
            if cut is None:
                reason = "there is nothing to summarise: what is recent alone fills the context"
            else:
                text, reason = await self._text(cut)
        if cut is None or text is None:
            return SummaryFailed(self.work, reason, self._billed(), self.scope.cancelled_caught)
        return Summarised(self.work, self._entry(cut, text))

    def _cut(self) -> Cut | None:
        policy, window = self.supervisor.state.compaction, self._window
        path = self.outbox.tree.path()
        tokens = context_tokens(path) or 0
        # Without a known window somebody asked for it, or the provider refused: keep a third of what there is.
        keep = policy.keep(window) if window else tokens // 3
        return choose_cut(path, keep, tokens)

    @property
    def _window(self) -> int:
        return self.supervisor.workshop.model(self.row.model)[1].context_window

    async def _text(self, cut: Cut) -> tuple[str | None, str]:
        """The summary, or None and why there is none. A conversation that is too long for one request is folded in pieces.

        What the provider does not take is cut smaller, never sent twice.
        """
        reserve = self.supervisor.state.compaction.reserve(self._window)
        pieces: list[str] = []
        for shrunk in _SHRINKING:
            smaller = summary_windows(cut, self._window, reserve, shrunk)
            if smaller == pieces:
                continue
            pieces = smaller
            text, reason, is_too_long = await self._folded(cut, pieces)
            if not is_too_long:
                break
        return text, reason

    async def _folded(self, cut: Cut, pieces: list[str]) -> tuple[str | None, str, bool]:
        so_far = cut.previous_summary
        for piece in pieces:
            prompt = summary_prompt(piece, so_far, self.instructions, is_split_turn=cut.is_split_turn)
            so_far, reason, is_too_long = await self._asked(prompt)
            if so_far is None:
                return None, reason, is_too_long
        if so_far is not None and guessed(len(so_far)) >= cut.tokens_before:
            return None, "the summary is as long as what it would replace", False
        return so_far, "", False

    async def _asked(self, prompt: str) -> tuple[str | None, str, bool]:
        """The answer, or None; why there is none; whether the prompt was too long."""
        retry = 0
        while True:
            end, text = await self._called(prompt)
            if isinstance(end, ReplyEnd):
                if end.stop_reason != "stop":
                    return None, f"the summary was cut: {end.raw or end.stop_reason}", False
                return (text, "", False) if text.strip() else (None, "the summary is blank", False)
            retry += 1
            delay = retry_delay(self.supervisor.state.retry, retry, end, random.random())
            if delay is None:
                return None, end.message, end.kind == "overflow"
            await trio.sleep(delay)

    async def _called(self, prompt: str) -> tuple[ReplyEnd | ModelFailure, str]:
        model, info = self.supervisor.workshop.model(self.row.model)
        clock = self.supervisor.clock
        reply = Reply(info, unix_ms(clock.now()), clock.steady_s())
        request = ModelRequest(
            session_id=self.row.id,
            session_name=self.row.name,
            depth=self.row.place.depth,
            call=0,
            model=info,
            messages=(user_text(prompt, reply.timestamp),),
            system=SUMMARISER,
        )

        async def hear(chunk: Chunk) -> None:
            reply.take(chunk)

        try:
            end = await admitted_call(self.supervisor, self.row, model, request, hear)
        finally:
            # Also what an aborted call has reported so far was spent.
            self._spent = self._spent + spend_of(reply.usage)
        return end, reply.message("stop", clock.steady_s()).text

    def _billed(self) -> UsageEntry | None:
        if self._spent == NOTHING:
            return None
        _, info = self.supervisor.workshop.model(self.row.model)
        return UsageEntry(kind="compaction", provider=info.provider, model=info.id, usage=usage_of(self._spent))

    def _entry(self, cut: Cut, text: str) -> CompactionEntry:
        return CompactionEntry(
            summary=text.strip() + _file_lines(cut),
            first_kept_entry_id=cut.first_kept_entry_id,
            tokens_before=cut.tokens_before,
            details={"readFiles": list(cut.read_files), "modifiedFiles": list(cut.modified_files)},
            usage=usage_of(self._spent),
            custom_instructions=self.instructions,
        )


def _file_lines(cut: Cut) -> str:
    """The files of the conversation, told to the model as part of its memory."""
    lines = [
        f"\n{title}: {', '.join(files)}"
        for title, files in (("Files read", cut.read_files), ("Files modified", cut.modified_files))
        if files
    ]
    return "\n" + "".join(lines) if lines else ""
