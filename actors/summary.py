"""One compaction: where to cut, the calls to the summariser, one signal at the end. The history is touched by nobody here."""

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import attrs
import trio

from actors.clock import Clock
from actors.protocol.compaction import SUMMARISER, CompactionPolicy, Cut, choose_cut, summary_prompt, summary_windows
from actors.protocol.mail import Summarised, SummaryFailed
from actors.protocol.model import ModelFailure, ModelInfo, ModelRequest, ReplyEnd
from actors.protocol.retry import RetryPolicy, retry_delay
from actors.reply import Reply
from actors.side_call import SideCall
from store.entries import CompactionEntry, UsageEntry
from store.events import Diagnostic
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
class Summariser:
    """Asks a model for a summary. `call` makes one call, which the reply hears; `spent` is what all calls were billed, also those
    that came to nothing. `notice` is told of each retry."""

    info: ModelInfo
    session: tuple[str, str, int]
    """Id, name and depth of the session that it is for."""
    call: Callable[[ModelRequest, Reply], Awaitable[ReplyEnd | ModelFailure]]
    clock: Clock
    policy: CompactionPolicy
    retry: RetryPolicy
    instructions: str | None = None
    notice: Callable[[str], None] = lambda text: None
    spent: Spend = NOTHING

    async def text(self, cut: Cut) -> tuple[str | None, str]:
        """The summary, or None and why there is none. A conversation that is too long for one request is folded in pieces.

        What the provider does not take is cut smaller, never sent twice.
        """
        window = self.info.context_window
        pieces: list[str] = []
        text, reason = None, "there is nothing to summarise"
        for shrunk in _SHRINKING:
            smaller = summary_windows(cut, window, self.policy.reserve(window), shrunk)
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
            delay = retry_delay(self.retry, retry, end, random.random())
            if delay is None:
                return None, end.message, end.kind == "overflow"
            self.notice(f"the summary is tried again in {delay:.1f} s: {end.message}")
            await trio.sleep(delay)

    async def _called(self, prompt: str) -> tuple[ReplyEnd | ModelFailure, str]:
        reply = Reply(self.info, unix_ms(self.clock.now()), self.clock.steady_s())
        session_id, name, depth = self.session
        request = ModelRequest(
            session_id=session_id,
            session_name=name,
            depth=depth,
            call=0,
            model=self.info,
            messages=(user_text(prompt, reply.timestamp),),
            system=SUMMARISER,
        )

        try:
            end = await self.call(request, reply)
        finally:
            # Also what an aborted call has reported so far was spent.
            self.spent = self.spent + spend_of(reply.usage)
        return end, reply.message("stop", self.clock.steady_s()).text

    def billed(self, kind: str) -> UsageEntry | None:
        """The entry that bills calls which left no summary."""
        if self.spent == NOTHING:
            return None
        return UsageEntry(kind=kind, provider=self.info.provider, model=self.info.id, usage=usage_of(self.spent))


@attrs.define
class Summary:
    """One compaction of a session. `scope` cancels it; the signal is sent all the same, with what the calls were billed."""

    supervisor: "Supervisor"
    row: "Row"
    outbox: "Outbox"
    work: int
    instructions: str | None
    scope: trio.CancelScope

    async def run(self) -> Summarised | SummaryFailed:
        cut: Cut | None = None
        text: str | None = None
        reason = "the summary was aborted"
        summariser = self._summariser()
        try:
            with self.scope:
                cut = self._cut(summariser.info.context_window)
                if cut is None:
                    reason = "there is nothing to summarise: what is recent alone fills the context"
                else:
                    text, reason = await summariser.text(cut)
        except trio.Cancelled:
            # The incarnation has crashed, and nobody hears how this ends. What was spent is spent.
            if (billed := summariser.billed("compaction")) is not None:
                self.outbox.append_or_show(billed)
            raise
        if cut is None or text is None:
            return SummaryFailed(self.work, reason, summariser.billed("compaction"), self.scope.cancelled_caught)
        return Summarised(self.work, self._entry(cut, text, summariser.spent))

    def _summariser(self) -> Summariser:
        supervisor, row = self.supervisor, self.row
        model, info = supervisor.workshop.model(row.model)

        return Summariser(
            info,
            (row.id, row.name, row.place.depth),
            SideCall(supervisor, row, model).make,
            supervisor.clock,
            supervisor.state.compaction,
            supervisor.state.retry,
            self.instructions,
            lambda text: self.outbox.publish(Diagnostic(level="info", code="retry", text=text)),
        )

    def _cut(self, window: int) -> Cut | None:
        path = self.outbox.tree.path()
        tokens = context_tokens(path) or 0
        # Without a known window somebody asked for it, or the provider refused: keep a third of what there is.
        keep = self.supervisor.state.compaction.keep(window) if window else tokens // 3
        return choose_cut(path, keep, tokens)

    def _entry(self, cut: Cut, text: str, spent: Spend) -> CompactionEntry:
        return CompactionEntry(
            summary=with_files(text, cut),
            first_kept_entry_id=cut.first_kept_entry_id,
            tokens_before=cut.tokens_before,
            details=details_of(cut),
            usage=usage_of(spent),
            custom_instructions=self.instructions,
        )


def details_of(cut: Cut) -> dict[str, list[str]]:
    """The files that were read and modified in what a summary stands for."""
    return {"readFiles": list(cut.read_files), "modifiedFiles": list(cut.modified_files)}


def with_files(text: str, cut: Cut) -> str:
    """The summary with its files named, as the model is told it."""
    return text.strip() + _file_lines(cut)


def _file_lines(cut: Cut) -> str:
    """The files of the conversation, told to the model as part of its memory."""
    lines = [
        f"\n{title}: {', '.join(files)}"
        for title, files in (("Files read", cut.read_files), ("Files modified", cut.modified_files))
        if files
    ]
    return "\n" + "".join(lines) if lines else ""
