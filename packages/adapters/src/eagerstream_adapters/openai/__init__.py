"""OpenAI's protocol: deltas as growing inputs, tools as functions, results as messages.

The objects may come from the clients of OpenAI, LiteLLM, vLLM, Ollama and others, or be plain dicts. This module
imports none of those clients and needs no extra. With `EarlyCalls`, tools run while the response is still being
written::

    async with EarlyCalls(tools) as calls:
        chunks = ChatChunks(calls.feed)
        async for chunk in await client.chat.completions.create(
            model=..., messages=messages, tools=[to_openai(tool) for tool in tools], stream=True
        ):
            chunks.feed(chunk)
        chunks.close()
        messages += to_messages(await calls.finish(), chunks.text)

For the Responses API, use `ResponseEvents`, `to_openai(tool, api="responses")` and `to_items`.
`eagerstream_adapters.tool_call_chunks` lists the differences between servers.
"""

from __future__ import annotations

from ._deltas import ChatChunks, ResponseEvents
from ._messages import to_items, to_messages, to_openai

__all__ = ["ChatChunks", "ResponseEvents", "to_items", "to_messages", "to_openai"]
