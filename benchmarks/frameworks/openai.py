"""OpenAI's client: a loop that reads a response and then runs its calls, compared with calls that start early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import anyio
from openai import AsyncOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from packages.adapters.tests.chat.server import ChatServer

from eagerstream import EarlyCalls, ItemStream, tool
from eagerstream_adapters.openai import ChatChunks, to_messages, to_openai
from eagerstream_testing import Scenario

from ..served import served
from . import HEAD, TOOL_S, Course, compare, row, scenario

QUESTION: list[Any] = [{"role": "user", "content": "Write about the weather."}]


def tools_of(course: Course) -> list[Any]:
    """Return tools that do the same work for both sides."""

    @tool
    async def get_weather(city: str) -> str:
        """Weather in a city."""
        course.note("effect")
        await asyncio.sleep(TOOL_S)
        return f"{city}: 15 degrees"

    @tool
    async def write(lines: ItemStream[str]) -> str:
        """Write lines."""
        async for _ in lines:
            course.note("line")
        return "written"

    return [get_weather, write]


async def alone(client: AsyncOpenAI, course: Course) -> None:
    """Assemble the response with the client's own state, then run the calls concurrently."""

    async def get_weather(city: str) -> str:
        course.note("effect")
        await asyncio.sleep(TOOL_S)
        return f"{city}: 15 degrees"

    async def write(lines: list[str]) -> str:
        for _ in lines:
            course.note("line")
        return "written"

    functions: dict[str, Callable[..., Awaitable[str]]] = {"get_weather": get_weather, "write": write}
    schemas: Any = [to_openai(tool) for tool in tools_of(course)]
    messages = list(QUESTION)
    while True:
        state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
        async for chunk in await client.chat.completions.create(
            model="m", messages=messages, tools=schemas, stream=True
        ):
            state.handle_chunk(chunk)
        message = state.get_final_completion().choices[0].message
        calls = message.tool_calls or []
        if not calls:
            break
        course.note("last byte")
        results = await asyncio.gather(
            *(functions[call.function.name](**json.loads(call.function.arguments)) for call in calls)
        )
        course.note("results")
        messages.append(
            message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True, exclude={"parsed"})
        )
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": result}
            for call, result in zip(calls, results, strict=True)
        ]
    course.note("end")


async def early(client: AsyncOpenAI, course: Course) -> None:
    """Start each call at the end of its input. The call over the array starts inside its arguments."""
    tools = tools_of(course)
    schemas: Any = [to_openai(tool) for tool in tools]
    messages = list(QUESTION)
    while messages[-1]["role"] != "assistant":
        async with EarlyCalls(tools) as calls:
            chunks = ChatChunks(calls.feed)
            async for chunk in await client.chat.completions.create(
                model="m", messages=messages, tools=schemas, stream=True
            ):
                chunks.feed(chunk)
            chunks.close()
            course.note("last byte")
            messages += to_messages(await calls.finish(), chunks.text)
            course.note("results")
    course.note("end")


@asynccontextmanager
async def sides(url: str) -> AsyncIterator[tuple[Any, Any]]:
    """Yield both sides, with one client."""
    async with AsyncOpenAI(base_url=url, api_key="any") as client:
        yield partial(alone, client), partial(early, client)


async def main(url: str) -> None:
    """Measure both sides, and print the table."""
    async with sides(url) as both:
        print(f"{HEAD}\n{row('openai', await compare(*both, repeats=3))}")


def _serve(replies: Scenario, connection: Connection) -> None:
    with ChatServer(replies) as server:
        connection.send(server.chat_url())
        connection.poll(None)


if __name__ == "__main__":
    with served(scenario, _serve) as address:
        anyio.run(main, address)
