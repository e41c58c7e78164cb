"""Children as tools in other programs' words, each with that program's own kind of fake model. None where it is not installed."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.bench.harness import importable

Run = Callable[[int], Awaitable[object]]


def openai_agents(at_once: int) -> Run | None:
    """A parent whose model asks for so many children in one answer; `Agent.as_tool`."""
    found = importable("agents", "agents.models.interface", "openai.types.responses")
    if found is None:
        return None
    sdk: Any
    interface: Any
    types: Any
    sdk, interface, types = found
    sdk.set_tracing_disabled(True)

    def said(text: str) -> Any:
        part = types.ResponseOutputText(text=text, type="output_text", annotations=[])
        return types.ResponseOutputMessage(
            id="message", content=[part], role="assistant", status="completed", type="message"
        )

    def call(number: int) -> Any:
        return types.ResponseFunctionToolCall(
            call_id=f"call-{number}", name="child", arguments='{"input": "task"}', type="function_call"
        )

    class Fake(interface.Model):  # type: ignore[misc]
        """Asks for `calls` children, and says that it is done once they have answered."""

        def __init__(self, calls: int) -> None:
            self.calls = [call(number) for number in range(calls)]

        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            given = kwargs["input"]
            is_answered = isinstance(given, list) and any(
                item.get("type") == "function_call_output" for item in given if isinstance(item, dict)
            )
            output = [said("done")] if is_answered or not self.calls else self.calls
            return sdk.ModelResponse(output=output, usage=sdk.Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    child = sdk.Agent(name="child", instructions="", model=Fake(0))
    tool = child.as_tool(tool_name="child", tool_description="A child")
    parent = sdk.Agent(name="parent", instructions="", model=Fake(at_once), tools=[tool])

    async def run(count: int) -> None:
        for _ in range(count // at_once):
            result = await sdk.Runner.run(parent, "go")
            assert result.final_output == "done"

    return run


def pydantic_ai(at_once: int) -> Run | None:
    """A parent whose model asks for so many children in one answer; a tool that runs another agent."""
    found = importable("pydantic_ai", "pydantic_ai.messages", "pydantic_ai.models.function")
    if found is None:
        return None
    ai: Any
    messages: Any
    function: Any
    ai, messages, function = found

    def child_says(history: list[Any], info: Any) -> Any:
        return messages.ModelResponse(parts=[messages.TextPart("done")])

    def parent_says(history: list[Any], info: Any) -> Any:
        if len(history) > 1:
            return messages.ModelResponse(parts=[messages.TextPart("done")])
        calls = [messages.ToolCallPart("child", {"task": "task"}) for _ in range(at_once)]
        return messages.ModelResponse(parts=calls)

    child = ai.Agent(function.FunctionModel(child_says))
    parent = ai.Agent(function.FunctionModel(parent_says))

    async def ask_child(task: str) -> str:
        return str((await child.run(task)).output)

    parent.tool_plain(ask_child, name="child")

    async def run(count: int) -> None:
        for _ in range(count // at_once):
            result = await parent.run("go")
            assert result.output == "done"

    return run
