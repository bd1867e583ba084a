"""This library's own `stream` and `run`, over the client of the anthropic package."""

from __future__ import annotations

from typing import Any

from anthropic import AsyncAnthropic

import eagerstream

from .job import RESULT, SCHEMA, TOOL, Job, Result, weather_noted_in


async def stream(job: Job) -> Result:
    request = _request(job)
    if job.tool:
        request["tools"] = [{**TOOL, "eager_input_streaming": job.eager}]
    result = Result()
    async with AsyncAnthropic(base_url=job.base_url, api_key="any") as client:
        while True:
            async with eagerstream.stream(client, **request) as streaming:
                async for event in streaming:
                    _note(result, event)
            message = streaming.message
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            result.calls += [call["input"] for call in calls]
            result.text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
            result.output = streaming.output
            if not calls:
                return result
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
            answers = [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]
            request["messages"] = [*request["messages"], *answers]


async def run(job: Job) -> Result:
    result = Result()
    get_weather = eagerstream.tool(eager=job.eager)(weather_noted_in(result))
    request = _request(job)
    request["tools"] = [get_weather] if job.tool else []
    request["threads"] = "always" if job.threads else "auto"
    async with (
        AsyncAnthropic(base_url=job.base_url, api_key="any") as client,
        eagerstream.run(client, **request) as running,
    ):
        async for event in running:
            _note(result, event)
    result.text = running.result.text
    result.output = running.result.output
    return result


def _request(job: Job) -> dict[str, Any]:
    return job.request | ({"output": SCHEMA} if job.output else {})


def _note(result: Result, event: Any) -> None:
    if isinstance(event, eagerstream.ThinkingDelta):
        result.thinking += event.thinking
