"""Run a coding agent with bash, an editor and a memory: its files grow on disk while it writes them.

Without a task, a scripted session of ten turns runs in a temporary folder. The files of a task stay in
coding-agent/work. Commands run with your rights. `Bash(argv=...)` runs them in a container.

Needs: `eagerstream[testing,toolkit]`.

Usage:
    ANTHROPIC_API_KEY=... python coding_agent.py TASK [MODEL]
    python coding_agent.py
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import eagerstream
from eagerstream import TextDelta, ToolProgress, ToolStop, printable
from eagerstream_testing import ReplayServer, Timing
from eagerstream_testing.demos import coding
from eagerstream_toolkit import Bash, EagerTextEditor, Memory

import anyio
from anthropic import AsyncAnthropic


@asynccontextmanager
async def scripted() -> AsyncIterator[AsyncAnthropic]:
    """Return a client of a server in this process, which plays the session."""
    session = coding.session(timing=Timing(tokens_per_second=150))
    async with ReplayServer(session) as server, AsyncAnthropic(api_key="none", base_url=server.base_url) as client:
        yield client


async def main(task: str | None, model: str, folder: Path) -> None:
    async with AsyncAnthropic() if task else scripted() as client, Bash(cwd=folder) as bash:
        tools = [bash, EagerTextEditor(folder), Memory(folder.with_name("memories"))]
        async with eagerstream.run(
            client,
            model=model,
            max_tokens=32_000,
            max_turns=50,
            tools=tools,
            messages=[{"role": "user", "content": task or coding.TASK}],
        ) as run:
            async for event in run:
                match event:
                    case TextDelta(text=text):
                        print(printable(text), end="", flush=True)
                    case ToolProgress(call=call, value={"path": str(path)}):  # from the editor, while it writes
                        lines = (folder / path).read_bytes().count(b"\n") if (folder / path).is_file() else 0
                        state = "still being written" if call.input.outcome is None else "complete"
                        print(f"\n  {printable(path)}: {lines} lines on disk, {state}", end="")
                    case ToolStop(call=call):
                        print(f"\n  {call.name}: {printable(str((call.result or {}).get('content', 'done')))}")
    print(f"\n{run.result.status}, {run.result.turns} turns")


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        task = sys.argv[1] if len(sys.argv) > 1 else None
        model = sys.argv[2] if len(sys.argv) > 2 else "claude-opus-4-7"
        folder = Path("coding-agent" if task else temporary) / "work"
        folder.mkdir(parents=True, exist_ok=True)
        anyio.run(main, task, model, folder)
