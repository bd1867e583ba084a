"""Each client with each feature: a test for each cell of the matrix that the testing guide shows."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from eagerstream.recordings import Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    ReplayServer,
    Scenario,
    Timing,
    _application,
    reply,
    text,
    thinking,
    tool_use,
)
from eagerstream_testing._playback import Playback
from eagerstream_wire import SSEDecoder

from .job import BROKEN, INPUT, RESULT, Driver, Job, Result
from .matrix import CLIENTS, FEATURES, Client, cells, key

pytestmark = pytest.mark.anyio

CALL = tool_use("get_weather", INPUT)
LOOK, MILD = reply(text("Let me look."), CALL), reply(text("It has 15 degrees."))
FRAGMENTS = len([delta for delta in CALL.deltas if delta["partial_json"]])


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Some of the clients run on asyncio only."""
    return "asyncio"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recording]]:
    """The responses as they are played, with their times."""
    recordings: list[Recording] = []

    class Noted(Playback):
        def __init__(self, answer: Any, *arguments: Any, **options: Any) -> None:
            recordings.append(answer.recording)
            super().__init__(answer, *arguments, **options)

    monkeypatch.setattr(_application, "Playback", Noted)
    yield recordings


_QUICK: dict[str, set[str]] = {
    "anthropic_messages-create": {"text", "output", "refusal"},
    "anthropic_messages-create_stream": set(FEATURES),
    "anthropic_runners-streamed": {"threads"},
    "anthropic_runners-plain": {"loop", "parallel"},
    "eagerstream_clients-run": {"buffered", "threads"},
}
"""The cells of the quick tests: each feature, and each form of a response in each protocol.

The others show that one more client does not differ. They are slow.
"""


def _cells() -> Iterator[Any]:
    for client, feature in cells():
        marks = [] if feature in _QUICK.get(key(client), ()) else [pytest.mark.slow]
        yield pytest.param(client, feature, id=f"{key(client)}-{feature}", marks=marks)


@pytest.mark.parametrize(("client", "feature"), list(_cells()))
async def test_cell(client: Client, feature: str, played: list[Recording]) -> None:
    """A client has a feature."""
    module, _, name = client.driver.partition(":")
    driver: Driver = getattr(importlib.import_module(f"packages.testing.tests.clients.{module}"), name)
    check: Callable[[Driver, list[Recording]], Any] = _CHECKS[feature]
    await check(driver, played)


def test_reasons() -> None:
    """Each absent cell has a reason, each feature a test, and each client one driver."""
    assert set(_CHECKS) == set(FEATURES)
    assert len({client.driver for client in CLIENTS}) == len(CLIENTS)
    for client in CLIENTS:
        assert set(client.lacks) <= set(FEATURES), client
        assert all(reason.strip() for reason in client.lacks.values()), client


# --- the features -----------------------------------------------------------------------------------------------------


async def _done(driver: Driver, server: ReplayServer, **work: Any) -> Result:
    return await driver(Job(base_url=server.base_url, **work))


async def _text(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(reply(text("Hello, wörld."))) as server:
        assert (await _done(driver, server, question="Hi")).text == "Hello, wörld."
        (request,) = server.requests
    assert request.body["messages"][0]["role"] == "user"


async def _loop(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(Scenario(LOOK, MILD)) as server:
        result = await _done(driver, server, tool=True)
        second = server.requests[1]
        assert len(server.requests) == 2
    assert (result.calls, result.text) == ([INPUT], "It has 15 degrees.")
    assert json.dumps(second.body["messages"][-1]).count(RESULT) == 1


async def _parallel(driver: Driver, _: list[Recording]) -> None:
    other = {"city": "Oslo", "days": []}
    both = reply(CALL, tool_use("get_weather", other))
    with ReplayServer(Scenario(both, MILD)) as server:
        result = await _done(driver, server, tool=True)
        second = server.requests[1]
    assert sorted(result.calls, key=lambda call: len(call["days"])) == [other, INPUT]
    assert result.text == "It has 15 degrees."
    assert json.dumps(second.body["messages"][-2:]).count(RESULT) == 2


async def _retry(driver: Driver, _: list[Recording]) -> None:
    busy = Fault(FaultKind.HTTP_ERROR, status=529, retry_after_s=0.01)
    with ReplayServer(MILD, faults=Faults({0: [busy]})) as server:
        assert (await _done(driver, server)).text == "It has 15 degrees."
        assert [request.fault for request in server.requests] == [busy, None]


async def _refusal(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(MILD) as server:
        with pytest.raises(Exception, match="toolu_1") as caught:  # each client has its own exceptions
            await _done(driver, server, tool=True, broken=True)
        (request,) = server.requests
    assert request.status == 400
    assert len(request.body["messages"]) == len(BROKEN)
    assert "tool_use" in str(caught.value)


def _events(data: bytes) -> list[Any]:
    return [json.loads(event.data) for event in SSEDecoder().feed(data) if event.data]


def _arrivals(recording: Recording) -> set[float]:
    """The times at which fragments of the input arrive. The input has two fields."""
    times = set()
    for at_s, data in recording.chunks:
        for event in _events(data):
            if event.get("delta", {}).get("partial_json"):
                times.add(at_s)
    return times


async def _timed(driver: Driver, played: list[Recording], *, eager: bool) -> set[float]:
    # As fast as the times of a response can pass, but not `inf`, which needs none.
    with ReplayServer(Scenario(LOOK, MILD, timing=Timing(first_byte_s=1)), speed=1e6) as server:
        result = await _done(driver, server, tool=True, eager=eager)
    assert (result.calls, result.text) == ([INPUT], "It has 15 degrees.")
    return _arrivals(played[0])


async def _buffered(driver: Driver, played: list[Recording]) -> None:
    assert len(await _timed(driver, played, eager=False)) == len(INPUT)


async def _eager(driver: Driver, played: list[Recording]) -> None:
    assert len(await _timed(driver, played, eager=True)) == FRAGMENTS > len(INPUT)


async def _thinking(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(reply(thinking("Let me see."), text("Hello."))) as server:
        result = await _done(driver, server, thinking=True)
        (request,) = server.requests
    assert (result.thinking, result.text) == ("Let me see.", "Hello.")
    assert request.body["thinking"]["type"] == "adaptive"


async def _output(driver: Driver, _: list[Recording]) -> None:
    value = {"city": "Paris", "degrees": 15}
    with ReplayServer(reply(text(json.dumps(value)))) as server:
        assert (await _done(driver, server, output=True)).output == value
        (request,) = server.requests
    assert "json_schema" in json.dumps(request.body.get("output_config"))


async def _count(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(MILD) as server:
        result = await _done(driver, server, count=True)
        first = server.requests[0]
    assert first.path == "/v1/messages/count_tokens"
    assert first.status == 200
    assert result.tokens > 0 or result.text == "It has 15 degrees."  # it counts before its request


async def _threads(driver: Driver, _: list[Recording]) -> None:
    with ReplayServer(Scenario(LOOK, MILD)) as server:
        result = await _done(driver, server, tool=True, threads=True)
        requests = server.requests
    assert (result.calls, result.text) == ([INPUT], "It has 15 degrees.")
    assert [request.body["thread"]["type"] for request in requests] == ["create", "continue"]
    assert [len(request.complete["messages"]) for request in requests] == [1, 3]


_CHECKS = {
    "text": _text,
    "loop": _loop,
    "parallel": _parallel,
    "retry": _retry,
    "refusal": _refusal,
    "buffered": _buffered,
    "eager": _eager,
    "thinking": _thinking,
    "output": _output,
    "count": _count,
    "threads": _threads,
}
