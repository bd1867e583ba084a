"""Run tools on a Ray cluster: the input reaches a worker while it is written, progress comes back.

ADDRESS is a cluster's, or "auto" for that of this machine. Without it, a cluster starts here, and ends with the run.

Needs: `eagerstream-durable[ray]`.

Usage:
    ANTHROPIC_API_KEY=... python remote_tools.py [ADDRESS]
    eagerstream serve --script -- python remote_tools.py
"""

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator

import eagerstream
from eagerstream import ItemStream, TextDelta, ToolProgress, printable
from eagerstream_durable.ray import RayExecutor, RayPool

import anthropic


@eagerstream.tool(idempotent=True)
async def sign_lines(lines: ItemStream[str]) -> AsyncGenerator[str, None]:
    """Sign a text line by line.

    Args:
        lines: The lines of the text.
    """
    number, signed = 0, hashlib.sha256()
    async for line in lines:  # each as soon as the model has written it
        number += 1
        signed.update(line.encode())
        yield f"line {number}"
    yield f"{number} lines, {signed.hexdigest()[:8]}"  # the last value is the result


async def main(address: str | None) -> None:
    tools = [sign_lines]
    async with RayPool(workers=2, address=address) as pool, anthropic.AsyncAnthropic() as client:
        async with eagerstream.run(
            client,
            model="claude-opus-4-7",
            max_tokens=4096,
            max_turns=10,
            tools=tools,
            executor=RayExecutor(tools, pool=pool),
            messages=[{"role": "user", "content": "Write a haiku, and sign it."}],
        ) as run:
            async for event in run:
                match event:
                    case TextDelta():
                        print(printable(event.text), end="", flush=True)
                    case ToolProgress():
                        print(printable(f"[{event.value}]"), flush=True)
        print(f"\n{run.result.status}, {pool.stats}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
