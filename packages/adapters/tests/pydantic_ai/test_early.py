"""What begins early under pydantic-ai, and what must not: replies that wait, in their middle, for what tools do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    Tool as PydanticAITool,
    ToolOutput,
    UsageLimits,
)
from pydantic_ai.capabilities import AbstractCapability, Hooks
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import WrapperToolset

import eagerstream
from eagerstream import InputAccumulator, InputInterrupted, InputStart, ItemStream, Limits, Outcome
from eagerstream.tools import ToolCall
from eagerstream_adapters.pydantic_ai import EarlyStart, StreamedParts

pytestmark = pytest.mark.anyio


def call(index: int, name: str | None, args: str = "", *, id: str | None = None) -> DeltaToolCalls:
    return {index: DeltaToolCall(name=name, json_args=args, tool_call_id=id or (name and f"call_{index}"))}


def model_of(*replies: Sequence[Any]) -> FunctionModel:
    """Says the replies one after the other: texts and pieces of calls. An event in one is waited for, a function is called."""

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        for piece in replies[sum(isinstance(message, ModelResponse) for message in messages)]:
            if isinstance(piece, anyio.Event):
                with anyio.fail_after(10):  # it would wait for ever where nothing begins early
                    await piece.wait()
            elif callable(piece):
                for _turn in range(20):
                    await anyio.lowlevel.checkpoint()
                piece()
            else:
                yield piece

    return FunctionModel(stream_function=stream)


def answers(messages: Sequence[ModelMessage]) -> dict[str, Any]:
    return {
        part.tool_call_id: part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }


class Look:
    """A tool in both forms, that tells when it has begun."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.seen: list[str] = []

    def look(self, at: str) -> str:
        """Look.

        Args:
            at: Where.
        """
        self.seen.append(at)
        self.begun.set()
        return f"saw {at}"

    @property
    def ours(self) -> Any:
        async def look(at: str) -> str:
            return self.look(at)

        return eagerstream.tool(look, description="Look.")

    @property
    def theirs(self) -> PydanticAITool[Any]:
        async def look(at: str) -> str:
            return self.look(at)

        return PydanticAITool(look)

    def has_not_begun(self) -> None:
        assert self.seen == []


NEXT = call(1, "other", "{}")
"""The next call: only by it a call's end shows."""


def other() -> str:
    """Something else."""
    return "other"


def agent_of(model: FunctionModel, *, ours: Any = (), theirs: Any = (), **options: Any) -> Agent[Any, Any]:
    given = options.pop("capabilities", ())
    options = {"early": True} | options
    return Agent(model, tools=[*theirs, other], capabilities=[EarlyStart(ours, **options), *given])


async def looking(
    whose: str, place: str = "begun", limits: UsageLimits | None = None, **options: Any
) -> tuple[list[str], dict[str, Any]]:
    """What was seen in a run with one call of the tool, and the answers. `place` is what the middle of the reply waits for."""
    look = Look()
    reply = [call(0, "look", '{"at": "sea"}'), NEXT, getattr(look, place), "text"]
    options[whose] = [getattr(look, whose), *options.get(whose, ())]
    result = await agent_of(model_of(reply, ["Done."]), **options).run("Go.", usage_limits=limits)
    return look.seen, answers(result.all_messages())


each_owner = pytest.mark.parametrize("whose", ["ours", "theirs"])


# --- what begins early ------------------------------------------------------------------------------------------------


async def test_a_streaming_tool_reads_an_input_that_is_being_written() -> None:
    """Its first item arrives before the model goes on."""
    first = anyio.Event()
    calls: list[ToolCall] = []

    @eagerstream.tool
    async def write(path: str, lines: ItemStream[str]) -> str:
        """Write."""
        written = []
        async for line in lines:
            written.append(line)
            first.set()
        return f"{path}: {written}"

    reply = [call(0, "write", '{"path": "a", "lines": ["x", "y'), first, call(0, None, '"]}')]
    agent = agent_of(model_of(reply, ["Done."]), ours=[write], on_start=calls.append)
    result = await agent.run("Go.")
    assert answers(result.all_messages()) == {"call_0": "a: ['x', 'y']"}
    assert [begun.name for begun in calls] == ["write"]


@each_owner
async def test_a_call_begins_at_the_end_of_its_input(whose: str) -> None:
    """Before the reply has ended, once, and its result is the one that is sent."""
    assert await looking(whose) == (["sea"], {"call_0": "saw sea", "call_1": "other"})


async def test_deps_and_names_reach_a_tool_that_begins_early() -> None:
    """The context of an early call is that of the run."""
    seen: list[RunContext[str]] = []
    begun = anyio.Event()

    async def look(ctx: RunContext[str], at: str) -> str:
        seen.append(ctx)
        begun.set()
        return at

    model = model_of([call(0, "look", '{"at": "sea"}'), NEXT, begun], ["Done."])
    agent = Agent(model, deps_type=str, tools=[look, other], capabilities=[EarlyStart(early=["look"])])
    await agent.run("Go.", deps="Ada")
    [context] = seen
    assert (context.deps, context.tool_name, context.tool_call_id) == ("Ada", "look", "call_0")
    assert (context.retry, context.max_retries, context.run_step) == (0, 1, 1)


async def test_only_what_was_named_begins_early() -> None:
    """Tools of pydantic-ai's were written to begin later: nothing of that changes unasked."""
    assert await looking("theirs", "has_not_begun", early=["other"]) == (
        ["sea"],
        {"call_0": "saw sea", "call_1": "other"},
    )


async def test_a_retry_counts_when_pydantic_ai_calls() -> None:
    """A `ModelRetry` of a tool that began early is sent, counted once, and the next try sees the count."""
    tries: list[int] = []
    begun = anyio.Event()

    async def look(ctx: RunContext[Any], at: str) -> str:
        tries.append(ctx.retry)
        begun.set()
        if ctx.retry == 0:
            raise ModelRetry("Look elsewhere.")
        return at

    first = [call(0, "look", '{"at": "sea"}'), NEXT, begun]
    second = [call(0, "look", '{"at": "hill"}', id="call_again"), call(1, "other", "{}", id="call_other")]
    agent = Agent(model_of(first, second, ["Done."]), tools=[look, other], capabilities=[EarlyStart(early=True)])
    result = await agent.run("Go.")
    assert tries == [0, 1]
    assert answers(result.all_messages())["call_again"] == "hill"


async def test_arguments_that_do_not_fit_begin_nothing() -> None:
    """Validation is pydantic-ai's, and so is what comes of it."""
    look = Look()
    first = [call(0, "look", '{"where": "sea"}'), NEXT, look.has_not_begun]
    second = [call(0, "look", '{"at": "sea"}', id="call_again")]
    result = await agent_of(model_of(first, second, ["Done."]), theirs=[look.theirs]).run("Go.")
    assert look.seen == ["sea"]
    assert answers(result.all_messages())["call_again"] == "saw sea"


async def test_arguments_that_come_as_an_object() -> None:
    """Some providers do not stream arguments: they are taken whole, at the end of their part."""
    accumulator = InputAccumulator()
    parts = StreamedParts(accumulator.feed)
    part = ToolCallPart("look", {"at": "sea"}, tool_call_id="call_0")
    assert [type(change) for change in parts.feed(PartStartEvent(index=0, part=part))] == [InputStart]
    delta = ToolCallPartDelta(args_delta={"more": 1}, tool_call_id="call_0")
    assert parts.feed(PartDeltaEvent(index=0, delta=delta)) == []
    parts.feed(PartEndEvent(index=0, part=replace(part, args={"at": "sea", "more": 1})))
    [read] = accumulator.inputs.values()
    assert (read.outcome, read.value) == (Outcome.VALID, {"at": "sea", "more": 1})


async def test_the_end_of_a_response_ends_a_part_without_an_end() -> None:
    """Its arguments are whole only if the response is: one that broke off, or was interrupted, leaves it open."""
    interrupted = ModelResponse(parts=[], finish_reason="tool_call", state="interrupted")
    for response, outcome in (
        (ModelResponse(parts=[], finish_reason="tool_call"), Outcome.INCOMPLETE),
        (interrupted, None),
        (None, None),
    ):
        accumulator = InputAccumulator()
        parts = StreamedParts(accumulator.feed)
        parts.feed(PartStartEvent(index=0, part=ToolCallPart("look", '{"at": "s', tool_call_id="call_0")))
        parts.end(response)
        [read] = accumulator.inputs.values()
        assert read.outcome is outcome, response


# --- what must not ----------------------------------------------------------------------------------------------------


@each_owner
async def test_hooks_that_decide_come_first(whose: str) -> None:
    """A hook before a tool may change or forbid a call: it is asked before anything begins."""
    hooks = Hooks[Any]()

    @hooks.on.before_tool_execute
    async def elsewhere(ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        return args | {"at": "hill"} if call.tool_name == "look" else args

    seen, told = await looking(whose, "has_not_begun", capabilities=[hooks])
    assert (seen, told["call_0"]) == (["hill"], "saw hill")


async def test_hooks_that_only_look_on_do_not_matter() -> None:
    """Those behind a tool see the result of the call that began early."""
    results: list[Any] = []
    hooks = Hooks[Any]()

    @hooks.on.after_tool_execute
    async def note(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        results.append(result)
        return result

    await looking("ours", capabilities=[hooks])
    assert "saw sea" in results


class Wrapping(AbstractCapability[Any]):
    """Puts a toolset around all others, as users do."""

    def __init__(self, around: Callable[[Any], Any]) -> None:
        self._around = around

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        return self._around(toolset)


class Refusing(WrapperToolset[Any]):
    """A user's own."""

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        return "refused" if name == "look" else await super().call_tool(name, tool_args, ctx, tool)


@each_owner
async def test_toolsets_around_a_tool_are_passed(whose: str) -> None:
    """What a user put around tools keeps its say, and is asked once."""
    seen, told = await looking(whose, "has_not_begun", capabilities=[Wrapping(Refusing)])
    assert (seen, told["call_0"]) == ([], "refused")


@each_owner
@pytest.mark.parametrize("form", ["toolset", "tool", "raised"])
async def test_a_call_that_needs_approval_waits_for_it(whose: str, form: str) -> None:
    """Nothing runs before a person has said yes."""
    look = Look()
    asked: Any = {}
    match form:
        case "toolset":
            asked = {"capabilities": [Wrapping(lambda toolset: toolset.approval_required())]}
            asked |= {whose: [getattr(look, whose)]}
        case "tool" if whose == "theirs":
            asked = {"theirs": [PydanticAITool(look.look, requires_approval=True)]}
        case _ if whose == "theirs":

            async def raises(ctx: RunContext[Any], at: str) -> str:
                if not ctx.tool_call_approved:
                    raise ApprovalRequired
                return look.look(at)

            asked = {"theirs": [PydanticAITool(raises, name="look")]}
        case _:
            pytest.skip("these are pydantic-ai's own ways to say it")
    reply = [call(0, "look", '{"at": "sea"}'), NEXT, look.has_not_begun]
    agent = agent_of(model_of(reply, ["Done."]), **asked)
    result: Any = await agent.run("Go.", output_type=[str, DeferredToolRequests])
    assert isinstance(result.output, DeferredToolRequests)
    assert "look" in [part.tool_name for part in result.output.approvals]
    assert look.seen == []


@each_owner
@pytest.mark.parametrize("why", ["mode", "limit"])
async def test_what_runs_one_after_the_other_waits(whose: str, why: str) -> None:
    """The sequential mode, and a limit of calls."""
    limits = UsageLimits(tool_calls_limit=9) if why == "limit" else None
    with ToolManager.parallel_execution_mode("sequential" if why == "mode" else "parallel"):
        seen, _ = await looking(whose, "has_not_begun", limits)
    assert seen == ["sea"]


@each_owner
async def test_a_sequential_tool_holds_what_comes_after_it(whose: str) -> None:
    """A call behind it may need what it does."""
    look = Look()
    reply = [call(0, "alone"), call(1, "look", '{"at": "sea"}'), call(2, "other", "{}"), look.has_not_begun]
    options: Any = {"theirs": [PydanticAITool(other, name="alone", sequential=True)]}
    options[whose] = [getattr(look, whose), *options.get(whose, ())]
    await agent_of(model_of(reply, ["Done."]), **options).run("Go.")
    assert look.seen == ["sea"]


async def rewrite(ctx: Any, /, *, request_context: Any, response: ModelResponse) -> ModelResponse:
    """Look at another place, as a capability may say once the reply has ended."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == "look":
            part.args = '{"at": "hill"}'
    return response


async def test_a_call_that_was_rewritten_since_runs_as_it_was_rewritten() -> None:
    """What began on the old arguments is not its result."""
    seen, told = await looking("theirs", capabilities=[Hooks(after_model_request=rewrite)])
    assert (seen, told["call_0"]) == (["sea", "hill"], "saw hill")


@pytest.mark.parametrize("start", ["input", "message", "theirs"])
async def test_the_tool_of_a_call_that_was_rewritten_is_cancelled(start: Any) -> None:
    """It does nothing more with the old arguments, and does not begin with them at the end of the reply."""
    begun, gone = anyio.Event(), anyio.Event()
    told: list[str] = []

    async def look(at: str) -> str:
        told.append(f"begun {at}")
        begun.set()
        if at == "sea":
            try:
                await anyio.sleep_forever()
            finally:
                told.append("cancelled sea")
                gone.set()
        return f"saw {at}"

    is_early = start != "message"
    reply = [call(0, "look", '{"at": "sea"}'), NEXT, *([begun] if is_early else [])]
    rest = [*([gone] if is_early else []), "Done."]
    tools: dict[str, Any] = (
        {"theirs": [look]}
        if start == "theirs"
        else {"ours": [eagerstream.tool(look, description="Look.", start=start)]}
    )
    agent = agent_of(model_of(reply, rest), **tools, capabilities=[Hooks(after_model_request=rewrite)])
    result = await agent.run("Go.")
    assert answers(result.all_messages())["call_0"] == "saw hill"
    first = ["begun sea", "cancelled sea"] if is_early else []
    assert sorted(told) == sorted([*first, "begun hill"])


@each_owner
async def test_a_tool_that_is_hidden_from_the_model_does_not_begin(whose: str) -> None:
    """pydantic-ai answers that there is no such tool: nothing of it may have run."""

    class Hiding(AbstractCapability[Any]):
        async def prepare_tools(self, ctx: Any, tool_defs: Any) -> Any:
            return [definition for definition in tool_defs if definition.name != "look"]

    seen, told = await looking(whose, "has_not_begun", capabilities=[Hiding()])
    assert seen == []
    assert "Unknown tool" in told["call_0"]


async def test_a_tool_that_an_override_takes_away_does_not_begin() -> None:
    """`Agent.override` is what the run goes by."""
    look = Look()
    model = model_of([call(0, "look", '{"at": "sea"}'), NEXT, look.has_not_begun], ["Done."])
    agent = agent_of(model, ours=[look.ours])
    with agent.override(toolsets=[], tools=[]):
        await agent.run("Go.")
    assert look.seen == []


async def test_tools_of_pydantic_ai_itself_never_begin_early() -> None:
    """One that loads a capability changes what the next step offers: it runs when pydantic-ai says so."""
    look = Look()

    async def prepare(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        return replace(definition, tool_kind="capability-load")

    async def load(id: str) -> dict[str, Any]:
        return {"instructions": look.look(id)}

    model = model_of([call(0, "load", '{"id": "sea"}'), NEXT, look.has_not_begun], ["Done."])
    await agent_of(model, theirs=[PydanticAITool(load, prepare=prepare)]).run("Go.")
    assert look.seen == ["sea"]


async def test_output_tools_never_begin_early() -> None:
    """The run's result is validated by pydantic-ai alone."""
    made: list[int] = []

    def finish(number: int) -> int:
        made.append(number)
        return number

    def made_none() -> None:
        assert made == []

    model = model_of([call(0, "finish", '{"number": 1}'), NEXT, made_none])
    agent = Agent(
        model, output_type=ToolOutput(finish, name="finish"), tools=[other], capabilities=[EarlyStart(early=True)]
    )
    assert (await agent.run("Go.")).output == 1
    assert made == [1]


# --- how things end ---------------------------------------------------------------------------------------------------


async def test_the_end_of_a_run_cancels_what_nobody_waits_for() -> None:
    """A tool whose call pydantic-ai skips, because the run has its output, does not outlive the run."""
    ends: list[str] = []
    begun = anyio.Event()

    async def work() -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("cancelled")
        return ""

    def finish(number: int) -> int:
        return number

    reply = [call(0, "work", "{}"), call(1, "finish", '{"number": 1}'), begun]
    agent: Agent[None, int] = Agent(
        model_of(reply),
        output_type=ToolOutput(finish, name="finish"),
        tools=[work],
        end_strategy="early",
        capabilities=[EarlyStart(early=True)],
    )
    assert (await agent.run("Go.")).output == 1
    assert ends == ["cancelled"]


async def test_leaving_an_iteration_cancels_what_had_begun() -> None:
    """A consumer that stops in the middle of a reply leaves nothing running."""
    ends: list[type[BaseException]] = []
    begun = anyio.Event()

    @eagerstream.tool
    async def write(lines: ItemStream[str]) -> str:
        """Write."""
        begun.set()
        try:
            async for _ in lines:
                pass
        except BaseException as error:
            ends.append(type(error))
            raise
        return ""

    reply = [call(0, "write", '{"lines": ["x", "y'), begun, "text", anyio.Event()]
    agent = agent_of(model_of(reply), ours=[write])
    async with agent.iter("Go.") as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for event in stream:
                        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                            break
                break
    assert len(ends) == 1
    assert issubclass(ends[0], InputInterrupted | asyncio.CancelledError)


async def test_an_input_over_the_limits_begins_nothing_more() -> None:
    """A bound that is reached stops early start for the reply, and not the run."""
    look = Look()
    limits = Limits(max_blocks=1)
    reply = [call(0, "look", '{"at": "sea"}'), call(1, "look", '{"at": "hill"}')]
    result = await agent_of(model_of(reply, ["Done."]), ours=[look.ours], limits=limits).run("Go.")
    assert answers(result.all_messages()) == {"call_0": "saw sea", "call_1": "saw hill"}


async def test_an_agent_inside_of_a_tool() -> None:
    """A tool that began early may run an agent of its own, whose calls begin early too."""
    look = Look()
    inner = agent_of(model_of([call(0, "look", '{"at": "sea"}'), NEXT, look.begun], ["Inner."]), theirs=[look.theirs])

    async def ask() -> str:
        return str((await inner.run("Go.")).output)

    outer = Agent(model_of([call(0, "ask", "{}"), NEXT, look.begun], ["Done."]), tools=[ask, other])
    result = await outer.run("Go.", capabilities=[EarlyStart(early=True)])
    assert look.seen == ["sea"]
    assert answers(result.all_messages())["call_0"] == "Inner."


async def test_runs_beside_one_another() -> None:
    """Each run of an agent has calls of its own."""
    look = Look()
    reply = [call(0, "look", '{"at": "sea"}'), NEXT, look.begun]
    agent = agent_of(model_of(reply, ["Done."]), ours=[look.ours])
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(agent.run, "Go.")
    assert look.seen == ["sea"] * 5


async def test_a_message_of_the_user_while_tools_run() -> None:
    """pydantic-ai's own `enqueue` works as it does without an early start: nothing runs twice, and nothing is lost."""
    ran: list[str] = []

    @eagerstream.tool
    async def note(line: str) -> str:
        """Note a line."""
        ran.append(line)
        started.set()
        return f"noted {line}"

    started = anyio.Event()
    seen: list[Any] = []

    def speak() -> None:
        run.enqueue("In German, please.")

    model = model_of([call(0, "note", '{"line": "a"}'), "", started, speak], ["Fertig."])
    agent = Agent(model, capabilities=[EarlyStart([note])])
    async with agent.iter("Note it.") as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    seen += [event async for event in stream]
    assert run.result is not None
    assert (run.result.output, ran) == ("Fertig.", ["a"])
    assert answers(run.result.all_messages()) == {"call_0": "noted a"}
    said = [part for message in run.result.all_messages() for part in message.parts if part.part_kind == "user-prompt"]
    assert [part.content for part in said] == ["Note it.", "In German, please."]
