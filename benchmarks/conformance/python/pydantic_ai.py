"""pydantic-ai: the parts of a streamed response, by its model of Claude over a transport that answers with the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import BaseToolCallPart, ModelRequest, ToolCallPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

lacks = ["server_calls"]  # it reads those of the API's own tools, and the calls of the cases have other names


def inputs(chunks: Sequence[bytes]) -> dict[str, Any]:
    return asyncio.run(_inputs(chunks))


async def _inputs(chunks: Sequence[bytes]) -> dict[str, Any]:
    async def content() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content()))
    async with DefaultAsyncHttpxClient(transport=transport) as http:
        client = AsyncAnthropic(api_key="none", base_url="http://localhost", http_client=http, max_retries=0)
        model = AnthropicModel("claude", provider=AnthropicProvider(anthropic_client=client))
        async with model_request_stream(model, [ModelRequest.user_text_prompt("x")]) as stream:
            async for _ in stream:
                pass
            response = stream.get()
    calls = [(part, part is response.parts[-1]) for part in response.parts if isinstance(part, BaseToolCallPart)]
    stop_reason = (response.provider_details or {}).get("finish_reason")
    return {
        "inputs": [_input(part, is_last=is_last, stop_reason=stop_reason) for part, is_last in calls],
        "stop_reason": stop_reason,
    }


def _input(part: BaseToolCallPart, *, is_last: bool, stop_reason: Any) -> dict[str, Any]:
    kind = "tool_use" if isinstance(part, ToolCallPart) else "server_tool_use"
    raw = part.args if isinstance(part.args, str) else ""
    item = {"id": part.tool_call_id, "name": part.tool_name, "type": kind, "raw": raw}
    try:
        value = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return {**item, "outcome": "incomplete" if is_last and stop_reason == "max_tokens" else "invalid"}
    return {**item, "outcome": "valid", "value": value}
