"""`eagerstream watch --demo`: the poem, code that runs while it is written, and a call that waits for approval."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from eagerstream.loop import RunResult, run
from eagerstream.recordings import Recording
from eagerstream.tools import Tool
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, retime, text, thinking, tool_use
from eagerstream_testing.demos import poem

from .. import Hub

NAME: Final = "A poem for the harbour"
_TOOLKIT: Final = "eagerstream_toolkit"
_RUNS_CODE: Final = hasattr(os, "killpg") and find_spec(_TOOLKIT) is not None  # not on Windows
_STEP_S: Final = 0.5
_VISITORS: Final = {"Lisbon": 214, "Porto": 187, "Faro": 96, "Setúbal": 61}

CODE: Final = """\
harbours = ["Lisbon", "Porto", "Faro", "Setúbal"]

# All of them at the same time.
counts = await asyncio.gather(
    *(count_visitors(harbour=name) for name in harbours)
)
for name, visitors in zip(harbours, counts):
    print(f"{name:<8}{visitors:>5} visitors in an evening")

def readers(visitors):
    \"\"\"One of seven reads what hangs on the board.\"\"\"
    return visitors // 7

most, best = max(zip(counts, harbours))
print(f"{best}: about {readers(most)} readers")
print(await get_tide(harbour=best))
best
"""


def _scenario() -> Scenario:
    """Return four turns: the demo's calls, code, a call that needs approval, and a text about the decision."""
    first = reply(
        thinking("A poem in a file, and the weather. The quick questions first, then the long text."),
        text("I'll look at the sea and write it down."),
        tool_use("get_weather", {"city": "Lisbon"}),
        tool_use("get_tide", {"harbour": "Lisbon"}),
        tool_use("make_file", {"filename": "poem.txt", "lines_of_text": poem.POEM}),
    )
    second = reply(
        text("The poem is written. Where would most people read it?"),
        tool_use("run_code", {"code": CODE}),
    )
    third = reply(
        text("I would like to hang it up at the harbour of Lisbon."),
        tool_use("publish", {"filename": "poem.txt", "place": "the harbour's notice board", "until": "2027-03-01"}),
    )

    def fourth(request: Mapping[str, Any]) -> Recording:
        was_refused = request["messages"][-1]["content"][0].get("is_error", False)
        done = (
            "I left it in poem.txt and told nobody." if was_refused else "It hangs at the harbour now, for all to read."
        )
        return retime(reply(text(f"{done} It is 17 degrees in Lisbon, and the tide is rising.")), _timing(0.4, 40))

    coded = [retime(second, _timing(0.5, 50))] if _RUNS_CODE else []
    return Scenario(retime(first, _timing(0.8, 60)), *coded, retime(third, _timing(0.5, 40)), fourth)


def _timing(first_byte_s: float, tokens_per_second: float) -> Timing:
    return Timing(first_byte_s=first_byte_s, tokens_per_second=tokens_per_second, jitter=0.6, seed=7)


async def play_watched(hub: Hub) -> RunResult:
    """Run the conversation to its end on the embedded server. `hub` observes it. Cancelling it closes the server."""
    from anthropic import AsyncAnthropic

    async def publish(filename: str, place: str, until: str) -> AsyncIterator[Any]:
        """Hang up a file where everybody sees it.

        Args:
            filename: What to hang up.
            place: Where.
            until: The last day of it.
        """
        for done, what in enumerate(("printing", "walking there", "hanging it up")):
            yield {"step": what, "done": done, "of": 3}
            await anyio.sleep(_STEP_S)
        yield f"{filename} hangs at {place} until {until}"

    async def count_visitors(harbour: str) -> int:
        """Count the people at a harbour in an evening."""
        await anyio.sleep(_STEP_S + _VISITORS.get(harbour, 0) / 200)
        return _VISITORS.get(harbour, 0)

    with TemporaryDirectory() as folder:
        tools = [*poem.tools(Path(folder), eager=True), Tool(publish, eager=True, approve=hub.approve)]
        if _RUNS_CODE:
            tools.append(import_module(_TOOLKIT).CodeTool([Tool(count_visitors), *tools[:2]]))
        async with (
            ReplayServer(_scenario()) as server,
            AsyncAnthropic(api_key="simulated", base_url=server.base_url) as client,
            run(client, tools=tools, max_turns=10, **poem.request(model="simulated")) as running,
        ):
            hub.observe(running, name=NAME)
            await running.finish()
    return running.result
