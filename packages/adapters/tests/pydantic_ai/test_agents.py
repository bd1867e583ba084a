"""pydantic-ai over real sockets: its agents with eagerstream's tools, and eagerstream's runs with tools of its own."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import anyio
import pytest
from anthropic import AsyncAnthropic
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelRetry,
    RunContext,
    RunUsage,
    Tool as PydanticAITool,
    ToolReturn,
    UnexpectedModelBehavior,
)
from pydantic_ai.exceptions import IncompleteToolCall, ModelAPIError, ToolFailed
from pydantic_ai.messages import ImageUrl, ModelMessagesTypeAdapter, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from tests.streams import REQUEST
from tests.support import LocalAPI

import eagerstream
from eagerstream import (
    InputAccumulator,
    InputDelta,
    InputInterrupted,
    InputStop,
    ItemStream,
    Outcome,
    ToolErrorCode,
    ToolResponse,
    UsageError,
    validate_history,
)
from eagerstream.tools import image_bytes
from eagerstream_adapters.pydantic_ai import EagerToolset, EarlyStart, StreamedParts, as_eager_tool
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, reply, text, tool_use

pytestmark = pytest.mark.anyio

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
POEM = {"path": "poem.txt", "lines": ["one", "two", "three"]}
WRITE = tool_use("write", POEM, id="toolu_write")
DONE = reply(text("Done."))


class Writer:
    """A streaming tool, and what became of it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.interrupted = 0
        self.cancelled = 0

    @eagerstream.tool
    async def write(self, path: str, lines: ItemStream[str]) -> str:
        """Write lines.

        Args:
            path: Where to.
            lines: The lines.
        """
        try:
            async for line in lines:
                self.written.append(line)
        except InputInterrupted:
            self.interrupted += 1
            return f"wrote {len(self.written)} lines to {path}, and then the input broke off"
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return f"wrote {len(self.written)} lines to {path}"


@asynccontextmanager
async def model_of(
    *turns: Any, faults: Faults | None = None, max_retries: int = 0
) -> AsyncIterator[tuple[AnthropicModel, ReplayServer]]:
    async with (
        ReplayServer(Scenario(*turns), faults=faults) as server,
        AsyncAnthropic(base_url=server.base_url, api_key="simulated", max_retries=max_retries) as client,
    ):
        yield AnthropicModel("claude-opus-4-7", provider=AnthropicProvider(anthropic_client=client)), server


def sent(server: ReplayServer) -> list[dict[str, Any]]:
    """The messages of the last request, which are such as the API takes."""
    messages: list[dict[str, Any]] = cast("Any", server.requests[-1].body)["messages"]
    validate_history(messages)
    return messages


def results(server: ReplayServer) -> list[tuple[str, bool]]:
    content = sent(server)[-1]["content"]
    return [
        ("".join(part.get("text", "") for part in block["content"]), block["is_error"])
        for block in content
        if block["type"] == "tool_result"
    ]


# --- our tools in its agents ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["run", "iter", "run_stream", "run_stream_events", "stream_handler"])
async def test_every_way_to_run_an_agent(way: str) -> None:
    """The tool runs once, its result is sent, and its inputs are asked for as they are written."""
    writer = Writer()
    # `run_stream` takes text before a call for the run's output.
    opening = () if way == "run_stream" else (text("I write."),)
    async with model_of(reply(*opening, WRITE), DONE) as (model, server):
        agent = Agent(model, capabilities=[EarlyStart([writer.write])])
        output: object = None
        match way:
            case "run":
                output = (await agent.run("Go.")).output
            case "stream_handler":

                async def ignore(_: RunContext[None], events: Any) -> None:
                    async for _event in events:
                        pass

                output = (await agent.run("Go.", event_stream_handler=ignore)).output
            case "iter":
                async with agent.iter("Go.") as run:
                    async for _ in run:
                        pass
                output = run.result and run.result.output
            case "run_stream":
                async with agent.run_stream("Go.") as stream:
                    output = await stream.get_output()
            case _:
                async with agent.run_stream_events("Go.") as events:
                    async for event in events:
                        output = getattr(getattr(event, "result", None), "output", None)
        assert output == "Done."
        assert writer.written == POEM["lines"]
        assert len(server.requests) == 2
        assert results(server) == [("wrote 3 lines to poem.txt", False)]
        assert cast("Any", server.requests[0].body)["tools"][0]["eager_input_streaming"] is True


@pytest.mark.slow
async def test_eager_inputs_are_left_to_the_model() -> None:
    """Where a platform refuses the field, it is not sent."""
    async with model_of(DONE) as (model, server):
        await Agent(model, capabilities=[EarlyStart([Writer().write], eager=False)]).run("Go.")
        assert "eager_input_streaming" not in cast("Any", server.requests[0].body)["tools"][0]


@pytest.mark.slow
async def test_without_early_start() -> None:
    """A toolset alone: the same tool, started when pydantic-ai starts tools."""
    writer = Writer()
    async with model_of(reply(WRITE), DONE) as (model, server):
        agent = Agent(model, toolsets=[EagerToolset([writer.write], id="ours")])
        assert (await agent.run("Go.")).output == "Done."
        assert results(server) == [("wrote 3 lines to poem.txt", False)]


@pytest.mark.slow
@pytest.mark.parametrize("early", [True, False])
async def test_invalid_json(early: bool) -> None:
    """The input is echoed as INVALID_JSON, the model is told, and corrects itself; what a tool did is told too."""
    writer = Writer()
    broken = '{"path": "poem.txt", "lines": ["one", oops]}'
    async with model_of(reply(tool_use("write", broken, id="toolu_broken")), reply(WRITE), DONE) as (model, server):
        agent = (
            Agent(model, capabilities=[EarlyStart([writer.write])])
            if early
            else Agent(model, toolsets=[EagerToolset([writer.write])])
        )
        assert (await agent.run("Go.")).output == "Done."
        assert sent(server)[1]["content"][0]["input"] == {"INVALID_JSON": broken}
        [told] = sent(server)[2]["content"]
        assert told["is_error"] is True
        assert "INVALID_JSON" in told["content"][0]["text"]
        assert ("and then the input broke off" in told["content"][0]["text"]) is early
        assert results(server) == [("wrote 4 lines to poem.txt" if early else "wrote 3 lines to poem.txt", False)]


@pytest.mark.slow
async def test_mistakes_are_counted_and_failures_are_not() -> None:
    """Arguments that do not fit use up the tool's retries, as with pydantic-ai's own tools; its failures do not."""

    @eagerstream.tool
    def fail(times: int) -> str:
        """Fail."""
        raise LookupError(f"nothing there, {times} times")

    failing = [reply(tool_use("fail", {"times": number}, id=f"toolu_{number}")) for number in range(3)]
    async with model_of(*failing, DONE) as (model, server):
        await Agent(model, capabilities=[EarlyStart([fail])]).run("Go.")
        assert results(server) == [("LookupError: nothing there, 2 times", True)]
    wrong = [reply(tool_use("fail", {"times": "often"}, id=f"toolu_{number}")) for number in range(2)]
    async with model_of(*wrong, DONE) as (model, server):
        with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries count of 1"):
            await Agent(model, capabilities=[EarlyStart([fail])]).run("Go.")
        [(told, is_error)] = results(server)
        assert "times" in told
        assert is_error
    async with model_of(*wrong, DONE) as (model, server):
        result = await Agent(model, capabilities=[EarlyStart([fail], max_retries=2)]).run("Go.")
        assert result.output == "Done."


@pytest.mark.slow
async def test_images_data_and_content() -> None:
    """Images go with the result; the data of a response is for the program, and can be stored."""

    @eagerstream.tool
    def draw() -> ToolResponse:
        """Draw."""
        return ToolResponse.success("a dot", {"size": 1, "raw": PNG}, content=[image_bytes(PNG)])

    async with model_of(reply(tool_use("draw", {})), DONE) as (model, server):
        result = await Agent(model, capabilities=[EarlyStart([draw])]).run("Go.")
        [block] = sent(server)[-1]["content"]
        assert [part["type"] for part in block["content"]] == ["text", "image"]
        assert base64.b64decode(block["content"][1]["source"]["data"]) == PNG
        [part] = [part for part in result.all_messages()[2].parts if isinstance(part, ToolReturnPart)]
        assert cast("Any", part.metadata)["size"] == 1
        assert ModelMessagesTypeAdapter.validate_json(result.all_messages_json())


@pytest.mark.slow
async def test_a_reply_cut_by_max_tokens() -> None:
    """The tool learns that its input broke off; pydantic-ai says what it always says of a cut call."""
    writer = Writer()
    cut = tool_use("write", '{"path": "poem.txt", "lines": ["one", "two", "thr', closed=False)
    async with model_of(reply(cut, stop_reason="max_tokens"), reply(cut, stop_reason="max_tokens"), DONE) as (model, _):
        with pytest.raises((IncompleteToolCall, UnexpectedModelBehavior)):
            await Agent(model, capabilities=[EarlyStart([writer.write])]).run("Go.")
    assert writer.written[:2] == ["one", "two"]
    assert writer.interrupted >= 1


@pytest.mark.parametrize("kind", [FaultKind.CLOSE, FaultKind.ERROR_EVENT])
async def test_a_stream_that_dies_inside_an_input(kind: FaultKind) -> None:
    """The run fails as pydantic-ai's runs do, and no tool is left waiting for the rest of its input."""
    writer = Writer()
    error_type = "overloaded_error" if kind is FaultKind.ERROR_EVENT else None
    faults = Faults({0: [Fault(kind, after_events=9, error_type=error_type)]})
    async with model_of(reply(WRITE), DONE, faults=faults) as (model, _):
        with pytest.raises(Exception) as caught:
            await Agent(model, capabilities=[EarlyStart([writer.write])]).run("Go.")
        assert isinstance(caught.value, ModelAPIError) or type(caught.value).__module__.startswith(
            ("httpx", "anthropic", "pydantic_ai")
        )
    assert writer.interrupted + writer.cancelled == 1


async def test_a_cancelled_run() -> None:
    """The tools of a run that is cancelled are cancelled, inside their input or after it."""
    begun = anyio.Event()
    ends: list[str] = []

    @eagerstream.tool
    async def work() -> str:
        """Work for ever."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("cancelled")
        return ""

    faults = Faults({0: [Fault(FaultKind.STALL, after_events=20)]})
    async with (
        model_of(reply(tool_use("work", {}), WRITE), faults=faults) as (model, _),
        anyio.create_task_group() as tasks,
    ):
        agent = Agent(model, capabilities=[EarlyStart([work, Writer().write])])
        tasks.start_soon(agent.run, "Go.")
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ends == ["cancelled"]


@pytest.mark.slow
async def test_two_calls_with_one_id() -> None:
    """pydantic-ai refuses such a reply, and goes on doing so; no call ran twice."""
    seen: list[int] = []

    @eagerstream.tool
    def look(at: int) -> str:
        """Look."""
        seen.append(at)
        return str(at)

    twice = reply(tool_use("look", {"at": 1}, id="toolu_same"), tool_use("look", {"at": 2}, id="toolu_same"))
    async with model_of(twice, DONE) as (model, _):
        with pytest.raises(UnexpectedModelBehavior, match="unique"):
            await Agent(model, capabilities=[EarlyStart([look])]).run("Go.")
    assert seen in ([], [1])


# --- its events -------------------------------------------------------------------------------------------------------


async def test_inputs_are_seen_as_they_grow() -> None:
    """The events of an agent's own stream, for those who only watch."""
    seen: list[Any] = []
    async with model_of(reply(text("I write."), WRITE)) as (model, _):
        agent = Agent(model, toolsets=[EagerToolset([Writer().write])])
        async with agent.iter("Go.") as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    parts = StreamedParts(InputAccumulator().feed)
                    async with node.stream(run.ctx) as stream:
                        async for event in stream:
                            seen += parts.feed(event)
                    seen += parts.end(stream.response)
                    break
    assert [change.input.name for change in seen if isinstance(change, InputStop)] == ["write"]
    assert seen[-1].input.outcome is Outcome.VALID
    assert seen[-1].input.value == POEM
    assert sum(isinstance(change, InputDelta) for change in seen) > 3


# --- its tools in our runs --------------------------------------------------------------------------------------------


class Spot(BaseModel):
    """A place."""

    x: int
    kind: Literal["hill", "valley"] = "hill"


async def test_its_tools_in_a_run() -> None:
    """Arguments in its types, the context, images, and its ways to say that something is wrong."""

    async def visit(ctx: RunContext[str], spot: Spot) -> str:
        """Visit a place."""
        if spot.x < 0:
            raise ModelRetry("Only places at 0 or more.")
        if spot.x == 0:
            raise ToolFailed("Nobody is there.")
        return f"{ctx.deps} at {spot.x}, a {spot.kind}, for {ctx.tool_call_id}"

    def photograph() -> ToolReturn[Any]:
        """Take a picture."""
        return ToolReturn(
            return_value=["here", BinaryContent(PNG, media_type="image/png"), ImageUrl("https://example.com/i.png")],
            content="Look at it.",
            metadata={"shots": 1},
        )

    context = RunContext(deps="Ada", model=TestModel(), usage=RunUsage())
    tools = [as_eager_tool(PydanticAITool(visit), context=context), as_eager_tool(PydanticAITool(photograph))]
    calls = reply(
        *(tool_use("visit", {"x": x}, id=f"toolu_{number}") for number, x in enumerate((3, -1, 0))),
        tool_use("photograph", {}, id="toolu_3"),
        tool_use("visit", {"x": "far"}, id="toolu_4"),
    )
    async with (
        LocalAPI(calls, DONE).anthropic() as client,
        eagerstream.run(client, tools=tools, **REQUEST) as run,
    ):
        await run.finish()
        result = run.result
    visited, retried, failed, photographed, wrong = result.calls
    assert visited.result is not None
    assert visited.result["content"] == "Ada at 3, a hill, for toolu_0"
    assert retried.is_error
    assert "Only places at 0 or more." in str(retried.result)
    assert "Nobody is there." in str(failed.result)
    assert photographed.response is not None
    assert [block["type"] for block in photographed.response.content] == ["text", "image", "image", "text"]
    assert photographed.response.data == {"shots": 1}
    assert wrong.response is not None
    assert wrong.response.code == ToolErrorCode.INVALID_PARAM


async def test_what_cannot_run_is_refused() -> None:
    """A context and an approval are not made up."""

    def visit(ctx: RunContext[str]) -> str:
        """Visit."""
        return ctx.deps

    def plain() -> str:
        """Do."""
        return ""

    with pytest.raises(UsageError, match="RunContext"):
        as_eager_tool(PydanticAITool(visit))
    with pytest.raises(UsageError, match="approval"):
        as_eager_tool(PydanticAITool(plain, requires_approval=True))
    asked = as_eager_tool(PydanticAITool(plain, requires_approval=True, timeout=3, sequential=True), approve=bool)
    assert (asked.timeout_s, asked.group is not None, asked.approve is not None) == (3, True, True)
