"""Let the model call tools with code. Each statement runs while the model writes the next one.

The terminal shows the code as it grows, and beside each line whether it has run.

Needs: `eagerstream[progress,toolkit]`.

Usage:
    ANTHROPIC_API_KEY=... python code_tool.py [MODEL]
    eagerstream serve --script -- python code_tool.py
"""

import sys
from typing import Any

import eagerstream
from eagerstream_progress.terminal import terminal_progress
from eagerstream_toolkit import CodeTool

import anyio
from anthropic import AsyncAnthropic

WEATHER = {"Oslo": (3, 7), "Vienna": (11, 4), "Lima": (19, 2), "Lisbon": (17, 6), "Busan": (14, 5)}

EXAMPLE = """\
import statistics

cities = ["Oslo", "Vienna", "Lima", "Lisbon", "Busan"]
reports = await asyncio.gather(*(get_weather(city=city) for city in cities))
for city, report in zip(cities, reports):
    print(f"{city:<8}{report['degrees']:>4} degrees")

degrees = [report["degrees"] for report in reports]
print(f"mean: {statistics.mean(degrees):.1f} degrees")
max(zip(degrees, cities))[1]
"""


@eagerstream.tool(read_only=True)
async def get_weather(city: str) -> dict[str, Any]:
    """Return the degrees and the wind force in a city."""
    await anyio.sleep(1)
    degrees, wind = WEATHER[city]
    return {"degrees": degrees, "wind": wind}


@terminal_progress()  # every run that begins in it is shown
async def main(model: str) -> None:
    question = f"How warm is it in {', '.join(WEATHER)}, on average? Which city is the warmest?"
    async with (
        AsyncAnthropic() as client,
        CodeTool([get_weather], input_examples=[{"code": EXAMPLE}]) as run_code,
        eagerstream.run(
            client,
            model=model,
            max_tokens=4096,
            max_turns=10,
            tools=[run_code],
            messages=[{"role": "user", "content": question}],
        ) as run,
    ):
        await run.finish()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
