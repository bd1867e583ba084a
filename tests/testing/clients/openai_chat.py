"""OpenAI's own client, on the double's chat completions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from openai import AsyncOpenAI

from .job import INPUT, MODEL, RESULT, SCHEMA, TOOL, Job, Result

_FUNCTION = {"name": TOOL["name"], "description": TOOL["description"], "parameters": TOOL["input_schema"]}


async def create(job: Job) -> Result:
    async def ask(client: AsyncOpenAI, request: Any) -> dict[str, Any]:
        completion = await client.chat.completions.create(**request)
        message: dict[str, Any] = completion.choices[0].message.to_dict()
        return message

    return await _converse(job, ask)


async def create_stream(job: Job) -> Result:
    async def ask(client: AsyncOpenAI, request: Any) -> dict[str, Any]:
        content = ""
        calls: dict[int, Any] = {}
        async for chunk in await client.chat.completions.create(**request, stream=True):
            for choice in chunk.choices:
                content += choice.delta.content or ""
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, {"id": piece.id, "type": "function", "function": {}})
                    for name in ("name", "arguments"):
                        written = getattr(piece.function, name) or ""
                        call["function"][name] = call["function"].get(name, "") + written
        return {"role": "assistant", "content": content, **({"tool_calls": [*calls.values()]} if calls else {})}

    return await _converse(job, ask)


async def _converse(job: Job, ask: Callable[[AsyncOpenAI, Any], Awaitable[dict[str, Any]]]) -> Result:
    request: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": job.question}]}
    if job.tool:
        request["tools"] = [{"type": "function", "function": _FUNCTION}]
    if job.output:
        form = {"name": "weather", "schema": SCHEMA, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": form}
    if job.broken:
        function = {"name": "get_weather", "arguments": json.dumps(INPUT)}
        call = {"id": "toolu_1", "type": "function", "function": function}
        request["messages"] += [{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "Well?"}]
    result = Result()
    async with AsyncOpenAI(base_url=job.chat_url, api_key="any") as client:
        while True:
            message = await ask(client, request)
            result.text = message["content"] or ""
            calls = message.get("tool_calls") or []
            if not calls:
                break
            result.calls += [json.loads(call["function"]["arguments"]) for call in calls]
            answers = [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]
            request["messages"] = [*request["messages"], message, *answers]
    if job.output:
        result.output = json.loads(result.text)
    return result
