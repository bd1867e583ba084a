"""The clients of `thousand_runs`. Each has one conversation per run, with as many connections as there are runs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import aiohttp
import anyio
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient

import eagerstream
from eagerstream import HTTPTransport, InputDelta, Restarted, RunStatus, TextDelta

from .thousand_server import CALLS, input_of, request_of, result_of, text_of

RUNS_OF_ONE: Final = 100
"""Number of runs that share a client of httpx2. It scans all its connections at every request."""
PATIENCE_S: Final = 300.0
_TOOL_S: Final = 0.05
_HEADERS: Final = {"content-type": "application/json", "anthropic-version": "2023-06-01"}


@dataclass
class Told:
    """Result of one run: its faults, and the number of lost connections whose response was requested again."""

    faults: list[str] = field(default_factory=list)
    restarts: int = 0


Converse = Callable[[int], Awaitable[Told]]
"""Function that performs one run, by its number."""
ClientOf = Callable[[int], Any]
"""Function that returns the client of a run, by its number."""
OpenClients = Callable[[str, int], AbstractAsyncContextManager[ClientOf]]
"""Function that gets the address of the server and the number of runs."""


# --- clients ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _httpx2_clients(_: str, runs: int, *, runs_of_one: int = RUNS_OF_ONE) -> AsyncIterator[ClientOf]:
    # One more run than planned: the warm-up.
    limits = httpx2.Limits(max_connections=runs_of_one + 1, max_keepalive_connections=runs_of_one + 1)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx2.AsyncClient(limits=limits, timeout=PATIENCE_S, verify=False))
            for _ in range(runs // runs_of_one + 1)
        ]
        yield lambda run: clients[run // runs_of_one]


@asynccontextmanager
async def _on_httpx2(url: str, runs: int) -> AsyncIterator[ClientOf]:
    async with _httpx2_clients(url, runs) as client_of:
        yield lambda run: HTTPTransport(base_url=url, http_client=client_of(run))


@asynccontextmanager
async def _aiohttp_session(_: str, runs: int) -> AsyncIterator[ClientOf]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=runs + 1)) as session:
        yield lambda _: session


@asynccontextmanager
async def _on_aiohttp(url: str, runs: int) -> AsyncIterator[ClientOf]:
    async with _aiohttp_session(url, runs) as session_of:
        transport = HTTPTransport(base_url=url, http_client=session_of(0))
        yield lambda _: transport


@asynccontextmanager
async def _anthropic_on_httpx2(url: str, runs: int) -> AsyncIterator[ClientOf]:
    async with _httpx2_clients(url, runs) as client_of:
        clients = [
            AsyncAnthropic(base_url=url, api_key="k", http_client=client_of(run))
            for run in range(0, runs + 1, RUNS_OF_ONE)
        ]
        yield lambda run: clients[run // RUNS_OF_ONE]


@asynccontextmanager
async def _anthropic_on_aiohttp(url: str, runs: int) -> AsyncIterator[ClientOf]:
    limits = httpx2.Limits(max_connections=runs + 1, max_keepalive_connections=runs + 1)
    http = DefaultAioHttpClient(limits=limits)
    async with AsyncAnthropic(base_url=url, api_key="k", http_client=http) as client:
        yield lambda _: client


# --- conversations ----------------------------------------------------------------------------------------------------


async def _read_with_httpx2(client: httpx2.AsyncClient, url: str, body: str) -> int:
    """Read a response to its end. Return its status."""
    async with client.stream("POST", url, content=body, headers=_HEADERS) as response:
        async for _ in response.aiter_raw():
            pass
    return response.status_code


async def _read_with_aiohttp(session: aiohttp.ClientSession, url: str, body: str) -> int:
    """Read a response to its end. Return its status."""
    async with session.post(url, data=body, headers=_HEADERS) as response:
        async for _ in response.content.iter_any():
            pass
    return response.status


@asynccontextmanager
async def _draining(
    url: str, runs: int, *, open_clients: OpenClients, read: Callable[[Any, str, str], Awaitable[int]]
) -> AsyncIterator[Converse]:
    """Enter conversations that read the bytes of each response, and nothing else."""
    async with open_clients(url, runs) as client_of:

        async def drain(run: int) -> Told:
            messages = request_of(run)["messages"]
            for turn in range(len(CALLS) + 1):
                if turn:
                    messages += _history(run, turn - 1)
                body = json.dumps({**request_of(run), "stream": True, "messages": messages})
                assert await read(client_of(run), f"{url}/v1/messages", body) == 200
            return Told()

        yield drain


def _history(run: int, turn: int) -> list[dict[str, Any]]:
    inputs = {f"toolu_{run}_{turn}_{call}": input_of(run, turn, call) for call in range(CALLS[turn])}
    calls = [{"type": "tool_use", "id": id, "name": "keep", "input": input} for id, input in inputs.items()]
    results = [{"type": "tool_result", "tool_use_id": id, "content": result_of(input)} for id, input in inputs.items()]
    before = {"type": "text", "text": text_of(run, turn)}
    return [{"role": "assistant", "content": [before, *calls]}, {"role": "user", "content": results}]


_EXPECTED_EVENTS: Final = Counter(
    TurnStart=len(CALLS) + 1,
    TurnStop=len(CALLS) + 1,
    MessageStart=len(CALLS) + 1,
    MessageStop=len(CALLS) + 1,
    BlockStart=len(CALLS) + 1,  # of the text in each response
    BlockStop=len(CALLS) + 1,
    **dict.fromkeys(("InputStart", "InputStop", "ToolStart", "ToolStop"), sum(CALLS)),
)

_kept: dict[int, list[dict[str, Any]]] = defaultdict(list)


@eagerstream.tool(name="keep")
async def _keep(place: str, lines: list[str]) -> str:
    """Keep some lines."""
    input = {"place": place, "lines": lines}
    _kept[int(place.partition("/")[0])].append(input)
    await anyio.sleep(_TOOL_S)
    return result_of(input)


@asynccontextmanager
async def _running(url: str, runs: int, *, open_clients: OpenClients) -> AsyncIterator[Converse]:
    async with open_clients(url, runs) as client_of:
        yield partial(_run, client_of)


async def _run(client_of: ClientOf, run: int) -> Told:
    events: Counter[str] = Counter()
    chars: Counter[str] = Counter()
    restarts = 0
    async with eagerstream.run(client_of(run), tools=[_keep], **request_of(run)) as running:
        async for event in running:
            match event:
                case InputDelta(input=input, fragment=fragment):
                    chars[input.id] += len(fragment)
                case TextDelta(text=piece):
                    chars["text"] += len(piece)
                case Restarted():  # the connection was lost: the response starts again
                    restarts += 1
                case _:
                    events[type(event).__name__] += 1
    result = running.result
    inputs = [input_of(run, turn, call) for turn, calls in enumerate(CALLS) for call in range(calls)]
    written = [len(json.dumps(input, ensure_ascii=False)) for input in inputs]
    texts = [text_of(run, turn) for turn in range(len(CALLS) + 1)]
    checks = {
        "status": result.status is RunStatus.COMPLETED,
        "events": restarts > 0 or events == _EXPECTED_EVENTS,
        "deltas": restarts > 0 or sorted(chars.values()) == sorted([*written, len("".join(texts))]),
        "tools": sorted(_kept[run], key=str) == sorted(inputs, key=str),
        "results": [call.result["content"] for call in result.calls if call.ran and call.result]
        == [*map(result_of, inputs)],
        "text": result.text == texts[-1],
    }
    wrong = [f"run {run}: {name} not as they should be" for name, is_right in checks.items() if not is_right]
    return Told(wrong, restarts)


@asynccontextmanager
async def _streaming(url: str, runs: int) -> AsyncIterator[Converse]:
    """Enter conversations with the anthropic package's `messages.stream()`. Tools run at the end of a response."""
    async with _anthropic_on_httpx2(url, runs) as client_of:
        yield partial(_stream, client_of)


async def _stream(client_of: ClientOf, run: int) -> Told:
    request = request_of(run)
    while True:
        async with client_of(run).messages.stream(**request) as stream:
            async for _ in stream:
                pass
            message = await stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return Told()
        await anyio.sleep(_TOOL_S)
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": result_of(call.input)} for call in calls]
        said = [block.model_dump(include={"type", "text", "id", "name", "input"}) for block in message.content]
        request["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": results}]


# --- all of them ------------------------------------------------------------------------------------------------------

UVLOOP: Final = ", uvloop"
FROZEN: Final = ", frozen"
SELDOM: Final = ", seldom collected"
GC_THRESHOLDS: Final = (700, 10, 1_000)
"""Thresholds of the collector of cycles: young objects as by default, all objects 100 times less often."""
DRAIN: Final = "httpx2 alone"
DRAIN_AIOHTTP: Final = "aiohttp alone"
RUN: Final = "run, HTTPTransport on aiohttp"
SIDES: Final[Mapping[str, Callable[[str, int], AbstractAsyncContextManager[Converse]]]] = {
    DRAIN: partial(_draining, open_clients=_httpx2_clients, read=_read_with_httpx2),
    DRAIN_AIOHTTP: partial(_draining, open_clients=_aiohttp_session, read=_read_with_aiohttp),
    RUN: partial(_running, open_clients=_on_aiohttp),
    f"{RUN}{FROZEN}": partial(_running, open_clients=_on_aiohttp),
    f"{RUN}{SELDOM}": partial(_running, open_clients=_on_aiohttp),
    f"{RUN}{UVLOOP}": partial(_running, open_clients=_on_aiohttp),
    f"{RUN}{UVLOOP}{SELDOM}": partial(_running, open_clients=_on_aiohttp),
    "run, HTTPTransport on httpx2": partial(_running, open_clients=_on_httpx2),
    "run, AsyncAnthropic on aiohttp": partial(_running, open_clients=_anthropic_on_aiohttp),
    "run, AsyncAnthropic": partial(_running, open_clients=_anthropic_on_httpx2),
    "messages.stream() of anthropic": _streaming,
}
"""Each enters its clients, and yields the function that performs one run."""
