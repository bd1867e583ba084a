"""Send one streaming request without a loop, and show the text and the growing input of a tool.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python get_weather.py [MODEL]
    eagerstream serve --script -- python get_weather.py
"""

import asyncio
import sys

import eagerstream
from eagerstream import InputDelta, InputStop, Outcome, TextDelta, printable

from anthropic import AsyncAnthropic

GET_WEATHER = {
    "name": "get_weather",
    "description": "Get current weather for a city",
    "eager_input_streaming": True,
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


async def main(model: str) -> None:
    async with (
        AsyncAnthropic() as client,
        eagerstream.stream(
            client,
            model=model,
            max_tokens=1024,
            tools=[GET_WEATHER],
            messages=[{"role": "user", "content": "Weather in Paris?"}],
        ) as stream,
    ):
        async for event in stream:
            match event:
                case TextDelta(text=text):
                    print(printable(text), end="", flush=True)
                case InputDelta(input=tool_input):
                    print(f"\rso far: {tool_input.partial}", end="", flush=True)
                case InputStop(input=tool_input) if tool_input.outcome is Outcome.VALID:
                    print(f"\nTool input: {tool_input.value}")
                case InputStop(input=tool_input):
                    print(f"\nNot usable ({tool_input.error}): {tool_input.wrapped}")
    print(stream.message["usage"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
