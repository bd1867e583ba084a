"""Write a poem into a file line by line, while the model still writes it into the tool's input.

Needs: nothing else.

Usage:
    ANTHROPIC_API_KEY=... python make_file.py [MODEL]
    eagerstream serve --script -- python make_file.py
"""

import sys
from pathlib import Path

import eagerstream
from eagerstream import InputInterrupted, ItemStream, ToolStart, ToolStop, printable

import anyio
from anthropic import AsyncAnthropic


@eagerstream.tool
async def make_file(filename: str, lines_of_text: ItemStream[str]) -> str:
    """Write text to a file.

    Args:
        filename: A plain file name.
        lines_of_text: The lines of text.
    """
    if Path(filename).name != filename:
        raise eagerstream.ToolError("Only a plain file name is allowed.", hint="Leave the folders out.")
    lines = 0
    try:
        async with await anyio.open_file(filename, "w", encoding="utf-8") as file:
            async for line in lines_of_text:  # each as soon as it is finished
                print(printable(line))
                await file.write(f"{line}\n")
                await file.flush()
                lines += 1
    except InputInterrupted:  # the reply broke off, or is not JSON: half a poem is none
        await anyio.Path(filename).unlink()
        return f"removed {filename} again after {lines} lines"
    return f"wrote {lines} lines to {filename}"


async def main(model: str) -> None:
    question = "Can you write a long poem and make a file called poem.txt?"
    async with (
        AsyncAnthropic() as client,
        eagerstream.run(
            client,
            model=model,
            max_tokens=65_536,
            max_turns=10,
            tools=[make_file],
            messages=[{"role": "user", "content": question}],
        ) as run,
    ):
        async for event in run:
            match event:
                case ToolStart(call=call):
                    print(f"--- {call.name} begins, its input is {call.input.outcome or 'still being written'}")
                case ToolStop(call=call):
                    print(f"--- {call.name}: {printable(str((call.result or {}).get('content')))}")
    print(run.result.usage)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
