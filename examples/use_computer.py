"""Let Claude use a page in Chromium: it looks, clicks, types and scrolls.

Every screenshot is saved as screenshot-N.png.

Needs: the extras `computer` and `web`, Chromium and its driver (`apt install chromium chromium-driver`).

Usage:
    ANTHROPIC_API_KEY=... python use_computer.py --live
    python use_computer.py
"""

import base64
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import eagerstream
from eagerstream import ToolStop, printable
from eagerstream.builtin import ChromiumPage, Computer
from eagerstream.testing import ReplayServer, Scenario, reply, text, tool_use

import anyio
from anthropic import AsyncAnthropic

PAGE = Path(__file__).with_suffix(".html").as_uri()
QUESTION = "Order a cup of tea for Ada on the page that you see, and tell me what it says."


def action(name: str, **input: Any) -> Any:
    call = tool_use(name, input)
    return replace(call, block={**call.block, "toolset_name": "computer"})


ORDER = [
    action("left_click", coordinate=[300, 225]),  # the field
    action("type", text="Ada"),
    action("scroll", coordinate=[500, 500], scroll_direction="down", scroll_amount=20),
    action("left_click", coordinate=[200, 305]),  # the button
    action("screenshot"),
    action("zoom", region=[100, 350, 500, 450]),
]
SCRIPT = Scenario(reply(action("screenshot")), reply(*ORDER), reply(text("Tea for Ada is on its way.")))


async def use(page: ChromiumPage, client: AsyncAnthropic) -> None:
    images = 0
    async with eagerstream.run(
        client,
        model="claude-opus-4-7",
        max_tokens=4096,
        max_turns=20,
        tools=[Computer(page)],
        messages=[{"role": "user", "content": QUESTION}],
    ) as run:
        async for event in run:
            if isinstance(event, ToolStop) and (response := event.call.response):
                print(f"{event.call.name}: {printable(response.text)}")
                for block in response.content:
                    images += 1
                    png = base64.b64decode(block["source"]["data"])
                    await anyio.Path(f"screenshot-{images}.png").write_bytes(png)
    print(run.result.status, printable(run.result.messages[-1]["content"][-1].get("text", "")))


async def main() -> None:
    async with ChromiumPage(PAGE) as page, ReplayServer(SCRIPT) as server:
        client = AsyncAnthropic() if "--live" in sys.argv else AsyncAnthropic(base_url=server.base_url, api_key="none")
        async with client:
            await use(page, client)


if __name__ == "__main__":
    anyio.run(main)
