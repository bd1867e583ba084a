"""Start the tools of a pydantic-ai agent while the model writes, its own as well as eagerstream's.

Needs: `eagerstream-adapters[pydantic-ai]`.

Usage:
    ANTHROPIC_API_KEY=... python pydantic_ai_agent.py [MODEL]
    eagerstream serve --script -- python pydantic_ai_agent.py
"""

import sys
from pathlib import Path

import eagerstream
from eagerstream import ItemStream, printable
from eagerstream.tools import ToolCall
from eagerstream_adapters.pydantic_ai import EarlyStart

import anyio
from pydantic_ai import Agent, RunContext


@eagerstream.tool
async def make_file(filename: str, lines_of_text: ItemStream[str]) -> str:
    """Write text to a file.

    Args:
        filename: A plain file name.
        lines_of_text: The lines of text.
    """
    async with await anyio.open_file(Path(filename).name, "w", encoding="utf-8") as file:
        async for line in lines_of_text:  # each as soon as it is finished
            print(printable(line))
            await file.write(f"{line}\n")
    return f"wrote {Path(filename).name}"


async def sign(context: RunContext[str], title: str) -> str:
    """Enter a title into the register of works."""
    print(f"--- signed: {printable(title)} by {context.deps}")
    return f"{title} is registered."


def began(call: ToolCall) -> None:
    print(f"--- {call.name} begins, its input is {call.input.outcome or 'still being written'}")


async def main(model: str) -> None:
    early = EarlyStart([make_file], early=["sign"], on_start=began)
    agent = Agent(
        f"anthropic:{model}", deps_type=str, tools=[sign], capabilities=[early], model_settings={"max_tokens": 65_536}
    )
    result = await agent.run("Register a long poem, and make a file called poem.txt of it.", deps="Ada")
    print(printable(result.output))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
