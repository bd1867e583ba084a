"""State that tools keep under pydantic-ai: for one run of an agent, however it ends, and never for two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from packages.adapters.tests.notes import Keeper
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

import eagerstream
from eagerstream.tools import InProcessExecutor
from eagerstream_adapters.pydantic_ai import EagerToolset, EarlyStart

pytestmark = pytest.mark.anyio


def two_calls(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Call the tool twice, one response after the other."""
    turn = sum(isinstance(message, ModelResponse) for message in messages) % 3
    return ModelResponse([ToolCallPart("keep", {}, f"call_{turn}") if turn < 2 else TextPart("Done.")])


async def two_calls_streamed(messages: list[ModelMessage], _: AgentInfo) -> Any:
    turn = sum(isinstance(message, ModelResponse) for message in messages) % 3
    yield {0: DeltaToolCall(name="keep", json_args="{}", tool_call_id=f"call_{turn}")} if turn < 2 else "Done."


def model() -> FunctionModel:
    return FunctionModel(two_calls, stream_function=two_calls_streamed)


def early(tool: Any) -> Agent[Any, Any]:
    return Agent(model(), capabilities=[EarlyStart([tool])])


def late(tool: Any) -> Agent[Any, Any]:
    return Agent(model(), toolsets=[EagerToolset([tool])])


def elsewhere(tool: Any) -> Agent[Any, Any]:
    return Agent(model(), toolsets=[EagerToolset([tool], executor=InProcessExecutor([tool]))])


def early_elsewhere(tool: Any) -> Agent[Any, Any]:
    return Agent(model(), capabilities=[EarlyStart([tool], executor=InProcessExecutor([tool]))])


@pytest.mark.parametrize("agent_with", [early, late, elsewhere, early_elsewhere])
async def test_a_run(agent_with: Callable[[Any], Agent[Any, Any]]) -> None:
    """Its state has its id, and ends with it, also if the next run continues its messages."""
    keeper = Keeper()
    agent = agent_with(keeper.tool)
    async with agent:  # as servers do: the toolsets are entered for longer than a run
        first = await agent.run("Go.")
        assert keeper.ended == [first.run_id]
        second = await agent.run("Go.", message_history=first.all_messages())
    assert keeper.ids == [first.run_id] * 2 + [second.run_id] * 2
    assert keeper.ended == [first.run_id, second.run_id]


@pytest.mark.parametrize("agent_with", [early, late])
async def test_runs_at_the_same_time(agent_with: Callable[[Any], Agent[Any, Any]]) -> None:
    keeper = Keeper()
    agent = agent_with(keeper.tool)
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(agent.run, "Go.")
    assert len(keeper.ids) == 6
    assert sorted(map(str, {*keeper.ids})) == sorted(map(str, keeper.ended))
    assert len(keeper.ended) == 3


@pytest.mark.parametrize("agent_with", [early, late])
async def test_a_run_that_fails(agent_with: Callable[[Any], Agent[Any, Any]]) -> None:
    keeper = Keeper()
    with pytest.raises(eagerstream.UsageError):
        await agent_with(keeper.tool).run("Go.", capabilities=[Failing()])
    assert len(keeper.ids) == 1
    assert keeper.ended == keeper.ids


class Failing(AbstractCapability[Any]):
    """Fails at the second request."""

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        if ctx.run_step == 2:
            raise eagerstream.UsageError("no more requests")
        return request_context
