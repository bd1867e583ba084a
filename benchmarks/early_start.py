"""Start times of tools, and the time saved: eagerstream, the anthropic tool runner and pydantic-ai on one response.

The response calls `fast1` and `fast2`, whose inputs end at 0.1 and 0.2 s. It also calls `write`, whose input ends at
1.88 s. The response ends at 1.9 s. Its events are padded. It has no text before the calls, because a script sets
the times of the calls. All sides send requests to the same kind of embedded server through the anthropic client, one
after the other. Times count from the arrival of the request. The delay of the server is in all of them. The tool runner
runs without message threads (`thread=False`), because the server has none.

Early start has a limit: the call that is written last starts no earlier than elsewhere, unless its tool streams.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import anyio
from anthropic import AsyncAnthropic, beta_async_tool
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import InputDelta, ItemStream, Recording
from eagerstream.recordings import Chunk
from eagerstream_testing import ReplayServer, Scenario, encode_event, text

from .streams import padded, response

FAST_CLOSED_S = (0.10, 0.20)
WRITTEN_S = 1.88
END_S = 1.90
PACE = f"at scripted times, {END_S:g} s for a response"
LINES = [f"line number {number} of what is written" for number in range(40)]
WRITE_TOOL_S = 0.5
_MESSAGES: Any = [{"role": "user", "content": "Go."}]
_REQUEST: dict[str, Any] = {"model": "claude-opus-4-7", "max_tokens": 1024, "messages": _MESSAGES}


def _schedule() -> tuple[Recording, dict[str, float]]:
    """Return the response with its times, and the times at which certain bytes are sent, by name."""
    marks: dict[str, float] = {}
    events: list[tuple[float, dict[str, Any]]] = []

    def call(index: int, name: str, raw: str, first_s: float, last_s: float, pieces: int) -> None:
        block = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}}
        events.append((first_s, {"type": "content_block_start", "index": index, "content_block": block}))
        size = -(-len(raw) // pieces)
        starts = range(0, len(raw), size)
        for number, at in enumerate(starts):
            at_s = first_s + (last_s - first_s) * (number + 1) / len(starts)
            delta = {"type": "input_json_delta", "partial_json": raw[at : at + size]}
            events.append((at_s, {"type": "content_block_delta", "index": index, "delta": delta}))
            if "first_item" not in marks and raw[: at + size].count('", "') == 1:
                marks["first_item"] = at_s
        events.append((last_s, {"type": "content_block_stop", "index": index}))

    message: dict[str, Any] = {"id": "msg_early", "type": "message", "role": "assistant", "model": "m", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    events.append((0.0, {"type": "message_start", "message": message}))
    call(0, "fast1", '{"n": 1}', 0.02, FAST_CLOSED_S[0], 2)
    call(1, "fast2", '{"n": 2}', 0.12, FAST_CLOSED_S[1], 2)
    call(2, "write", json.dumps({"lines": LINES}), 0.22, WRITTEN_S, 160)
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append((END_S, {"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}}))
    events.append((END_S, {"type": "message_stop"}))
    return padded(Recording(tuple(Chunk(at_s, encode_event(event)) for at_s, event in events))), marks


@dataclass
class Marks:
    """Observations of one run, in seconds since the first request arrived."""

    origin_s: float = 0.0
    starts: dict[str, float] = field(default_factory=dict)
    requests: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    first_item_s: float | None = None

    def now(self) -> float:
        """Return the seconds since the first request arrived."""
        return time.perf_counter() - self.origin_s

    @property
    def stall_s(self) -> float:
        """Longest time between two events of the response at the consumer."""
        during = [at for at in self.seen if len(self.requests) < 2 or at < self.requests[1]]
        return max((later - earlier for earlier, later in pairwise(during)), default=0.0)


@dataclass(frozen=True)
class Row:
    """One side at one length of the fast tools, in seconds. `stall_s`: the longest gap minus the scripted one."""

    side: str
    fast_tool_s: float
    fast1_start_s: float
    stall_s: float
    second_request_s: float
    critical_path_s: float
    first_item_s: float | None
    first_item_late_s: float | None


@asynccontextmanager
async def _served(marks: Marks) -> AsyncIterator[AsyncAnthropic]:
    recording, _ = _schedule()

    def first(_: Any) -> Recording:
        marks.origin_s = time.perf_counter()
        marks.requests.append(0.0)
        return recording

    def second(_: Any) -> Recording:
        marks.requests.append(marks.now())
        return response(text("Done."))

    with ReplayServer(Scenario(first, second), buffer_inputs=False) as server:  # the same times for all sides
        async with AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0) as client:
            yield client


def _tools(marks: Marks, fast_s: float) -> dict[str, Callable[..., Coroutine[Any, Any, str]]]:
    async def fast1(n: int) -> str:
        """One."""
        marks.starts["fast1"] = marks.now()
        await anyio.sleep(fast_s)
        return str(n)

    async def fast2(n: int) -> str:
        """Two."""
        marks.starts["fast2"] = marks.now()
        await anyio.sleep(fast_s)
        return str(n)

    async def write(lines: list[str]) -> str:
        """Write lines."""
        marks.starts["write"] = marks.now()
        await anyio.sleep(WRITE_TOOL_S)
        return str(len(lines))

    return {"fast1": fast1, "fast2": fast2, "write": write}


async def _eagerstream(marks: Marks, fast_s: float, *, streaming: bool = False) -> None:
    functions = _tools(marks, fast_s)
    tools = [eagerstream.tool(function) for function in functions.values()]
    if streaming:

        async def write(lines: ItemStream[str]) -> str:
            """Write lines. Each takes its share of the time of all lines."""
            marks.starts["write"] = marks.now()
            count = 0
            async for _ in lines:
                marks.first_item_s = marks.first_item_s or marks.now()
                count += 1
                await anyio.sleep(WRITE_TOOL_S / len(LINES))
            return str(count)

        write.__annotations__["lines"] = ItemStream[str]
        tools[-1] = eagerstream.tool(write)
    async with _served(marks) as client, eagerstream.run(client, tools=tools, max_turns=5, **_REQUEST) as run:
        async for event in run:
            if isinstance(event, InputDelta):
                marks.seen.append(marks.now())


async def _anthropic(marks: Marks, fast_s: float, *, eager: bool) -> None:
    tools = [beta_async_tool(function) for function in _tools(marks, fast_s).values()]
    async with _served(marks) as client:
        runner = client.beta.messages.tool_runner(
            tools=tools, stream=True, run_tools_eagerly=eager, max_iterations=5, thread=False, **_REQUEST
        )
        async for stream in runner:
            async for event in stream:
                if event.type == "content_block_delta":
                    marks.seen.append(marks.now())


async def _pydantic_ai(marks: Marks, fast_s: float) -> None:
    from pydantic_ai import Agent, Tool
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    tools = [Tool(function, takes_ctx=False) for function in _tools(marks, fast_s).values()]
    async with _served(marks) as client:
        model = AnthropicModel(_REQUEST["model"], provider=AnthropicProvider(anthropic_client=client))
        agent: Any = Agent(model, tools=tools)
        events: Any
        async with agent.iter("Go.") as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            marks.seen.append(marks.now())


_SIDES: dict[str, Callable[[Marks, float], Awaitable[None]]] = {
    "anthropic runner": lambda marks, fast_s: _anthropic(marks, fast_s, eager=False),
    "anthropic runner, eager": lambda marks, fast_s: _anthropic(marks, fast_s, eager=True),
    "pydantic-ai": _pydantic_ai,
    "eagerstream": _eagerstream,
    "eagerstream, write streams": lambda marks, fast_s: _eagerstream(marks, fast_s, streaming=True),
}


def _critical_path_s(fast_s: float, *, streams: bool) -> float:
    """Return the earliest possible time of the second request, if no tool waits longer than it needs."""
    last_item_s = WRITTEN_S + WRITE_TOOL_S / len(LINES)
    return max(END_S, FAST_CLOSED_S[1] + fast_s, last_item_s if streams else WRITTEN_S + WRITE_TOOL_S)


async def measure(side: str, fast_s: float) -> Row:
    """Measure one side once."""
    marks = Marks()
    await _SIDES[side](marks, fast_s)
    recording, script = _schedule()
    times = [chunk.at_s for chunk in recording.chunks if b"input_json_delta" in chunk.data]
    scripted_s = max(later - earlier for earlier, later in pairwise(times))
    return Row(
        side,
        fast_s,
        marks.starts["fast1"],
        max(0.0, marks.stall_s - scripted_s),
        marks.requests[1],
        _critical_path_s(fast_s, streams="streams" in side),
        marks.first_item_s,
        None if marks.first_item_s is None else marks.first_item_s - script["first_item"],
    )


def main(console: Console, *, quick: bool = False) -> dict[str, Any]:
    """Measure every side, print tables, and return the figures."""
    rows = []
    sides = [side for side in _SIDES if side != "pydantic-ai" or find_spec("pydantic_ai")]
    if len(sides) < len(_SIDES):
        console.print("pydantic-ai is skipped: it is not installed. make bench installs it.")
    for fast_s in (0.5,) if quick else (0.5, 2.0):
        table = Table(title=f"Start times: fast tools of {fast_s:g} s (seconds since the request)")
        for name in ("side", "fast1 starts", "longest stall", "2nd request", "critical path", "first item handled"):
            table.add_column(name, justify="left" if name == "side" else "right")
        for side in sides:
            row = anyio.run(measure, side, fast_s)
            rows.append(row)
            late_s = row.first_item_late_s
            table.add_row(
                side,
                f"{row.fast1_start_s:.3f}",
                f"{row.stall_s:.3f}",
                f"{row.second_request_s:.3f}",
                f"{row.critical_path_s:.3f} ({row.second_request_s / row.critical_path_s - 1:+.1%})",
                "" if late_s is None else f"{row.first_item_s:.3f} ({late_s * 1000:+.1f} ms)",
            )
        console.print(table)
    return {"pace": PACE, "sides": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console())
