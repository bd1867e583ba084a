"""Requests that are not streamed: they get the message that a streaming client accumulates, and every kind of fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx
import pytest
from tests.platforms import CLIENTS, PlatformClient
from tests.sampling import drawn
from tests.streams import made_recordings, real_recordings
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    Platform,
    ReplayServer,
    Scenario,
    Timing,
    block,
    encode_event,
    error_event,
    http_error,
    reply,
    retime,
    server_tool_use,
    text,
    thinking,
    tool_use,
)
from eagerstream_testing._faults import INSTEAD, UNANSWERED
from eagerstream_testing._framing import PART_BYTES, in_aws_frames
from eagerstream_testing._injection import break_reply
from eagerstream_testing._one_piece import in_one_piece

pytestmark = pytest.mark.anyio

_ASK: dict[str, Any] = {"model": "claude-opus-4-7", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}]}
_REPLY = reply(
    thinking("Let me see."),
    text("Hello, wörld."),
    tool_use("get_weather", {"city": "Paris", "days": [1, 2]}),
    server_tool_use("web_search", {"query": "Paris"}),
    block({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
    usage={"output_tokens": 42},
)
_WHOLE = in_one_piece(_REPLY)


def _message(recording: Recording) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(in_one_piece(recording).body)
    return message


_QUICK = (Platform.ANTHROPIC, Platform.BEDROCK, Platform.VERTEX)
"""Responses in events and in frames, a platform that does not count, and requests with the model in their path."""


one_client_of_each_platform = pytest.mark.parametrize(
    "platform_client",
    [
        pytest.param(client, id=client.platform, marks=() if client.platform in _QUICK else pytest.mark.slow)
        for client in {client.platform: client for client in reversed(CLIENTS) if client.is_there}.values()
    ],
)


@one_client_of_each_platform
async def test_every_client_gets_the_message_of_its_stream(platform_client: PlatformClient) -> None:
    """At the path that it uses for such requests, and in each platform's own form."""
    async with ReplayServer(_REPLY) as server, platform_client.client(server) as client:
        whole = await client.messages.create(**_ASK)
        async with client.messages.stream(**_ASK) as stream:
            streamed = await stream.get_final_message()
    assert whole.to_dict(exclude_none=True) == streamed.to_dict(exclude_none=True)
    assert whole.content[2].input == {"city": "Paris", "days": [1, 2]}
    assert (whole.stop_reason, whole.usage.output_tokens) == ("tool_use", 42)


@rows(
    "written, input",
    [
        ('{"city": "Paris", "days": ', {"city": "Paris"}),
        ('{"city": "Paris", "days": 3', {"city": "Paris"}),
        ('{"city": "Paris", "days": [1, 2', {"city": "Paris"}),
        ('{"city": "Paris", "days": nope}', {"city": "Paris"}),
        ('{"city": "Par', {}),
        ("[1, 2]", {}),
        ("", {}),
    ],
)
def test_inputs_that_are_no_objects(written: str, input: dict[str, Any]) -> None:
    """The API always sends an object: the members that are complete."""
    for closed in (True, False):
        cut = reply(tool_use("f", written, id="no id: é", closed=closed), stop_reason="max_tokens")
        assert _message(cut)["content"] == [{"type": "tool_use", "id": "no id: é", "name": "f", "input": input}]


@rows("recording", (*made_recordings(), *drawn(real_recordings(), 8)))
def test_recordings(recording: Any) -> None:
    """Any recorded stream has a form in one piece, and the same one in the frames of Bedrock."""
    played = Recording.load(recording)
    whole = in_one_piece(played)
    assert whole.media_type == "application/json"
    assert len(whole.chunks) == 1
    if whole.status == 200 and b"message_stop" in played.body and played.media_type != "text/html":
        assert json.loads(whole.body)["role"] == "assistant"
        assert in_one_piece(in_aws_frames(played)).body == whole.body


def test_what_is_no_stream_stays() -> None:
    """An error, and a response that was recorded in one piece."""
    recorded = Recording((Chunk(1.0, b"{}"),), headers={"content-type": "application/json"})
    for other in (recorded, http_error(529, "overloaded_error", "Overloaded")):
        assert in_one_piece(other) is other


def test_the_time_of_the_stream() -> None:
    """It comes when the stream would have ended, and nothing before that."""
    timed = retime(_REPLY, Timing(first_byte_s=2))
    assert [chunk.at_s for chunk in in_one_piece(timed).chunks] == [timed.duration_s]
    errored = retime(reply(text("Hi"), error_event("overloaded_error", "Overloaded")), Timing(first_byte_s=2))
    assert [chunk.at_s for chunk in in_one_piece(errored).chunks] == [errored.duration_s]


@rows(
    "events, status, error_type",
    [
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}], 529, "overloaded_error"),
        ([{"type": "error", "error": {"type": "new_error", "message": "Busy"}}], 500, "new_error"),
    ],
)
def test_an_error_inside_the_stream(events: list[Any], status: int, error_type: str) -> None:
    """It becomes an HTTP error, from which the clients' retries recover."""
    whole = in_one_piece(Recording.from_body(b"".join(map(encode_event, events))))
    error = json.loads(whole.body)["error"]
    assert (whole.status, error) == (status, {"type": error_type, "message": "Busy"})


@rows("cut", [0, 200, len(_REPLY.body) - 40])
def test_a_stream_without_its_end(cut: int) -> None:
    """It breaks off in one piece, too: no client takes it for a message."""
    whole = in_one_piece(Recording.from_body(_REPLY.body[:cut]))
    assert whole.status == 200
    with pytest.raises(ValueError, match="column"):
        json.loads(whole.body)


# --- faults -----------------------------------------------------------------------------------------------------------


async def _outcome(server: ReplayServer, **options: Any) -> Any:
    options = {"max_retries": 0, "timeout": 5, **options}
    async with anthropic.AsyncAnthropic(base_url=server.base_url, api_key="k", **options) as client:
        try:
            return await client.messages.create(**_ASK)
        except (anthropic.AnthropicError, ValueError) as error:
            return error


def _fault(kind: FaultKind, **place: Any) -> Fault:
    status = 529 if kind is FaultKind.HTTP_ERROR else None
    error_type = "overloaded_error" if kind is FaultKind.ERROR_EVENT else None
    return Fault(kind, status=status, error_type=error_type, **place)


class _Next(Faults):
    """Gives the next request the fault that a test has put there, so that one server is enough."""

    fault: Fault | None = None

    def draw(self, request: Mapping[str, Any], recording: Recording) -> Fault | None:
        fault, self.fault = self.fault, None
        return fault


async def test_faults() -> None:
    """The client meets each kind, and gets the message at the next attempt."""
    faults = _Next()
    async with ReplayServer(_REPLY, faults=faults) as server:
        for kind in sorted(set(FaultKind) - {FaultKind.STALL, FaultKind.ENDLESS}):
            fault = faults.fault = _fault(kind) if kind in INSTEAD else _fault(kind, after_events=3)
            broken, whole = await _outcome(server), await _outcome(server)
            assert [request.fault for request in server.requests[-2:]] == [fault, None]
            assert whole.to_dict() == json.loads(_WHOLE.body), kind
            if kind in (FaultKind.HTTP_ERROR, FaultKind.ERROR_EVENT):
                assert broken.status_code == 529, kind
            elif kind is not FaultKind.CONTENT_TYPE:  # which this client overlooks if the body is JSON
                assert broken != whole, kind


def test_a_wrong_content_type() -> None:
    """The body stays as it is."""
    broken = break_reply(_WHOLE, Fault(FaultKind.CONTENT_TYPE)).recording
    assert (broken.media_type, broken.body) == ("text/plain", _WHOLE.body)


@pytest.mark.parametrize("kind", [FaultKind.STALL, FaultKind.ENDLESS])
def test_faults_without_end(kind: FaultKind) -> None:
    """They last until the client gives up."""
    with ReplayServer(_REPLY, faults=Faults({0: [_fault(kind, after_events=3)]})) as server:
        with httpx.Client(verify=False) as client:
            with client.stream("POST", f"{server.base_url}/v1/messages", json=_ASK) as response:
                received = 0
                for data in response.iter_raw():
                    received += len(data)
                    if received >= (3 * PART_BYTES if kind is FaultKind.STALL else 100_000):
                        break
        assert server.requests[0].wait_ended(10)
        assert server.requests[0].disconnected


@pytest.mark.parametrize("kind", sorted(UNANSWERED))
async def test_faults_before_the_headers(kind: FaultKind) -> None:
    """The client gets no response at all."""
    async with ReplayServer(_REPLY, faults=Faults({0: [_fault(kind, before_headers=True)]})) as server:
        assert isinstance(await _outcome(server, timeout=0.2), anthropic.APIConnectionError)


def test_the_places_of_faults() -> None:
    """Bytes count in the body in one piece, and each 16 of them count as an event."""
    for fault in (Fault(FaultKind.END, after_bytes=5 * PART_BYTES), Fault(FaultKind.END, after_events=5)):
        assert break_reply(_WHOLE, fault).recording.body == _WHOLE.body[: 5 * PART_BYTES]
    assert break_reply(_WHOLE, Fault(FaultKind.END, after_events=9_999)).recording.body == _WHOLE.body


async def test_random_faults() -> None:
    """A seed decides them for these responses, too."""
    for seed in range(4):
        async with ReplayServer(Scenario.of(_REPLY), faults=Faults.random(seed, 1.0)) as server:
            await _outcome(server, timeout=0.5)
            assert server.requests[0].fault is not None


async def test_bedrock_words() -> None:
    """An error inside the stream is refused in the words of the platform that was asked."""
    async with ReplayServer(reply(text("Hi"), error_event("overloaded_error", "Overloaded"))) as server:
        url = server.url_of(Platform.BEDROCK) + "/model/m/invoke"
        body = {"max_tokens": 1, "messages": _ASK["messages"], "anthropic_version": "bedrock-2023-05-31"}
        async with httpx.AsyncClient(verify=False) as client:
            response = await client.post(url, json=body, headers={"authorization": "Bearer k"})
    assert (response.status_code, response.json()) == (529, {"message": "Overloaded"})
    assert response.headers["x-amzn-errortype"].startswith("ServiceUnavailableException")
