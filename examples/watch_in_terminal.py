"""A run in the terminal: each call a panel that grows while its input is written, and what came of it.

Needs ANTHROPIC_API_KEY. Usage: python watch_in_terminal.py [MODEL]
"""

import sys
from typing import Any

import anyio
from anthropic import AsyncAnthropic

import eagerstream
from eagerstream.progress.terminal import terminal_progress


@eagerstream.tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    await anyio.sleep(1)
    return f"{city}: 15 degrees"


@terminal_progress()  # every run that begins in it is shown
async def main(model: str) -> None:
    question = "How is the weather in Oslo, Vienna and Lima?"
    options: Any = {"model": model, "max_tokens": 1024, "max_turns": 10, "tools": [get_weather]}
    async with (
        AsyncAnthropic() as client,
        eagerstream.run(client, messages=[{"role": "user", "content": question}], **options) as run,
    ):
        await run.finish()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
