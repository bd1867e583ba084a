"""Show a run on a web page: growing inputs, a time line, and a call that waits for your approval.

Open the URL that it prints.

Needs: `eagerstream[progress]`.

Usage:
    ANTHROPIC_API_KEY=... python watch_in_browser.py
    eagerstream serve --script -- python watch_in_browser.py
"""

from contextlib import suppress

import eagerstream
from eagerstream_progress import Hub
from eagerstream_progress.web import serve

import anthropic
import anyio

hub = Hub()


@eagerstream.tool(approve=hub.approve)
async def make_file(filename: str, lines_of_text: list[str]) -> str:
    """Write text to a file.

    Args:
        filename: The filename to write text to.
        lines_of_text: The lines of text to write to the file.
    """
    if anyio.Path(filename).name != filename:
        raise PermissionError("only a plain file name is allowed")
    await anyio.Path(filename).write_text("\n".join(lines_of_text), encoding="utf-8")
    return f"wrote {len(lines_of_text)} lines to {filename}"


async def main() -> None:
    async with serve(hub) as server, anthropic.AsyncAnthropic() as client:
        print("open", server.url, flush=True)
        async with eagerstream.run(
            client,
            model="claude-opus-4-7",
            max_tokens=65_536,
            max_turns=10,
            tools=[make_file],
            messages=[{"role": "user", "content": "Can you write a long poem and make a file called poem.txt?"}],
        ) as run:
            hub.observe(run, name="A poem")
            await run.finish()
        print("Ctrl-C ends it.", flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        anyio.run(main)
