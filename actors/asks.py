"""What tools ask of their session about its children, until the turn rules answer."""

from collections.abc import Callable

import attrs
import trio

from actors.directory import Row
from actors.outbox import Outbox
from actors.protocol.effects import FamilyNow, HandleOf, RefusalOf, ReportsOn
from actors.protocol.mail import Asked
from actors.protocol.tools import ChildReport, FamilyAnswer, FamilyRequest, Handle, Members, Refused, Waited
from actors.supervisor import Supervisor
from store.entries import ChildSettledEntry


@attrs.define
class _Open:
    """A tool that waits for an answer."""

    answered: trio.Event = attrs.field(factory=trio.Event)
    value: FamilyAnswer | None = None


@attrs.define(eq=False)
class Asks:
    """Questions go by the session's own mailbox, so that they are heard in turn; what the rules say is looked up here."""

    supervisor: Supervisor
    row: Row
    outbox: Outbox
    _open: dict[int, _Open] = attrs.field(factory=dict)

    async def ask(self, request: FamilyRequest, asked: Callable[[], None] = lambda: None) -> FamilyAnswer:
        ask_id = self.supervisor.next_numbers()
        ask = self._open[ask_id] = _Open()
        self.row.mailbox.put(Asked(ask_id, request))
        asked()
        try:
            await ask.answered.wait()
        finally:
            del self._open[ask_id]
        if ask.value is None:
            raise RuntimeError(f"an answer to {request!r} was announced and is not there")
        return ask.value

    def answer(self, ask_id: int, value: HandleOf | RefusalOf | ReportsOn | FamilyNow) -> None:
        ask = self._open.get(ask_id)
        if ask is None:
            return
        match value:
            case HandleOf(admitted):
                ask.value = Handle(admitted.session_id, admitted.name, admitted.model)
            case RefusalOf(reason):
                ask.value = Refused(reason)
            case ReportsOn(session_ids, ended):
                ask.value = Waited(ended, self._reports(session_ids))  # type: ignore[arg-type]
            case FamilyNow():
                ask.value = Members(self.supervisor.relatives(self.row))
        ask.answered.set()

    def _reports(self, session_ids: tuple[str, ...]) -> tuple[ChildReport, ...]:
        settled: dict[str, ChildSettledEntry] = {}
        for record in self.outbox.tree.records:
            if record.type == "child_settled" and isinstance(body := record.body(), ChildSettledEntry):
                settled[body.child_session_id] = body
        return tuple(self._report(session_id, settled.get(session_id)) for session_id in session_ids)

    def _report(self, session_id: str, settled: ChildSettledEntry | None) -> ChildReport:
        row = self.supervisor.directory.rows.get(session_id)
        name = session_id if row is None else row.name
        if settled is None or (row is not None and row.is_running):
            return ChildReport(session_id, name, turns=0 if row is None else row.turns)
        return ChildReport(
            session_id,
            name,
            settled.outcome,
            settled.run,
            settled.text,
            settled.error_message,
            0 if row is None else row.turns,
        )
