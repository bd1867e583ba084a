"""Save a run after each turn, end it cleanly with Ctrl-C, and continue it at the next start.

An unfinished run is in run.json.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python resume.py [MODEL]
    eagerstream serve --script -- python resume.py
"""

import asyncio
import signal
import sys
from pathlib import Path

import eagerstream
from eagerstream import Restarted, RunResult, RunStatus, TextDelta, TurnStop, printable

from anthropic import AsyncAnthropic
from anthropic.types import MessageParam

SAVED = Path("run.json")
QUESTION: list[MessageParam] = [
    {"role": "user", "content": "Note down three rivers, one call after the other, then say that you did."}
]


@eagerstream.tool(on_cancel="finish")  # what has begun to be written is written, and the model will know
def add_note(text: str) -> str:
    """Add a line to notes.txt."""
    with Path("notes.txt").open("a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")
    return "added"


def saved() -> RunResult | None:
    return RunResult.from_json(SAVED.read_text(encoding="utf-8")) if SAVED.exists() else None


def save(result: RunResult) -> None:
    if result.status is RunStatus.COMPLETED:
        SAVED.unlink(missing_ok=True)
        return
    SAVED.with_suffix(".new").write_text(result.to_json(), encoding="utf-8")
    SAVED.with_suffix(".new").replace(SAVED)  # whole, or not at all


async def main(model: str) -> None:
    async with (
        AsyncAnthropic() as client,
        eagerstream.run(client, model=model, max_tokens=1024, tools=[add_note], messages=saved() or QUESTION) as run,
    ):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, run.cancel)
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(printable(text), end="", flush=True)
                case Restarted(error=error):
                    print(f"\n(once more: {error})")
                case TurnStop():
                    save(run.result)
    print(f"\n{run.result.status}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
