"""The Messages API double, over HTTP: what it answers, to whom, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic
from typing import Any

import httpx
import pytest
from tests.streams import wire_events
from tests.tables import rows

from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import (
    ReceivedRequest,
    ReplayServer,
    Scenario,
    Timing,
    _application as application_module,
    _playback as playback_module,
    encode_event,
    http_error,
    reply,
    retime,
    text,
)

_BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 16,
    "messages": [{"role": "user", "content": "Hi"}],
    "stream": True,
}
_REPLY = retime(reply(text("Hello, world.")), Timing.instant())


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    def odd(_: Any) -> Recording:
        raise LookupError("nothing prepared")

    with ReplayServer(Scenario(_REPLY, odd, http_error(529, "overloaded_error", "Overloaded"))) as running:
        yield running


@pytest.fixture
def client(server: ReplayServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url, timeout=20) as http_client:
        yield http_client


def _history(assistant_messages: int) -> dict[str, Any]:
    exchange = [{"role": "assistant", "content": "x"}, *_BODY["messages"]]
    return {**_BODY, "messages": [*_BODY["messages"], *(exchange * assistant_messages)]}


def test_reply(client: httpx.Client) -> None:
    """A reply has the API's headers and exactly the recorded bytes, with or without a query."""
    for url in ("/v1/messages", "/v1/messages?beta=true", "/messages"):
        response = client.post(url, json=_BODY)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["request-id"].startswith("req_")
        assert response.content == _REPLY.body


def test_requests_are_remembered(client: httpx.Client, server: ReplayServer) -> None:
    """A request can be looked at afterwards, without the credentials that came with it."""
    headers = {"X-Api-Key": "sk-1", "Authorization": "Bearer sk-2", "anthropic-version": "2023-06-01"}
    response = client.post("/v1/messages?beta=true", json=_BODY, headers=headers)
    request = server.requests[-1]
    assert request.request_id == response.headers["request-id"]
    assert (request.body, request.query, request.status, request.disconnected) == (_BODY, "beta=true", 200, False)
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["x-api-key"] == request.headers["authorization"] == "[redacted]"
    assert "sk-" not in repr(request)
    assert request.wait_ended(10)
    assert request.ended


@rows(
    "content, status, error_type, message",
    [
        (b"{", 400, "invalid_request_error", "not valid JSON"),
        (b"{}", 400, "invalid_request_error", "model: Field required"),
        (json.dumps({**_BODY, "stream": "false"}).encode(), 400, "invalid_request_error", "stream: Input should be"),
        (json.dumps({**_BODY, "stream": 1}).encode(), 400, "invalid_request_error", "stream"),
        (json.dumps(_history(1)).encode(), 500, "api_error", "LookupError: nothing prepared"),
        (json.dumps(_history(2)).encode(), 529, "overloaded_error", "Overloaded"),
        (json.dumps(_history(3)).encode(), 400, "invalid_request_error", "turn 3"),
    ],
)
def test_refusals(
    client: httpx.Client, server: ReplayServer, content: bytes, status: int, error_type: str, message: str
) -> None:
    """What cannot be answered is refused in the API's shape, and remembered like any other request."""
    response = client.post("/v1/messages", content=content)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == error_type
    assert message in body["error"]["message"]
    assert body["request_id"] == response.headers["request-id"]
    assert server.requests[-1].status == status


def test_too_large(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body over the bound is refused, one of exactly that size is read, and the connection stays usable."""
    monkeypatch.setattr(application_module, "MAX_REQUEST_BYTES", 100_000)
    response = client.post("/v1/messages", content=b" " * 300_000)
    assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")
    padded = json.dumps(_BODY).encode().ljust(100_000)
    assert client.post("/v1/messages", content=padded).status_code == 200
    assert client.post("/v1/messages", content=padded + b" ").status_code == 413


@rows(
    "method, url, status, error_type",
    [
        ("GET", "/v1/models", 404, "not_found_error"),
        ("POST", "/v1/messages/", 404, "not_found_error"),
        ("POST", "/v1/messages/batches", 404, "not_found_error"),
        ("POST", "/v1/files", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
    ],
)
def test_other_paths(
    client: httpx.Client, server: ReplayServer, method: str, url: str, status: int, error_type: str
) -> None:
    """Nothing else is there, which is also said in the API's shape and is no request to remember."""
    before = len(server.requests)
    response = client.request(method, url, json=_BODY)
    assert (response.status_code, response.json()["error"]["type"]) == (status, error_type)
    assert len(server.requests) == before


def test_other_paths_are_reported() -> None:
    """Who looks for the request that went to a wrong address finds it in the log of the command."""
    told: list[ReceivedRequest] = []
    with ReplayServer(_REPLY, on_answer=told.append) as server, httpx.Client(base_url=server.base_url) as client:
        ids = [client.get(url).headers["request-id"] for url in ("/v1/models", "/v1/models", "/v1/messages")]
    assert [(request.method, request.path, request.status) for request in told] == [
        ("GET", "/v1/models", 404),
        ("GET", "/v1/models", 404),
        ("GET", "/v1/messages", 405),
    ]
    assert [request.request_id for request in told] == ids
    assert len(set(ids)) == 3


def test_about(client: httpx.Client) -> None:
    """Whoever opens the address in a browser is told what it is, in one line."""
    response = client.get("/")
    assert response.status_code == 200
    assert response.text.count("\n") == 1


@pytest.mark.slow
def test_chunks_keep_their_times() -> None:
    """No byte arrives before it is due, and each chunk goes out by itself instead of waiting for the next."""
    times = (0.05, 0.15, 0.4, 0.4)
    chunks = tuple(Chunk(at_s, encode_event({"type": "ping", "n": n})) for n, at_s in enumerate(times))
    arrivals: dict[int, float] = {}
    with ReplayServer(Recording(chunks)) as server, httpx.Client(base_url=server.base_url, timeout=20) as client:
        sent_s = monotonic()
        with client.stream("POST", "/v1/messages", json=_BODY) as response:
            for data in response.iter_raw():
                for event in wire_events(data):
                    arrivals[event["n"]] = monotonic() - sent_s
    assert list(arrivals) == [0, 1, 2, 3]
    assert all(arrivals[number] >= at_s for number, at_s in enumerate(times))
    assert arrivals[0] < arrivals[1] < arrivals[2]


def test_speed() -> None:
    """At infinite speed an hour passes at once."""
    recording = Recording((Chunk(3600, b"data: x\n\n"),))
    with ReplayServer(recording, speed=float("inf")) as server:
        assert httpx.post(f"{server.base_url}/v1/messages", json=_BODY, timeout=20).content == recording.body


@pytest.mark.parametrize(
    ("options", "expected_s"),
    [
        ({}, [3.0, 5.0]),
        ({"read_bytes_per_s": 1_000}, [13.0, 15.0]),
        ({"read_bytes_per_s": 1_000, "speed": 2}, [6.5, 7.5]),
        ({"read_bytes_per_s": 1_000, "speed": float("inf")}, [0.0, 0.0]),
    ],
)
def test_the_time_to_read_a_request(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected_s: list[float]
) -> None:
    """Each byte of the request delays the complete response, also if the request is refused. The clock stands still."""
    due_s: list[float] = []

    async def note(at_s: float, _: object) -> bool:
        due_s.append(at_s)
        return True

    monkeypatch.setattr(application_module, "monotonic", lambda: 100.0)
    monkeypatch.setattr(playback_module, "_wait_until", note)
    recording = Recording((Chunk(3, b"data: x\n\n"), Chunk(5, b"data: y\n\n")))
    padded = json.dumps(_BODY).encode().ljust(10_000)
    with ReplayServer(recording, **options) as server:
        url = f"{server.base_url}/v1/messages"
        assert httpx.post(url, content=padded, timeout=20).content == recording.body
        assert httpx.post(url, content=b"x" * 10_000, timeout=20).status_code == 400
    read_s = expected_s[0] - 3 / options.get("speed", 1)
    assert due_s == [100 + at_s for at_s in [*expected_s, read_s]]


def test_recorded_headers() -> None:
    """Recorded headers are played again, except those that were about the recorded connection."""
    headers = {"Request-Id": "req_mine", "Content-Encoding": "gzip", "Content-Length": "1", "x-a": " é "}
    with ReplayServer(Recording((Chunk(0, b"data: x\n\n"),), headers=headers)) as server:
        response = httpx.post(f"{server.base_url}/v1/messages", json=_BODY, timeout=20)
    assert response.content == b"data: x\n\n"
    assert response.headers["request-id"] == "req_mine"
    assert response.headers["x-a"].strip() == "é"
    assert "content-encoding" not in response.headers


def test_empty_body() -> None:
    """A recording without a single chunk is a reply that ends before its first byte."""
    with ReplayServer(Recording(())) as server:
        response = httpx.post(f"{server.base_url}/v1/messages", json=_BODY, timeout=20)
    assert (response.status_code, response.content) == (200, b"")
