"""Drive the loop by hand: `Conversation` makes the requests, and you allow each call with y or n.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python step_by_step.py [MODEL]
    eagerstream serve --script -- python step_by_step.py
"""

import asyncio
import sys
from pathlib import Path

import eagerstream
from eagerstream import Outcome, TextDelta, printable

from anthropic import AsyncAnthropic


@eagerstream.tool
def list_files(pattern: str = "*") -> list[str]:
    """Names of the files in the working directory that match a pattern.

    Args:
        pattern: As for a shell, without folders.
    """
    return sorted(path.name for path in Path().glob(pattern))  # a plain def: it runs in a thread


async def main(model: str) -> None:
    conversation = eagerstream.Conversation(
        model=model,
        max_tokens=1024,
        max_turns=10,
        tools=[list_files],
        messages=[{"role": "user", "content": "Which files are here?"}],
    )
    async with AsyncAnthropic() as client:
        while not conversation.ended:
            async with eagerstream.stream(client, **conversation.request()) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        print(printable(event.text), end="", flush=True)  # it may have been told to act on the terminal
            turn = conversation.take(stream)
            for call in turn.calls:
                if call.input.outcome is Outcome.VALID:
                    print(f"\n{printable(call.name)} {call.input.value}: run it? ", end="", flush=True)
                    if (await asyncio.to_thread(sys.stdin.readline)).strip() != "y":
                        call.refuse("The user does not want this to be run.")
            await conversation.execute(turn)  # what has no answer yet, each beside the others
    print(f"\n{conversation.result.status}, {conversation.result.usage}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
