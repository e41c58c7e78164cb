"""One tree in many states, as the samples of the views show it."""

from orchestrator.views.context import with_windows
from orchestrator.views.rows import AgentRow
from tests.orchestrator.views.events import Stream

WINDOWS = {"test/opus": 200_000, "test/sonnet": 200_000, "test/haiku": 100_000}


def billing() -> Stream:
    """A root that waits, children that work, fail, ask and have ended; one of them with 24 of its own."""
    stream = Stream()
    root = stream.root("port-billing").uses("test/opus").begins("Port the billing module")
    root.answers("I start some agents.", (110_000, 12_000, 0, 0), model="test/opus")
    survey = root.spawns("survey-api", model="test/sonnet").begins()
    survey.answers("14 call sites; v3 drops two of them", (76_000, 400, 0, 0), model="test/sonnet").settles()
    invoices = root.spawns("invoices", model="test/sonnet").begins()
    invoices.answers("", (148_000, 900, 0, 0), model="test/sonnet").calls_tool("edit", path="src/billing/invoice.py")
    shim = invoices.spawns("legacy-shim").begins()
    shim.answers("", (18_000, 10, 0, 0), error="no").settles("failed", "invalid_request: tools.0 is not allowed")
    invoices.spawns("invoice-tests").begins().calls_tool("bash", command="pytest -q tests/billing")
    invoices.spawns("tax-rounding", model="test/sonnet").begins().retries("529 overloaded", 3)
    webhooks = root.spawns("webhooks", model="test/sonnet").begins()
    webhooks.answers("Which signing secret should v3 use?", model="test/sonnet").settles()
    webhooks.has_status("Which signing secret should v3 use?", "needs_input")
    fuzz = root.spawns("fuzz-amounts", model="local/qwen").begins()
    fuzz.answers("x", (58_000, 10, 0, 0), None, "local/qwen")
    for number in range(24):
        case = fuzz.spawns(f"case-{number:02d}").begins()
        if number == 8:
            case.answers("", error="no").settles("failed", "tool error: rounding differs")
        elif number < 20:
            case.answers("ok").settles()
    fuzz.calls_tool("wait_agents")
    docs = root.spawns("docs").begins().answers("part of it")
    docs.reaches("cost", 0.25).settles("limit_reached", "cost limit $0.25 reached; part of it is done")
    root.has_queued(1)
    return stream


def billing_rows() -> tuple[list[AgentRow], float]:
    """The rows and the time that they are of."""
    stream = billing()
    return with_windows(stream.rows(), WINDOWS.get), stream.now
