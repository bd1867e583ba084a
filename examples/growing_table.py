"""Ask for a table as JSON, print each row as soon as it is complete, and get the validated table at the end.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python growing_table.py [MODEL]
    eagerstream serve --script -- python growing_table.py
"""

import asyncio
import sys

import eagerstream
from eagerstream import OutputDelta, printable

from anthropic import AsyncAnthropic
from pydantic import BaseModel


class City(BaseModel):
    name: str
    country: str
    people: int


class Table(BaseModel):
    title: str
    rows: list[City]


async def main(model: str) -> None:
    shown = 0
    async with (
        AsyncAnthropic() as client,
        eagerstream.run(
            client,
            model=model,
            max_tokens=2048,
            output=Table,
            messages=[{"role": "user", "content": "The ten largest cities of the world"}],
        ) as run,
    ):
        async for event in run:
            if isinstance(event, OutputDelta):
                rows = event.output.partial.rows or []
                # The last row may still be written. All rows before it are complete.
                for row in rows[shown:-1]:
                    print(printable(f"{row.name}, {row.country}: {row.people}"))
                shown = max(shown, len(rows) - 1)
    result = run.result
    if result.output is None:
        print(f"no table: {result.output_outcome}, {printable(result.output_error or '')}")
    else:
        print(f"{result.output_outcome}, {len(result.output.rows)} rows, {result.usage['output_tokens']} tokens")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
