"""What tools ask of their session about its children, until the turn rules answer."""

from collections.abc import Callable

import attrs

from actors.directory import Row
from actors.outbox import Outbox
from actors.protocol.effects import FamilyNow, HandleOf, RefusalOf, ReportsOn
from actors.protocol.mail import Asked
from actors.protocol.tools import ChildReport, FamilyAnswer, FamilyRequest, Handle, Members, Refused, Waited
from actors.receipts import Ask
from actors.supervisor import Supervisor
from store.entries import ChildSettledEntry


@attrs.define(eq=False)
class Asks:
    """Questions go by the session's own mailbox, so that they are heard in turn; what the rules say is looked up here."""

    supervisor: Supervisor
    row: Row
    outbox: Outbox

    async def ask(self, request: FamilyRequest, asked: Callable[[], None] = lambda: None) -> FamilyAnswer:
        ask_id = self.supervisor.next_numbers()
        ask = self.supervisor.asks[ask_id] = Ask()
        self.row.mailbox.put(Asked(ask_id, request))
        asked()
        try:
            return await ask.answer()
        finally:
            del self.supervisor.asks[ask_id]

    def answer(self, ask_id: int, value: HandleOf | RefusalOf | ReportsOn | FamilyNow) -> None:
        ask = self.supervisor.asks.get(ask_id)
        if ask is None:
            return
        match value:
            case HandleOf(admitted):
                ask.tell(Handle(admitted.session_id, admitted.name, admitted.model))
            case RefusalOf(reason):
                ask.tell(Refused(reason))
            case ReportsOn(session_ids, ended):
                ask.tell(Waited(ended, self._reports(session_ids)))  # type: ignore[arg-type]
            case FamilyNow():
                ask.tell(Members(self.supervisor.relatives(self.row)))

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
