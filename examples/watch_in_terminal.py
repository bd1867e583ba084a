"""Show a run in the terminal: each call is a panel that grows while its input is written.

Needs: `eagerstream[progress]`.

Usage:
    ANTHROPIC_API_KEY=... python watch_in_terminal.py [MODEL]
    eagerstream serve --script -- python watch_in_terminal.py
"""

import sys

import eagerstream
from eagerstream_progress.terminal import terminal_progress

import anyio
from anthropic import AsyncAnthropic


@eagerstream.tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    await anyio.sleep(1)
    return f"{city}: 15 degrees"


@terminal_progress()  # every run that begins in it is shown
async def main(model: str) -> None:
    question = "How is the weather in Oslo, Vienna and Lima?"
    async with (
        AsyncAnthropic() as client,
        eagerstream.run(
            client,
            model=model,
            max_tokens=1024,
            max_turns=10,
            tools=[get_weather],
            messages=[{"role": "user", "content": question}],
        ) as run,
    ):
        await run.finish()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
