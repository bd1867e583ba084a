"""OpenAI's protocol: its deltas into growing inputs, tools as its functions, results as its messages.

It is read as the client of OpenAI, LiteLLM, vLLM, Ollama and others give it, objects or plain dicts; none of them is
imported here, and no extra is needed. With `EarlyCalls`, tools run while the reply is still being written::

    async with EarlyCalls(tools) as calls:
        chunks = ChatChunks(calls.feed)
        async for chunk in await client.chat.completions.create(
            model=..., messages=messages, tools=[to_openai(tool) for tool in tools], stream=True
        ):
            chunks.feed(chunk)
        chunks.close()
        messages += to_messages(await calls.finish(), chunks.text)

The same for the Responses API: `ResponseEvents`, `to_openai(tool, api="responses")` and `to_items`. What servers do
differently is told of in `eagerstream.integrations.tool_call_chunks`.
"""

from __future__ import annotations

from ._deltas import ChatChunks, ResponseEvents
from ._messages import to_items, to_messages, to_openai

__all__ = ["ChatChunks", "ResponseEvents", "to_items", "to_messages", "to_openai"]
