"""A poem is written into a tool's input: print each line when it is finished, run the tool when the input is.

Needs ANTHROPIC_API_KEY. Usage: python make_file.py [MODEL]
"""

import sys
from pathlib import Path

import anyio
from anthropic import AsyncAnthropic

import eagerstream
from eagerstream import InputStart, ToolStop


@eagerstream.tool
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write text to a file.

    Args:
        filename: The filename to write text to.
        lines_of_text: The lines of text to write to the file.
    """
    if Path(filename).name != filename:
        raise eagerstream.ToolError("Only a plain file name is allowed.", hint="Leave the folders out.")
    await anyio.Path(filename).write_text("\n".join(lines_of_text) + "\n", encoding="utf-8")
    return f"wrote {len(lines_of_text)} lines to {filename}"


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
                case InputStart(input=poem):
                    # Waiting here holds up nothing: the stream is read, and tools run, all the same.
                    async for line in poem.items("lines_of_text"):
                        print(line)
                case ToolStop(call=call):
                    print(f"--- {call.name}: {(call.result or {}).get('content')}")
    print(run.result.usage)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
