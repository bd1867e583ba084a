"""Run an agent loop with OpenAI's client, and start tools while the response is being written.

Set OPENAI_BASE_URL for vLLM, Ollama and other servers.

Needs: `eagerstream[adapters]`, and the package openai.

Usage:
    OPENAI_API_KEY=... python openai_deltas.py [MODEL]
"""

import sys
from typing import Any

from eagerstream import EarlyCalls, ItemStream, Tool, printable, tool
from eagerstream.tools import ToolCall
from eagerstream_adapters.openai import ChatChunks, to_messages, to_openai

import anyio
from openai import AsyncOpenAI


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"{city}: 15 degrees"


@tool
async def write_poem(lines: ItemStream[str]) -> str:
    """Show a poem to the user."""
    async for line in lines:  # each as soon as it is finished
        print(f"    {printable(line)}")
    return "shown"


def tell_start(call: ToolCall) -> None:
    print(f"--- {call.name} begins, its input is {call.input.outcome or 'still being written'}")


async def main(model: str) -> None:
    tools: list[Tool] = [get_weather, write_poem]
    messages: list[Any] = [
        {"role": "user", "content": "A poem about the weather of today in Oslo and in Lima, please."}
    ]
    async with AsyncOpenAI() as client:
        for _ in range(10):
            async with EarlyCalls(tools, on_start=tell_start) as calls:
                chunks = ChatChunks(calls.feed)
                functions: Any = [to_openai(tool) for tool in tools]
                async for chunk in await client.chat.completions.create(
                    model=model, messages=messages, tools=functions, stream=True
                ):
                    chunks.feed(chunk)
                chunks.close()
                messages += to_messages(await calls.finish(), chunks.text)
            if messages[-1]["role"] == "assistant":
                break
    print(printable(str(messages[-1]["content"])))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "gpt-5-mini")
