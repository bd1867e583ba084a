"""`Fault`, and the server that fails: what a client meets on the wire."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import anyio
import httpx
import pytest
from tests.streams import wire_events
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, retime, text, tool_use
from eagerstream_testing._faults import ERROR_STATUS, UNANSWERED
from eagerstream_testing._injection import break_reply

_REPLY = retime(reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"})), Timing.instant())
_BODY = _REPLY.body
_SIZE = len(_BODY)
_DONE = reply(text("It is cold in Oslo."))
_USER: dict[str, Any] = {"role": "user", "content": "How is the weather in Oslo?"}
_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 16, "stream": True, "messages": [_USER]}


class _Seen(NamedTuple):
    """What came over a connection, and whether it was reset then."""

    raw: bytes
    reset: bool

    @property
    def body(self) -> bytes:
        """The body as far as its chunks are whole."""
        return self._dechunked()[0]

    @property
    def rest(self) -> bytes:
        """What came after the last whole chunk."""
        return self._dechunked()[1]

    def _dechunked(self) -> tuple[bytes, bytes]:
        head, separator, rest = self.raw.partition(b"\r\n\r\n")
        assert separator, head
        assert b"transfer-encoding: chunked" in head.lower()
        parts = []
        while match := re.match(rb"([0-9a-fA-F]+)\r\n", rest):
            start, size = match.end(), int(match[1], 16)
            if not size:
                break
            parts.append(rest[start : start + size])
            assert rest[start + size : start + size + 2] == b"\r\n"
            rest = rest[start + size + 2 :]
        return b"".join(parts), rest


class _Next(Faults):
    """Gives each request the next of the faults that a test has put there: one server does for all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[Fault] = []

    def draw(self, request: Mapping[str, Any], recording: Recording) -> Fault | None:
        return self.pending.pop(0) if self.pending else None


_NEXT = _Next()


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with ReplayServer(_REPLY, faults=_NEXT) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: ReplayServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url, timeout=20) as client:
        yield client


def _connect(server: ReplayServer, request: dict[str, Any] = _REQUEST, receive_bytes: int = 0) -> socket.socket:
    """A connection with a request on its way."""
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", server.port))
    raw = json.dumps(request).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(raw)}\r\n\r\n"
    connection.sendall(head.encode() + raw)
    return connection


def _read(connection: socket.socket) -> _Seen:
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        return _Seen(b"".join(parts), reset=True)
    return _Seen(b"".join(parts), reset=False)


def _exchange(server: ReplayServer, fault: Fault) -> _Seen:
    _NEXT.pending = [fault]
    with _connect(server) as connection:
        seen = _read(connection)
    request = server.requests[-1]
    assert request.fault == fault
    assert request.wait_ended(20)
    assert request.disconnected == (fault.kind is not FaultKind.END)
    return seen


# --- the connection ---------------------------------------------------------------------------------------------------


@rows("after_bytes", [0, 1, 100, 537, _SIZE - 1, _SIZE, _SIZE + 100])
@rows(
    "kind, reset, rest",
    [
        (FaultKind.END, False, b"0\r\n\r\n"),
        (FaultKind.CLOSE, False, b""),
        (FaultKind.RESET, True, b""),
        (FaultKind.BROKEN_CHUNKING, False, b"this is not the size of a chunk\r\n"),
    ],
)
def test_breaks_after_any_byte(
    server: ReplayServer, kind: FaultKind, after_bytes: int, reset: bool, rest: bytes
) -> None:
    """Exactly the bytes before it arrive, and then what was asked for."""
    seen = _exchange(server, Fault(kind, after_bytes=after_bytes))
    assert seen.raw.startswith(b"HTTP/1.1 200")
    assert (seen.body, seen.reset, seen.rest) == (_BODY[:after_bytes], reset, rest)


def test_breaks_after_events(server: ReplayServer) -> None:
    """Whole events pass, and nothing of the next."""
    seen = _exchange(server, Fault(FaultKind.CLOSE, after_events=4))
    assert wire_events(seen.body) == wire_events(_BODY)[:4]
    assert seen.body.endswith(b"\n\n")


@rows("kind", [FaultKind.CLOSE, FaultKind.RESET])
def test_breaks_before_the_headers(server: ReplayServer, kind: FaultKind) -> None:
    """A connection may be lost before anything came over it."""
    assert _exchange(server, Fault(kind, before_headers=True)) == (b"", kind is FaultKind.RESET)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what it has not sent yet")
@pytest.mark.parametrize("chunks", [1, 8])
def test_reset_behind_a_slow_reader(chunks: int) -> None:
    """What comes before a reset is all sent first, also where buffers of the server and the system are full."""
    size = 6_000_000
    recording = Recording(tuple(Chunk(0, bytes([65 + number]) * (size // chunks)) for number in range(chunks)))
    faults = Faults({0: [Fault(FaultKind.RESET, after_bytes=size - 10)]})
    with ReplayServer(recording, faults=faults) as server:
        with _connect(server, receive_bytes=65_536) as connection:
            seen = _read(connection)
    assert seen.reset
    assert seen.body == recording.body[: size - 10]


@pytest.mark.parametrize("size", [300_000, 6_000_000])
def test_leaving_before_a_reset(size: int) -> None:
    """A client that leaves what it never read is not waited for, whichever buffer it would have to empty."""
    faults = Faults({0: [Fault(FaultKind.RESET, after_bytes=size - 10)]})
    with ReplayServer(Recording.from_body(bytes(size)), faults=faults) as server:
        with _connect(server, receive_bytes=4_096) as connection:
            assert connection.recv(1_000)
        assert server.requests[0].wait_ended(20)
        assert server.requests[0].disconnected


@pytest.mark.parametrize(
    "fault", [Fault(FaultKind.STALL, after_bytes=200), Fault(FaultKind.STALL, before_headers=True)]
)
def test_stall(server: ReplayServer, fault: Fault) -> None:
    """Silence, in which a client that leaves is noticed."""
    _NEXT.pending = [fault]
    with _connect(server) as connection:
        raw = b""
        while not fault.before_headers and not raw.endswith(_BODY[150:200] + b"\r\n"):
            raw += connection.recv(65_536)
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        request = server.requests[-1]
        assert not request.ended
        assert request.status == (None if fault.before_headers else 200)
    assert request.wait_ended(20)
    assert request.disconnected


def test_endless(server: ReplayServer, http: httpx.Client) -> None:
    """The input goes on while the client reads, others are served beside it, and leaving is noticed."""
    fragments = [event.get("delta", {}).get("partial_json") for event in wire_events(_BODY)]
    _NEXT.pending = [Fault(FaultKind.ENDLESS, after_events=fragments.index('{"city"') + 1)]
    with _connect(server) as connection:
        parts = [connection.recv(65_536)]
        while sum(map(len, parts)) < 2_000_000:
            parts.append(connection.recv(65_536))
            assert parts[-1]
        assert http.get("/").status_code == 200
        request = server.requests[-1]
        assert not request.ended
    assert request.wait_ended(20)
    assert request.disconnected
    events = b"".join(parts).split(b"\n\n")
    assert b'"partial_json":"{\\"city\\""' in events[fragments.index('{"city"')]
    assert all(b"input_json_delta" in event for event in events[fragments.index('{"city"') : -1])


@pytest.mark.slow
def test_endless_and_unread(server: ReplayServer, http: httpx.Client) -> None:
    """A client that does not read stops it: the server keeps no more than one buffer, and serves others."""
    _NEXT.pending = [Fault(FaultKind.ENDLESS, after_events=3)]
    with _connect(server):
        assert server._server is not None
        connections: Any = server._server.server_state.connections
        while not (paused := [one for one in list(connections) if one.flow.write_paused]):
            assert http.get("/").status_code == 200
        assert paused[0].transport.get_write_buffer_size() < 200_000
        assert http.get("/").status_code == 200
        request = server.requests[-1]
        assert not request.ended
    assert request.wait_ended(20)


@pytest.mark.parametrize("kind", [FaultKind.STALL, FaultKind.ENDLESS])
def test_close_does_not_wait(kind: FaultKind, caplog: pytest.LogCaptureFixture) -> None:
    """A reply that never ends does not keep the server from closing, and nothing is logged."""
    with ReplayServer(_REPLY, faults=Faults({0: [Fault(kind, after_events=2)]})) as server:
        with _connect(server) as connection:
            assert connection.recv(100)
            server.close()
            assert server.requests[0].disconnected
            assert _read(connection).raw  # to its end
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


# --- the response -----------------------------------------------------------------------------------------------------


@rows(
    "fault",
    [
        *(Fault(FaultKind.HTTP_ERROR, status=status) for status in ERROR_STATUS.values()),
        Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=3),
        Fault(FaultKind.HTML_PAGE),
        Fault(FaultKind.CONTENT_TYPE),
        Fault(FaultKind.ERROR_EVENT, after_events=2, error_type="overloaded_error"),
        *(Fault(kind, after_events=1) for kind in (FaultKind.DUPLICATE, FaultKind.MISSING, FaultKind.REORDERED)),
        Fault(FaultKind.SPLICE, after_events=2),
        Fault(FaultKind.GARBAGE, after_bytes=300),
    ],
)
def test_responses_with_faults(server: ReplayServer, http: httpx.Client, fault: Fault) -> None:
    """A client gets what `break_reply` makes of the response, and an error has one request id in both places."""
    _NEXT.pending = [fault]
    response = http.post("/v1/messages", json=_REQUEST)
    request = server.requests[-1]
    assert request.wait_ended(20)
    assert (request.fault, request.status, request.disconnected) == (fault, response.status_code, False)
    assert response.headers["request-id"] == request.request_id
    broken = break_reply(_REPLY, fault, request.request_id).recording
    assert (response.status_code, response.content) == (broken.status, broken.body)
    headers = {"content-type": "text/event-stream; charset=utf-8", **broken.headers}
    for name in ("content-type", "retry-after"):
        assert response.headers.get(name) == headers.get(name)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(FaultKind.CLOSE, after_bytes=500), httpx.RemoteProtocolError),
        (Fault(FaultKind.CLOSE, before_headers=True), httpx.RemoteProtocolError),
        (Fault(FaultKind.RESET, after_bytes=500), httpx.ReadError),
        (Fault(FaultKind.RESET, before_headers=True), httpx.ReadError),
        (Fault(FaultKind.BROKEN_CHUNKING, after_bytes=500), httpx.RemoteProtocolError),
        (Fault(FaultKind.STALL, after_bytes=500), httpx.ReadTimeout),
    ],
    ids=str,
)
async def test_what_a_client_makes_of_it(server: ReplayServer, fault: Fault, error: type[Exception]) -> None:
    """A client of HTTP has the bytes before it, and an error of its own; the next attempt gets the whole reply."""
    _NEXT.pending = [fault]
    timeout = httpx.Timeout(20, read=0.1 if fault.kind is FaultKind.STALL else 20)
    async with httpx.AsyncClient(base_url=server.base_url, timeout=timeout, verify=False) as client:
        parts = []
        with pytest.raises(error):
            async with client.stream("POST", "/v1/messages", json=_REQUEST) as response:
                async for part in response.aiter_raw():
                    parts.append(part)
        assert b"".join(parts) == (b"" if fault.before_headers else _BODY[:500])
        assert (await client.post("/v1/messages", json=_REQUEST)).content == _BODY
        assert [request.fault for request in server.requests[-2:]] == [fault, None]


# --- the schedule -----------------------------------------------------------------------------------------------------


def test_turns_and_attempts() -> None:
    """Each turn fails as often as its list says; what is refused anyway, or answered with an error, uses none up."""
    error, end = Fault(FaultKind.HTTP_ERROR, status=529), Fault(FaultKind.END, after_events=2)
    faults = Faults({0: [error, error], 1: [end], 2: [end]})
    second = {**_REQUEST, "messages": [_USER, {"role": "assistant", "content": "x"}, _USER]}
    third = {**_REQUEST, "messages": [*second["messages"], {"role": "assistant", "content": "x"}, _USER]}
    refused = {**_REQUEST, "max_tokens": "16"}
    with ReplayServer(Scenario(_REPLY, _DONE), faults=faults) as server:
        with httpx.Client(base_url=server.base_url, timeout=20) as client:
            for request in (_REQUEST, refused, _REQUEST, second, third, _REQUEST, second):
                client.post("/v1/messages", json=request)
        assert [request.fault for request in server.requests] == [error, None, error, end, None, None, None]
        assert [request.status for request in server.requests] == [529, 400, 529, 200, 400, 200, 200]
        assert faults.injected == Counter({FaultKind.HTTP_ERROR: 2, FaultKind.END: 1})


async def _send_all(faults: Faults, at_once: int) -> dict[str, list[str]]:
    """What each of some conversations met at its two attempts, by its first message."""
    limiter = anyio.CapacityLimiter(at_once)
    async with ReplayServer(_DONE, faults=faults) as server, httpx.AsyncClient(timeout=20, verify=False) as client:

        async def send(name: str) -> None:
            async with limiter:
                for _ in range(2):
                    request = {**_REQUEST, "messages": [{"role": "user", "content": name}]}
                    try:
                        await client.post(f"{server.base_url}/v1/messages", json=request)
                    except httpx.TransportError:
                        pass

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(send, f"{number}")
        assert faults.injected == Counter(entry.fault.kind for entry in server.requests if entry.fault)
        met: dict[str, list[str]] = {}
        for entry in server.requests:
            met.setdefault(entry.body["messages"][0]["content"], []).append(str(entry.fault))
    return met


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_seed_at_any_concurrency() -> None:
    """Conversations at the same time meet what they meet one after the other."""
    met = await _send_all(Faults.random("same", 0.7), at_once=1)
    assert met == await _send_all(Faults.random("same", 0.7), at_once=10)
    assert len(met) == 12
    assert all(len(faults) == 2 for faults in met.values())


@pytest.mark.slow
def test_one_schedule_for_two_servers() -> None:
    """Attempts are counted by the schedule: the second server goes on where the first was."""
    faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=500)]})
    statuses = []
    for _ in range(2):
        with ReplayServer(_DONE, faults=faults) as server:
            statuses.append(httpx.post(f"{server.base_url}/v1/messages", json=_REQUEST, timeout=20).status_code)
    assert statuses == [500, 200]


# --- what a fault is --------------------------------------------------------------------------------------------------


@rows(
    "fault, shown",
    [
        (Fault(FaultKind.RESET, after_bytes=1234), "reset after 1234 bytes"),
        (Fault(FaultKind.RESET, after_bytes=1), "reset after 1 byte"),
        (Fault(FaultKind.CLOSE, before_headers=True), "close before the headers"),
        (Fault(FaultKind.BROKEN_CHUNKING), "broken chunking after 0 events"),
        (Fault(FaultKind.ERROR_EVENT, error_type="api_error", after_events=1), "api_error event after 1 event"),
        (Fault(FaultKind.HTTP_ERROR, status=529), "HTTP 529 overloaded_error"),
        (
            Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=2),
            "HTTP 429 rate_limit_error, retry after 2 s",
        ),
        (Fault(FaultKind.HTML_PAGE), "HTML page with HTTP 502"),
        (Fault(FaultKind.CONTENT_TYPE), "wrong content type"),
    ],
)
def test_readable(fault: Fault, shown: str) -> None:
    """The message of a failing test says it in words, and in code that makes the same fault again."""
    assert str(fault) == shown
    assert eval(repr(fault), {"Fault": Fault, "FaultKind": FaultKind}) == fault


_WRONG_FOR_EVERY_KIND: list[dict[str, Any]] = [
    {"after_bytes": 1, "after_events": 1},
    {"after_bytes": -1},
    {"after_events": -1},
    {"after_events": 1.5},
    {"after_bytes": True},
    {"before_headers": True, "after_bytes": 1},
    {"before_headers": True, "after_events": 1},
    {"status": 418, "error_type": "api_error"},
    {"status": 700},
    {"error_type": "teapot_error"},
    {"retry_after_s": -1.0, "status": 429},
    {"retry_after_s": float("inf"), "status": 429},
]


@rows(
    "kind, fields",
    [
        *((kind, fields) for kind in FaultKind for fields in _WRONG_FOR_EVERY_KIND),
        (FaultKind.HTTP_ERROR, {}),
        (FaultKind.HTTP_ERROR, {"status": 529, "after_events": 1}),
        (FaultKind.HTTP_ERROR, {"status": 529, "error_type": "overloaded_error"}),
        (FaultKind.HTML_PAGE, {"after_bytes": 0}),
        (FaultKind.HTML_PAGE, {"retry_after_s": 1}),
        (FaultKind.ERROR_EVENT, {}),
        (FaultKind.ERROR_EVENT, {"error_type": "api_error", "after_bytes": 0}),
        (FaultKind.SPLICE, {"after_bytes": 3}),
        (FaultKind.END, {"status": 200}),
        (FaultKind.END, {"error_type": "api_error"}),
        ("reste", {"after_bytes": 3}),
    ],
)
def test_values_that_cannot_be(kind: Any, fields: dict[str, Any]) -> None:
    """They are refused when they are given. Nothing is ignored silently: a value without a use is a mistake."""
    with pytest.raises(UsageError):
        Fault(kind, **fields)


@rows("kind", FaultKind)
def test_before_the_headers(kind: FaultKind) -> None:
    """Only what needs no headers can come before them."""
    needed: dict[FaultKind, dict[str, Any]] = {
        FaultKind.HTTP_ERROR: {"status": 500},
        FaultKind.ERROR_EVENT: {"error_type": "api_error"},
    }
    Fault(kind, **needed.get(kind, {}))
    if kind in UNANSWERED:
        Fault(kind, before_headers=True)
    else:
        with pytest.raises(UsageError):
            Fault(kind, before_headers=True, **needed.get(kind, {}))


def test_a_kind_by_its_name() -> None:
    """A kind may be given as its text, from a file of settings say."""
    kind: Any = "reset"
    assert Fault(kind, after_bytes=3) == Fault(FaultKind.RESET, after_bytes=3)
