"""Requests get the timing that they ask for, tool by tool."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.streams import wire_events
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import (
    Platform,
    ReplayServer,
    Scenario,
    Timing,
    _eager_requests,
    _playback,
    buffered,
    reply,
    retime,
    text,
    tool_use,
)
from eagerstream_testing._eager_requests import InputBuffering, eager_tools
from eagerstream_testing._framing import framing_of, in_aws_frames
from eagerstream_wire._tool_kind import EAGER_FIELD, LEGACY_BETA

_HI = {"role": "user", "content": "Hi"}
_INPUT = {"city": "Paris", "days": ["Monday", "Tuesday"]}
_REPLY = retime(reply(text("Hm."), tool_use("one", _INPUT), tool_use("two", _INPUT)), Timing())


def _tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}, **fields}


def _eager(name: str) -> dict[str, Any]:
    return _tool(name, **{EAGER_FIELD: True})


def _added(tool: dict[str, Any]) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": "tool_addition", "tool": {"definition": tool}}]}


@rows(
    "body, betas, eager",
    [
        ({}, [], set()),
        ({"tools": [_tool("one")]}, [], set()),
        ({"tools": [_eager("one"), _tool("two")]}, [], {"one"}),
        ({"tools": [_eager("one"), _tool("two", **{EAGER_FIELD: False})]}, [], {"one"}),
        ({"tools": [_eager("one")]}, [], None),
        ({"tools": [_tool("one")]}, [LEGACY_BETA], None),
        ({"tools": [_tool("one")]}, ["other-2025-01-01"], set()),
        ({"tools": [_tool("one")], "messages": [_HI, _added(_eager("two"))]}, [], {"two"}),
        ({"tools": [_eager("one")], "messages": [_HI, _added(_tool("one"))]}, [], set()),
        ({"tools": "odd", "messages": [1, {"role": "system", "content": [1, {"type": "tool_addition"}]}]}, [], set()),
    ],
)
def test_the_tools_of_a_request(body: dict[str, Any], betas: list[str], eager: set[str] | None) -> None:
    assert eager_tools(body, betas) == eager


def _times(recording: Recording, name: str) -> list[float]:
    """The times at which parts of the tool's input arrive, each once."""
    times: dict[float, None] = {}
    current = ""
    for at_s, data in recording.chunks:
        for _, event in framing_of(recording).events(data):
            if event["type"] == "content_block_start":
                current = event["content_block"].get("name", "")
            elif event["type"] == "content_block_delta" and event["delta"].get("partial_json") and current == name:
                times[at_s] = None
    return list(times)


@rows("form", [lambda recording: recording, in_aws_frames])
def test_only_the_others_are_held_back(form: Callable[[Recording], Recording]) -> None:
    """Two members of an input that is held back have two times; the parts of an eager one have their own."""
    held = buffered(form(_REPLY), eager=["one"])
    assert len(_times(held, "one")) == len(_times(_REPLY, "one")) > 5
    assert len(_times(held, "two")) == 2
    again = buffered(held, eager=["one"])
    assert _times(again, "two") == _times(held, "two")


def test_responses_that_stay_as_they_are() -> None:
    """Nothing is cut anew if there is nothing to hold back."""
    buffering = InputBuffering()
    for recording, eager in (
        (_REPLY, None),
        (_REPLY, frozenset({"one", "two"})),
        (reply(tool_use("one", _INPUT)), frozenset[str]()),
        (retime(reply(text("Hi.")), Timing(cut="random")), frozenset[str]()),
    ):
        assert buffering.apply(recording, eager) is recording


def test_a_held_response_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed once, and forgotten if there are too many."""
    monkeypatch.setattr(_eager_requests, "_MAX_KEPT_BYTES", 100_000)
    buffering = InputBuffering()
    first = buffering.apply(_REPLY, frozenset())
    assert buffering.apply(_REPLY, frozenset()) is first
    large = retime(reply(tool_use("one", {"text": "x" * 60_000}, fragment_chars=30_000)), Timing())
    buffering.apply(large, frozenset())
    buffering.apply(large, frozenset({"two"}))
    assert buffering.apply(_REPLY, frozenset()) is not first


@rows(
    "event",
    [
        {"type": "content_block_start", "index": [], "content_block": {"name": []}},
        {"type": "content_block_start", "content_block": []},
        {"type": "content_block_delta", "index": {}, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": 1}},
        {"type": "content_block_stop", "index": "1"},
    ],
)
def test_odd_events(event: dict[str, Any]) -> None:
    """A recording may have anything, and all of it is played."""
    data = f"data: {json.dumps(event)}\n\n".encode()
    odd = Recording((*_REPLY.chunks, Chunk(_REPLY.duration_s, data)))
    assert buffered(odd).body.endswith(data)
    assert buffered(odd, eager=["one"]).body.endswith(data)


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times at which chunks are due. Nothing waits for them."""
    times: list[float] = []

    async def note(at_s: float, _: object) -> bool:
        times.append(at_s)
        return True

    monkeypatch.setattr(_playback, "_wait_until", note)
    return times


def _parts(response: httpx.Response) -> list[str]:
    events = wire_events(response.content)
    return [event["delta"]["partial_json"] for event in events if event.get("delta", {}).get("partial_json")]


@pytest.mark.parametrize(
    ("tools", "headers", "distinct"),
    [
        ([_tool("one"), _tool("two")], {}, 4),
        ([_eager("one"), _tool("two")], {}, 9),
        ([_eager("one"), _eager("two")], {}, 14),
        ([_tool("one"), _tool("two")], {"anthropic-beta": LEGACY_BETA}, 14),
    ],
)
def test_over_a_socket(due: list[float], tools: Any, headers: dict[str, str], distinct: int) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [_HI], "tools": tools, "stream": True}
    with ReplayServer(_REPLY) as server:
        response = httpx.post(f"{server.base_url}/v1/messages", json=body, headers=headers, verify=False)
    assert "".join(_parts(response)) == json.dumps(_INPUT) * 2
    events = wire_events(response.content)
    fragments = {at_s for at_s, event in zip(due, events, strict=True) if event.get("delta", {}).get("partial_json")}
    assert len(fragments) == distinct


def test_exceptions(due: list[float]) -> None:
    """The option, and infinite speed leave the response as it is."""
    body = {"model": "m", "max_tokens": 9, "messages": [_HI], "stream": True}
    for options in ({"buffer_inputs": False}, {"speed": float("inf")}):
        with ReplayServer(_REPLY, **options) as server:
            assert httpx.post(f"{server.base_url}/v1/messages", json=body, verify=False).content == _REPLY.body
    del due[:]
    with ReplayServer(Scenario.of(_REPLY)) as server:
        url = server.url_of(Platform.ANTHROPIC)
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        held = httpx.post(f"{url}/v1/messages", json=body, headers=headers, verify=False)
        assert held.content == buffered(_REPLY).body != _REPLY.body
