"""`messages.create` and `messages.stream` of the anthropic package, in a loop as programs write it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic

from .job import MODEL, RESULT, SCHEMA, TOOL, Job, Result


async def create(job: Job) -> Result:
    async def ask(client: anthropic.AsyncAnthropic, request: Any) -> Any:
        return await client.messages.create(**request)

    return await _converse(job, ask)


async def create_stream(job: Job) -> Result:
    async def ask(client: anthropic.AsyncAnthropic, request: Any) -> Any:
        """Accumulate the events as a program without helpers does."""
        message: Any = None
        inputs: dict[int, str] = {}
        async for event in await client.messages.create(**request, stream=True):
            match event.type:
                case "message_start":
                    message = event.message
                case "content_block_start":
                    message.content.append(event.content_block)
                case "content_block_delta":
                    block, delta = message.content[event.index], event.delta
                    if delta.type == "text_delta":
                        block.text += delta.text
                    elif delta.type == "thinking_delta":
                        block.thinking += delta.thinking
                    elif delta.type == "input_json_delta":
                        inputs[event.index] = inputs.get(event.index, "") + delta.partial_json
                case "content_block_stop" if event.index in inputs:
                    message.content[event.index].input = json.loads(inputs[event.index])
                case _:
                    pass
        return message

    return await _converse(job, ask)


async def stream(job: Job) -> Result:
    async def ask(client: anthropic.AsyncAnthropic, request: Any) -> Any:
        async with client.messages.stream(**request) as streaming:
            return await streaming.get_final_message()

    return await _converse(job, ask)


async def _converse(job: Job, ask: Callable[[anthropic.AsyncAnthropic, Any], Awaitable[Any]]) -> Result:
    request = job.request
    if job.tool:
        request["tools"] = [{**TOOL, "eager_input_streaming": True} if job.eager else TOOL]
    if job.output:
        request["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
    result = Result()
    async with anthropic.AsyncAnthropic(base_url=job.base_url, api_key="any") as client:
        if job.count:
            counted = await client.messages.count_tokens(model=MODEL, messages=job.messages)
            return Result(tokens=counted.input_tokens)
        while True:
            message = await ask(client, request)
            calls = [block for block in message.content if block.type == "tool_use"]
            result.calls += [call.input for call in calls]
            result.text = "".join(block.text for block in message.content if block.type == "text")
            result.thinking += "".join(block.thinking for block in message.content if block.type == "thinking")
            if not calls:
                break
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
            answers = [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
            request["messages"] = [*request["messages"], *answers]
    if job.output:
        result.output = json.loads(result.text)
    return result
