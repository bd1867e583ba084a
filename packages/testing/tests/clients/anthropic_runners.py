"""Both tool runners of the anthropic package: `AsyncAnthropic` and `Anthropic`; plain, streamed and eager."""

from __future__ import annotations

from typing import Any

import anthropic
import anyio
from anthropic import beta_async_tool, beta_tool
from pydantic import BaseModel

from .job import RESULT, Job, Result, weather_noted_in


class _Weather(BaseModel):
    city: str
    degrees: int


async def plain(job: Job) -> Result:
    return await _run(job)


async def streamed(job: Job) -> Result:
    return await _run(job, stream=True)


async def eager(job: Job) -> Result:
    return await _run(job, stream=True, run_tools_eagerly=True)


async def sync_plain(job: Job) -> Result:
    return await anyio.to_thread.run_sync(lambda: _run_sync(job))


async def sync_streamed(job: Job) -> Result:
    return await anyio.to_thread.run_sync(lambda: _run_sync(job, stream=True))


async def sync_eager(job: Job) -> Result:
    return await anyio.to_thread.run_sync(lambda: _run_sync(job, stream=True, run_tools_eagerly=True))


async def _run(job: Job, **mode: Any) -> Result:
    result = Result()
    tools = [beta_async_tool(weather_noted_in(result), eager_input_streaming=job.eager or None)] if job.tool else []
    async with anthropic.AsyncAnthropic(base_url=job.base_url, api_key="any") as client:
        runner: Any = client.beta.messages.tool_runner(**_request(job), tools=tools, **mode)
        async for each in runner:
            message = await each.get_final_message() if "stream" in mode else each
            _note(result, message)
    return result


def _run_sync(job: Job, **mode: Any) -> Result:
    result = Result()

    def get_weather(city: str, days: list[str]) -> str:
        """Current weather in a city."""
        result.calls.append({"city": city, "days": days})
        return RESULT

    tools = [beta_tool(get_weather, eager_input_streaming=job.eager or None)] if job.tool else []
    with anthropic.Anthropic(base_url=job.base_url, api_key="any") as client:
        runner: Any = client.beta.messages.tool_runner(**_request(job), tools=tools, **mode)
        for each in runner:
            _note(result, each.get_final_message() if "stream" in mode else each)
    return result


def _request(job: Job) -> dict[str, Any]:
    return job.request | ({"output_format": _Weather} if job.output else {})


def _note(result: Result, message: Any) -> None:
    result.text = "".join(block.text for block in message.content if block.type == "text")
    result.thinking += "".join(block.thinking for block in message.content if block.type == "thinking")
    if isinstance(message.parsed_output, _Weather):
        result.output = message.parsed_output.model_dump()
