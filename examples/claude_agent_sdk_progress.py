"""Watch Claude Code's tool inputs grow, and write a file while its poem is still being written.

Needs: `eagerstream-adapters[claude-agent-sdk]`.

Usage:
    ANTHROPIC_API_KEY=... python claude_agent_sdk_progress.py [MODEL]
    eagerstream serve --script -- python claude_agent_sdk_progress.py
"""

import sys
from pathlib import Path

import eagerstream
from eagerstream import InputDelta, InputStop, ItemStream, printable
from eagerstream_adapters.claude_agent_sdk import AgentInputs, EarlyTools

import anyio
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query


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


async def main(model: str) -> None:
    inputs = AgentInputs()
    async with EarlyTools([make_file]) as early:
        # No rules or hooks of the user's own are loaded: what begins early could not be forbidden by them.
        options = early.options(ClaudeAgentOptions(model=model, setting_sources=[], tools=[]))
        prompt = "Can you write a long poem and make a file called poem.txt?"
        async for message in early.follow(query(prompt=prompt, options=options)):
            for change in inputs.feed(message):
                whose = change.parent_tool_use_id or "the agent"
                match change.event:
                    case InputDelta(input=input):
                        print(f"--- {whose} writes {input.name}, {input.chars} characters")
                    case InputStop(input=input):
                        print(f"--- {input.name}: {input.outcome}")
                    case _:
                        pass
            if isinstance(message, ResultMessage):
                print(printable(message.result or message.subtype))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7")
