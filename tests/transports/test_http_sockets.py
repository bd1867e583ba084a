"""`HTTPTransport` over real connections: what goes wrong with them, and that none is left behind."""

from __future__ import annotations

import socket

import anyio
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.errors import APIError, ProtocolError, StreamInterrupted
from eagerstream.limits import Limits
from eagerstream.transports import HTTPTransport, _http_settings as settings
from eagerstream.transports._http_clients import Library
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, reply, text, tool_use
from eagerstream_wire import MessageStop
from tests.streaming.streams import finished
from tests.streams import REQUEST, event_line
from tests.transports.peers import made_client

pytestmark = pytest.mark.anyio

WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))
_IMPATIENT = Limits(idle_timeout_s=0.3)
_SLOWLY_S = 20


async def _unreached(transport: HTTPTransport) -> BaseException | None:
    """The cause of an error that says that the API could not be reached."""
    with pytest.raises(APIError, match="could not be reached") as caught:
        await finished(transport)
    assert caught.value.retryable
    return caught.value.__cause__


async def test_addresses_of_one_server(http_library: Library) -> None:
    """However a server tells its address, the request gets there; without a key too, or with one of another kind."""
    async with eagerstream.stream(WEATHER, **REQUEST, buffer="wait") as played:
        expected = [event_line(event) async for event in played]
    assert expected[-1][0] == MessageStop.__name__
    async with ReplayServer(WEATHER) as server, made_client(http_library) as http_client:
        for path in ("", "/", "/v1", "/v1/", "/v1/messages"):
            headers = {"authorization": "Bearer local"} if path else {}
            transport = HTTPTransport(base_url=server.base_url + path, headers=headers, http_client=http_client)
            async with eagerstream.stream(transport, **REQUEST, buffer="wait") as stream:
                assert [event_line(event) async for event in stream] == expected, path
            request = server.requests[-1]
            assert request.body == {**REQUEST, "stream": True}, path
            assert "x-api-key" not in request.headers, path
            assert ("authorization" in request.headers) == bool(path)
        assert len(server.requests) == 5


async def _until_asked(server: ReplayServer) -> None:
    """Until a request is there, which the server's own thread writes down."""
    for _ in range(_SLOWLY_S * 100):
        if server.requests:
            return
        await anyio.sleep(0.01)
    raise AssertionError("no request came")


_ENDED = [FaultKind.END, FaultKind.CLOSE, FaultKind.RESET, FaultKind.BROKEN_CHUNKING, FaultKind.STALL]
_FAULTS = [
    *((Fault(kind, before_headers=True), APIError, None) for kind in (FaultKind.CLOSE, FaultKind.RESET)),
    (Fault(FaultKind.STALL, before_headers=True), StreamInterrupted, None),
    *((Fault(kind, after_bytes=400), StreamInterrupted, None) for kind in _ENDED),
    (Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=2), APIError, 429),
    (Fault(FaultKind.HTML_PAGE, status=502), APIError, 502),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind", "status"), _FAULTS, ids=[str(fault) for fault, *_ in _FAULTS])
async def test_what_may_pass(http_library: Library, fault: Fault, kind: type[APIError], status: int | None) -> None:
    """The same error in the same terms over each library, and the next request goes through the same client."""
    # aiohttp drops the bytes that come in one read with the headers and with broken chunking.
    may_lose_all = http_library == "aiohttp" and fault.kind is FaultKind.BROKEN_CHUNKING
    async with (
        ReplayServer(WEATHER, faults=Faults({0: [fault]})) as server,
        made_client(http_library) as http_client,
    ):
        transport = HTTPTransport(base_url=server.base_url, http_client=http_client)
        with pytest.raises(APIError if may_lose_all else kind) as caught:
            await finished(transport, limits=_IMPATIENT)
        await finished(transport)
    assert may_lose_all or type(caught.value) is kind
    assert caught.value.retryable
    assert caught.value.status_code == status
    assert caught.value.retry_after_s == fault.retry_after_s
    if not may_lose_all:
        assert (caught.value.message is not None) == (kind is StreamInterrupted and not fault.before_headers)


async def test_what_does_not_pass(http_library: Library) -> None:
    """An error for good, with all that the server says of it; and what is no stream of events."""
    refused = Fault(FaultKind.HTTP_ERROR, status=401)
    faults = Faults({0: [refused, Fault(FaultKind.CONTENT_TYPE)]})
    async with (
        ReplayServer(WEATHER, faults=faults) as server,
        made_client(http_library) as http_client,
    ):
        transport = HTTPTransport(base_url=server.base_url, http_client=http_client)
        with pytest.raises(APIError, match="invalid x-api-key") as caught:
            await finished(transport)
        with pytest.raises(ProtocolError, match="not a stream"):
            await finished(transport)
        (first, _) = server.requests
    error = caught.value
    assert (error.status_code, error.error_type, error.retryable) == (401, "authentication_error", False)
    assert error.request_id == first.request_id


async def test_a_connection_refused(http_library: Library) -> None:
    """Nobody listens there; somebody may later."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        async with made_client(http_library) as http_client:
            base_url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            cause = await _unreached(HTTPTransport(base_url=base_url, http_client=http_client))
    assert type(cause).__name__ in ("ConnectError", "ClientConnectorError")


@pytest.mark.slow
async def test_a_server_that_takes_no_connection(http_library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue is full: getting a connection has a bound of its own, whatever the client's."""
    monkeypatch.setattr(settings, "CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(address)
        try:
            async with made_client(http_library, timeout=None) as http_client:
                transport = HTTPTransport(base_url=f"http://127.0.0.1:{address[1]}", http_client=http_client)
                cause = await _unreached(transport)
        finally:
            for connection in waiting:
                connection.close()
    assert type(cause).__name__ in ("ConnectTimeout", "ConnectionTimeoutError")


@pytest.mark.parametrize("before_headers", [True, False])
async def test_cancelled(http_library: Library, before_headers: bool) -> None:
    """The connection is closed at once, while its reply is waited for and in the middle of it; the client goes on."""
    stalled = Fault(FaultKind.STALL, before_headers=True) if before_headers else Fault(FaultKind.STALL, after_bytes=400)
    async with (
        ReplayServer(Scenario.of(WEATHER), faults=Faults({0: [stalled]})) as server,
        made_client(http_library) as http_client,
    ):
        transport = HTTPTransport(base_url=server.base_url, http_client=http_client)
        began = anyio.Event()

        async def follow() -> None:
            async with eagerstream.stream(transport, **REQUEST) as stream:
                await anext(stream)
                began.set()
                await stream.finish()

        with anyio.fail_after(_SLOWLY_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                if before_headers:
                    await _until_asked(server)
                else:
                    await began.wait()
                tasks.cancel_scope.cancel()
            (request,) = server.requests
            assert await anyio.to_thread.run_sync(request.wait_ended, 5)
            assert request.disconnected
        await finished(transport)
