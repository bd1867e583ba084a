"""Serve an editor that speaks ACP, such as Zed: files appear as the model writes them, and it asks before commands.

Zed starts it with these settings:

    "agent_servers": {"Writer": {"type": "custom", "command": "python", "args": ["/path/to/serve_acp.py"],
                                 "env": {"ANTHROPIC_API_KEY": "..."}}}

Needs: `eagerstream[progress,toolkit]`, `eagerstream-progress[acp]`.

Usage:
    ANTHROPIC_API_KEY=... python serve_acp.py [MODEL]
    eagerstream serve --script -- python serve_acp.py
"""

import asyncio
import sys

import eagerstream
from eagerstream_progress import Hub
from eagerstream_progress.acp import ACPPrompt, serve_acp
from eagerstream_toolkit import Files

import anyio
from anthropic import AsyncAnthropic

hub = Hub()


async def main(model: str) -> None:
    async with AsyncAnthropic() as client:

        def start(prompt: ACPPrompt) -> eagerstream.Run:
            @eagerstream.tool(approve=hub.approve)  # the editor asks
            async def run_command(command: str) -> str:
                """Run a shell command in the project's folder."""
                done = await anyio.run_process(["sh", "-c", command], cwd=prompt.cwd, check=False)
                return eagerstream.printable((done.stdout + done.stderr).decode(errors="replace"))[:20_000]

            return eagerstream.run(
                client,
                model=model,
                max_tokens=32_000,
                max_turns=50,
                tools=[*Files(prompt.cwd), run_command],
                messages=prompt.messages,
            )

        await serve_acp(start, hub=hub, name="writer")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "claude-opus-4-7"))
