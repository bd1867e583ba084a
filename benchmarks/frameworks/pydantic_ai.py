"""pydantic-ai: an agent as in its documentation, compared with the same agent with the capability `EarlyStart`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.messages import FunctionToolCallEvent, FunctionToolResultEvent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from eagerstream import ItemStream, tool
from eagerstream_adapters.pydantic_ai import EarlyStart

from ..served import served
from . import TOOL_S, Course, measure, scenario


async def _run(agent: Agent[None, str], course: Course, tool_s: float) -> None:
    async def get_weather(city: str) -> str:
        """Weather in a city."""
        course.note("effect")
        await asyncio.sleep(tool_s)
        return f"{city}: 15 degrees"

    agent.tool_plain(get_weather)
    results = 0
    async with agent.run_stream_events("Write about the weather.") as events:
        async for event in events:
            match event:
                case FunctionToolCallEvent() if "last byte" not in [name for name, _ in course.events]:
                    course.note("last byte")
                case FunctionToolResultEvent():
                    results += 1
                    if results == 4:
                        course.note("results")
                case _:
                    pass
    course.note("end")


async def alone(model: AnthropicModel, course: Course, tool_s: float = TOOL_S) -> None:
    """Run an agent that calls its tools concurrently after the end of the response."""
    agent = Agent(model)

    @agent.tool_plain
    async def write(lines: list[str]) -> str:
        """Write lines."""
        for _ in lines:
            course.note("line")
        return "written"

    await _run(agent, course, tool_s)


async def early(model: AnthropicModel, course: Course, tool_s: float = TOOL_S) -> None:
    """Run an agent whose own tool starts at the end of its input. The tool over the array starts inside its input."""

    @tool
    async def write(lines: ItemStream[str]) -> str:
        """Write lines."""
        async for _ in lines:
            course.note("line")
        return "written"

    await _run(Agent(model, capabilities=[EarlyStart([write], early=["get_weather"])]), course, tool_s)


def sides(url: str, tool_s: float = TOOL_S) -> tuple[AsyncAnthropic, Any, Any]:
    """Return a client and both sides, which use it. The caller must close the client."""
    client = AsyncAnthropic(base_url=url, api_key="any", max_retries=0)
    model = AnthropicModel("claude-opus-4-7", provider=AnthropicProvider(anthropic_client=client))
    return client, partial(alone, model, tool_s=tool_s), partial(early, model, tool_s=tool_s)


if __name__ == "__main__":
    with served(scenario) as url:
        _, *both = sides(url)
        measure("pydantic-ai", *both, repeats=3)
