"""One request with one call of 200 characters, through one client of anthropic: the CPU above the client's own.

The call comes after a text of 100 characters, and all events are padded, as in recorded responses.

"The client alone" sends the same body, and drains the raw bytes of the response. `stream()` and `messages.stream()` are
iterated to the end, and the partial input is read at each delta. A run sends two requests, and its tool is called in
between. It is compared with the tool runner of anthropic, and both with the client alone, which sends the same two
bodies. The server is in another process, and the connection stays open. The response comes in one write, or with one
event per write and two or three milliseconds between the writes. The figures are the CPU time of this process, user and
system, per conversation. The sides alternate, and the least of the rounds counts.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, cast

import anyio
from anthropic import AsyncAnthropic, DefaultAioHttpClient, beta_async_tool
from rich.console import Console
from rich.table import Table

import eagerstream
from eagerstream import InputDelta, RunStatus
from eagerstream_testing import Scenario, Timing, text, tool_use

from .served import served
from .streams import make_input, response, text_before
from .targets import Row

INPUT: Final = make_input("one string", 169)
CHARS: Final = len(json.dumps(INPUT, ensure_ascii=False))
FRAGMENT_CHARS: Final = 7  # the median of real streams
_CALL: Final = tool_use("make_file", json.dumps(INPUT, ensure_ascii=False), fragment_chars=FRAGMENT_CHARS)
PACE_S: Final = 0.002
TARGET: Final = 0.5
_NOISE: Final = 1.2


AT_ONCE: Final = Timing(cut=10**6, speed=float("inf"))
# `Timing` counts four characters as a token.
PACED: Final = Timing(tokens_per_second=FRAGMENT_CHARS / 4 / PACE_S)

_MESSAGES: Final[list[Any]] = [{"role": "user", "content": "Go."}]
_LIMITS: Final[dict[str, Any]] = {"model": "m", "max_tokens": 1000}


async def make_file(filename: str, text: str) -> str:
    """Write a file."""
    assert {"filename": filename, "text": text} == INPUT
    return f"{len(text)} characters"


_OURS: Final = eagerstream.tool(make_file)
_THEIRS: Final = beta_async_tool(make_file)
_REQUEST: Final[dict[str, Any]] = {**_LIMITS, "messages": _MESSAGES, "tools": [_OURS.to_dict()]}


def _scenario(timing: Timing) -> Scenario:
    return Scenario(response(_CALL), response(text("Done.")), timing=timing)


async def _drain(client: AsyncAnthropic, *requests: dict[str, Any]) -> None:
    for request in requests:
        async with client.messages.with_streaming_response.create(**request, stream=True) as answer:
            async for _ in answer.http_response.aiter_raw():
                pass


async def _stream(client: AsyncAnthropic) -> None:
    async with eagerstream.stream(client, **_REQUEST) as stream:
        async for event in stream:
            if type(event) is InputDelta:
                _ = event.input.partial
    before, call = cast("list[dict[str, Any]]", stream.message["content"])
    assert (before["text"], call["input"]) == (text_before(_CALL), INPUT)


async def _peer(client: AsyncAnthropic) -> None:
    async with client.messages.stream(**_REQUEST) as stream:
        async for _ in stream:
            pass  # each delta has the partial input
        message = await stream.get_final_message()
    before, call = (block.to_dict() for block in message.content)
    assert (before["text"], call["input"]) == (text_before(_CALL), INPUT)


async def _run(client: AsyncAnthropic) -> list[Mapping[str, Any]]:
    async with eagerstream.run(client, **_LIMITS, messages=_MESSAGES, tools=[_OURS]) as run:
        async for event in run:
            if type(event) is InputDelta:
                _ = event.input.partial
    assert run.result.status is RunStatus.COMPLETED
    assert run.result.text == "Done."
    return run.result.messages


async def _runner(client: AsyncAnthropic) -> None:
    tools: list[Any] = [_THEIRS]
    message = None
    runner: Any = client.beta.messages.tool_runner(**_LIMITS, messages=_MESSAGES, tools=tools, stream=True)
    async for stream in runner:
        async for _ in stream:
            pass
        message = await stream.get_final_message()
    assert message is not None
    assert message.content[0].text == "Done."


@dataclass
class Side:
    """The least CPU of one side, in seconds per conversation."""

    converse: Callable[[], Awaitable[object]]
    cpu_s: float = float("inf")

    async def measure(self, times: int) -> None:
        """Perform some conversations, and keep the figure if it is the least."""
        gc.collect()
        start = time.process_time()
        for _ in range(times):
            await self.converse()
        self.cpu_s = min(self.cpu_s, (time.process_time() - start) / times)


@dataclass(frozen=True)
class Case:
    """A way in which the responses come, and the HTTP client that receives them.

    Attributes:
        timing: Times of the responses.
        make_client: Makes the HTTP client of the client. None: the client makes its own.
        times: Conversations of each side in a round.
    """

    timing: Timing
    make_client: Callable[[], Any] | None
    times: int


CASES: Final = {
    "in one write": Case(AT_ONCE, None, 25),
    "in one write, aiohttp": Case(AT_ONCE, DefaultAioHttpClient, 25),
    "one event per write": Case(PACED, None, 5),
    "one event per write, aiohttp": Case(PACED, DefaultAioHttpClient, 5),
}


@dataclass(frozen=True)
class Cost:
    """CPU per conversation, in seconds.

    Attributes:
        client_s: Of the client alone.
        ours_s, peers_s: With eagerstream, and with the API of anthropic.
    """

    client_s: float
    ours_s: float
    peers_s: float

    @property
    def ratio(self) -> float:
        """Our part above the client's own, divided by the peer's."""
        return (self.ours_s - self.client_s) / (self.peers_s - self.client_s)

    def __str__(self) -> str:
        client, ours, peers = (f"{cpu_s * 1e6:,.0f}" for cpu_s in (self.client_s, self.ours_s, self.peers_s))
        return f"{self.ratio:.2f} times: {ours} and {peers} µs, of which the client {client}"


STREAM: Final = "stream(), messages.stream()"
RUN: Final = "run() with a tool, tool runner"
"""The compared pairs."""


async def measure(case: Case, rounds: int) -> dict[str, Cost]:
    """Return the costs of both pairs."""
    with served(partial(_scenario, case.timing)) as url:
        http_client = case.make_client() if case.make_client is not None else None
        async with AsyncAnthropic(base_url=url, api_key="k", http_client=http_client) as client:
            history = await _run(client)  # loads modules
            second = {**_REQUEST, "messages": history[:-1]}
            pairs: dict[str, list[Callable[[], Awaitable[object]]]] = {
                STREAM: [partial(_drain, client, _REQUEST), partial(_stream, client), partial(_peer, client)],
                RUN: [partial(_drain, client, _REQUEST, second), partial(_run, client), partial(_runner, client)],
            }
            sides = {name: [Side(converse) for converse in each] for name, each in pairs.items()}
            for each in sides.values():
                for side in each:
                    await side.converse()  # a warm-up
            for _ in range(rounds):
                for each in sides.values():
                    for side in each:
                        await side.measure(case.times)
    return {name: Cost(*(side.cpu_s for side in each)) for name, each in sides.items()}


def main(console: Console, *, quick: bool) -> dict[str, Any]:
    """Measure all cases, print a table, and return the figures."""
    names = list(CASES)[::2] if quick else list(CASES)
    costs = {name: anyio.run(measure, CASES[name], 5 if quick else 16) for name in names}
    table = Table(title=f"CPU per conversation with one call of {CHARS} characters, µs")
    for name in ("response", "compared", "client alone", "eagerstream", "anthropic", "above the client, times"):
        table.add_column(name, justify="left" if name in ("response", "compared") else "right")
    rows: list[Row] = []
    for case, pairs in costs.items():
        for pair, cost in pairs.items():
            us = (f"{cpu_s * 1e6:,.0f}" for cpu_s in (cost.client_s, cost.ours_s, cost.peers_s))
            table.add_row(case, pair, *us, f"{cost.ratio:.2f}")
        ratio = pairs[STREAM].ratio
        row = Row(
            work=f"stream(): one request with one call of {CHARS} characters, {case}",
            against="messages.stream() of anthropic, same client",
            pace="one write per response"
            if CASES[case].timing is AT_ONCE
            else f"one event per write, {PACE_S * 1e3:g} ms apart",
            target=f"at most {TARGET} times its CPU above the client's own (a run fails above {TARGET * _NOISE:.2f})",
            measured=str(pairs[STREAM]),
            met=ratio <= TARGET,
            asserted=not TARGET < ratio <= TARGET * _NOISE,
        )
        rows.append(row)
    console.print(table)
    figures = {case: {pair: asdict(cost) for pair, cost in pairs.items()} for case, pairs in costs.items()}
    return {"chars": CHARS, "cases": figures, "rows": [asdict(row) for row in rows]}


if __name__ == "__main__":
    main(Console(), quick=True)
