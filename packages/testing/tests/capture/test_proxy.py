"""`RecordingProxy`: the official client gets what it would get without, and a recording is made of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import anyio
import anyio.to_thread
import httpx
import pytest
from packages.testing.tests.capture.proxies import JSON, TIMEOUT_S, exchange, load, post, wire
from tests.streams import REQUEST, USER, event_line, made_recordings
from tests.support import anthropic_client, until
from tests.tables import rows

import eagerstream
from eagerstream import Recording
from eagerstream.errors import UsageError
from eagerstream.recordings import Chunk
from eagerstream_testing import (
    Fault,
    FaultKind,
    Faults,
    ReplayServer,
    Scenario,
    Timing,
    encode_event,
    http_error,
    reply,
    retime,
    text,
    tool_use,
)
from eagerstream_testing._application import MAX_REQUEST_BYTES
from eagerstream_testing.capture import RecordingFolder, RecordingProxy
from eagerstream_testing.capture._upstream import Upstream, end_to_end, request_headers

KEY = "sk-ant-api03-Zx9_abc-DEF"
SAID = retime(reply(text("Hello there, how are you?")), Timing(cut=100, tokens_per_second=1e6))
ENDLESS = Recording((Chunk(0, encode_event({"type": "ping"})), Chunk(3600, b"data: never\n\n")))
BODY = {**REQUEST, "stream": True}
MESSAGES: Any = [USER]


# Where a stream is given up, the client leaves its generators to the garbage collector, which trio complains about.
left_by_the_client = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def asking(client: Any, content: str, **options: Any) -> Any:
    message = {"role": "user", "content": content}
    return client.messages.with_streaming_response.create(
        model="m", max_tokens=16, messages=[message], stream=True, **options
    )


async def answer_to(client: Any, content: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, end-to-end headers and bytes of an answer, whatever it is."""
    try:
        async with asking(client, content) as response:
            http, body = response.http_response, b"".join([chunk async for chunk in response.iter_bytes()])
    except anthropic.APIStatusError as error:
        http, body = error.response, error.response.content
    # Which differ from one request to the next, and say so by being there once.
    varying = ("date", "request-id", "transfer-encoding", "content-length")
    return (
        http.status_code,
        [(name, "" if name in varying else value) for name, value in http.headers.multi_items()],
        body,
    )


# --- what passes --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.anyio
async def test_byte_by_byte(tmp_path: Path) -> None:
    """Of every recording, and of errors: status, headers and bytes are those that the client gets directly."""
    replies = {path.stem: Recording.load(path) for path in made_recordings()}
    replies["overloaded"] = http_error(529, "overloaded_error", "Overloaded", request_id="req_mine")
    replies["refused"] = http_error(401, "authentication_error", "invalid x-api-key", request_id="req_mine")
    replies["headers"] = Recording(
        SAID.chunks, headers={"Content-Type": "text/event-stream", "x-a": "1", "retry-after": "3"}
    )

    def answer(request: Mapping[str, Any]) -> Recording:
        return replies[request["messages"][0]["content"]]

    async with ReplayServer(Scenario.of(answer)) as server, anthropic_client(server.base_url) as direct:
        folder = RecordingFolder(tmp_path, keep_secrets=True)
        async with RecordingProxy(server.base_url, folder) as proxy, anthropic_client(proxy.base_url) as client:
            for name in replies:
                assert await answer_to(client, name) == await answer_to(direct, name), name
    recorded = load(tmp_path)
    assert [made.body for made in recorded] == [made.body for made in replies.values()]
    assert [made.status for made in recorded] == [made.status for made in replies.values()]
    assert recorded[-1].headers["x-a"] == "1"


@pytest.mark.slow
@pytest.mark.anyio
async def test_served_again(tmp_path: Path) -> None:
    """What was recorded plays as it was: with its key and words masked, the same events in the same chunks."""
    said = retime(
        reply(text(f"Key {KEY}"), tool_use("f", {"city": "Oslo"})), Timing(cut="random", tokens_per_second=1e5)
    )

    async def events(url: str) -> list[Any]:
        async with anthropic_client(url) as client, eagerstream.stream(client, **REQUEST) as stream:
            return [event_line(event) async for event in stream]

    async with ReplayServer(said) as server, RecordingProxy(server.base_url, tmp_path / "a") as proxy:
        direct = await events(server.base_url)
        assert await events(proxy.base_url) == direct
    (made,) = load(tmp_path / "a")
    async with ReplayServer(made) as server, RecordingProxy(server.base_url, tmp_path / "b") as proxy:
        masked = await events(server.base_url)
        assert await events(proxy.base_url) == masked
    assert [line[0] for line in masked] == [line[0] for line in direct]
    assert KEY not in str(masked)
    (again,) = load(tmp_path / "b")
    assert again.body == made.body


def test_what_the_upstream_is_sent(tmp_path: Path) -> None:
    """Path, query, body and headers as they come, but those of a connection; the host is the upstream's."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Twice: 1\r\nX-Twice: 2\r\nDate: then\r\n\r\nhi"
    sent = (
        b"x-api-key: " + KEY.encode(),
        b"X-Odd: a,  b",
        b"Connection: x-mine",
        b"X-Mine: 1",
        b"TE: trailers",
        b"Accept-Encoding: gzip",
        b"Via: 1.0 a",
    )
    with wire(answer, answer) as upstream, RecordingProxy(f"{upstream.url}/base/", tmp_path) as proxy:
        got = exchange(proxy, post(b"/v1/messages?beta=true&x=%2F%zz", *sent, body=b"\x00\xff"))
        exchange(proxy, post(b"/v1/files%3Aa/", b"Accept-Encoding: gzip"))
    lines = upstream.received[0].split(b"\r\n")
    assert lines[0] == b"POST /base/v1/messages?beta=true&x=%2F%zz HTTP/1.1"
    assert lines[-1] == b"\x00\xff"
    assert sorted(line.lower() for line in lines[1:-2]) == sorted(
        (
            b"host: " + upstream.url.removeprefix("http://").encode(),
            b"content-length: 2",
            b"content-type: application/json",
            b"x-api-key: " + KEY.lower().encode(),
            b"x-odd: a,  b",
            b"accept-encoding: identity",
            b"via: 1.0 a, 1.1 eagerstream",
        )
    )
    assert upstream.received[1].startswith(b"POST /base/v1/files%3Aa/ HTTP/1.1\r\n")
    assert b"gzip" in upstream.received[1]
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == b"hi"
    assert [line.lower() for line in head.split(b"\r\n")] == [
        b"http/1.1 200 ok",
        b"content-length: 2",
        b"x-twice: 1",
        b"x-twice: 2",
        b"date: then",
        b"connection: close",
    ]
    (made,) = load(tmp_path)
    assert made.body == b"hi"
    assert KEY not in (tmp_path / "0001.jsonl").read_text()


def test_a_length_beside_chunks(tmp_path: Path) -> None:
    """Chunks count: passed on, the length would hide a part of the body."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    asked = b"POST /v1/messages HTTP/1.1\r\nHost: proxy\r\nTransfer-Encoding: chunked\r\n" + JSON
    with wire(answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        got = exchange(proxy, asked + b"\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    assert got.endswith(b"2\r\nhi\r\n0\r\n\r\n")
    assert b"content-length: 1\r\n" not in got.lower()
    assert upstream.received[0].endswith(b"\r\n\r\n{}")
    assert [(made.body, "broke" in made.note) for made in load(tmp_path)] == [(b"hi", False)]


def test_headers_that_are_not_ascii(tmp_path: Path) -> None:
    """A recording has their bytes, also where they are UTF-8."""
    answer = "HTTP/1.1 200 OK\r\nx-city: Z\u00fcrich \u4e16\r\nContent-Length: 2\r\n\r\nhi".encode()
    with wire(answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        exchange(proxy, post(b"/v1/messages"))
    (made,) = load(tmp_path)
    assert made.headers["x-city"].encode("latin-1") == "Z\u00fcrich \u4e16".encode()


def test_every_response_has_one_date(tmp_path: Path) -> None:
    """That of the upstream passes, one without gets one, and what the proxy says itself has one (RFC 9110, 6.6.1)."""
    for date in (b"Date: then\r\n", b""):
        answer = b"HTTP/1.1 200 OK\r\n" + date + b"Content-Length: 2\r\n\r\nhi"
        with wire(answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
            head = exchange(proxy, post(b"/v1/messages")).partition(b"\r\n\r\n")[0].lower()
            assert head.count(b"\r\ndate: ") == 1
            assert (b"\r\ndate: then" in head) is bool(date)
    with RecordingProxy("http://127.0.0.1:9", tmp_path) as proxy:
        head = exchange(proxy, post(b"/v1/messages")).partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 502 ")
    assert head.count(b"\r\ndate: ") == 1


def test_redirects_are_the_clients(tmp_path: Path) -> None:
    """The proxy does not take its key to another server; nor does it keep cookies for the next client."""
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n"
    with wire(answer, answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        for _ in range(2):
            got = exchange(proxy, post(b"/v1/messages"))
            assert got.startswith(b"HTTP/1.1 302")
            assert b"http://127.0.0.1:1/" in got
    assert b"cookie" not in upstream.received[1].lower()


@pytest.mark.anyio
async def test_only_messages_are_recorded(tmp_path: Path) -> None:
    """Other paths, and other methods, only pass."""
    async with ReplayServer(SAID) as server, RecordingProxy(server.base_url, tmp_path) as proxy:
        async with httpx.AsyncClient(base_url=proxy.base_url, timeout=TIMEOUT_S) as client:
            assert (await client.get("/")).text.startswith("A Messages API double")
            assert (await client.get("/v1/messages")).status_code == 405
            assert (await client.head("/")).status_code == 200
            assert (await client.post("/v1/messages/count_tokens", json=BODY)).status_code == 400
            assert (await client.post("/v1/messages?beta=true", json=BODY)).content == SAID.body
        assert server.requests[-1].query == "beta=true"
    assert len(load(tmp_path)) == 1


@left_by_the_client
@pytest.mark.anyio
async def test_headers_and_chunks_at_once(tmp_path: Path) -> None:
    """The client has the head and the first chunk while the reply goes on."""
    async with ReplayServer(ENDLESS) as server, RecordingProxy(server.base_url, tmp_path) as proxy:
        async with anthropic_client(proxy.base_url) as client, asking(client, "Go.") as response:
            assert await anext(response.iter_bytes()) == ENDLESS.chunks[0].data


@pytest.mark.slow
@pytest.mark.anyio
async def test_twenty_at_once(tmp_path: Path) -> None:
    """Each client gets its own reply, and files are in the order of the requests, whichever reply ends first."""

    def answer(request: Mapping[str, Any]) -> Recording:
        number = int(request["messages"][0]["content"])
        said = reply(text(f"This is {number}.")).body
        return Recording((Chunk(0, said[:100]), Chunk(0.2 - number / 200, said[100:])))

    got: dict[int, bytes] = {}

    async def read(number: int, response: Any) -> None:
        got[number] = b"".join([chunk async for chunk in response.iter_bytes()])

    async with ReplayServer(Scenario.of(answer)) as server, RecordingProxy(server.base_url, tmp_path) as proxy:
        async with anthropic_client(proxy.base_url) as client:
            responses = [asking(client, str(number)) for number in range(20)]
            entered = [await response.__aenter__() for response in responses]
            async with anyio.create_task_group() as tasks:
                for number, response in enumerate(entered):
                    tasks.start_soon(read, number, response)
            for response in responses:
                await response.__aexit__(None, None, None)
    recorded = load(tmp_path)
    assert [made.body for made in recorded] == [got[number] for number in range(20)]
    assert all(f"This is {number}." in "".join(said(made.body)) for number, made in enumerate(recorded))


def said(body: bytes) -> list[str]:
    from tests.streams import wire_events

    return [event["delta"].get("text", "") for event in wire_events(body) if event["type"] == "content_block_delta"]


# --- what breaks --------------------------------------------------------------------------------------------------------

PLACE = len(SAID.body) // 2
FAULTS = [
    Fault(FaultKind.HTTP_ERROR, status=429, retry_after_s=2),
    Fault(FaultKind.HTTP_ERROR, status=500),
    Fault(FaultKind.HTML_PAGE),
    Fault(FaultKind.CONTENT_TYPE),
    Fault(FaultKind.ERROR_EVENT, after_events=3, error_type="overloaded_error"),
    Fault(FaultKind.END, after_bytes=PLACE),
    Fault(FaultKind.CLOSE, after_bytes=PLACE),
    Fault(FaultKind.CLOSE, before_headers=True),
    Fault(FaultKind.RESET, after_bytes=PLACE),
    Fault(FaultKind.RESET, before_headers=True),
    Fault(FaultKind.BROKEN_CHUNKING, after_bytes=PLACE),
    Fault(FaultKind.GARBAGE, after_bytes=PLACE),
    Fault(FaultKind.STALL, after_bytes=PLACE),
    Fault(FaultKind.STALL, before_headers=True),
]


async def ending(client: Any) -> tuple[Any, ...]:
    """What a client sees of a reply: its error, and as whose."""
    got = 0
    try:
        stream = await client.messages.create(model="m", max_tokens=16, messages=MESSAGES, stream=True)
        async for _ in stream:
            got += 1
    except anthropic.APIStatusError as error:
        return type(error), error.status_code, error.body, dict(error.response.headers).get("retry-after"), got
    except Exception as error:
        return type(error), type(error.__cause__), got
    return (got,)


@pytest.mark.slow
@left_by_the_client
@pytest.mark.anyio
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_what_breaks_is_passed_on_as_broken(fault: Fault, tmp_path: Path) -> None:
    """The client sees the same error as directly, after as many events; what came is recorded, and where it broke."""
    timeout_s = 0.15 if fault.kind is FaultKind.STALL else TIMEOUT_S
    async with ReplayServer(SAID, faults=Faults({0: [fault, fault]})) as server:
        async with RecordingProxy(server.base_url, tmp_path) as proxy, anthropic_client(server.base_url) as client:
            direct = await ending(client.with_options(timeout=timeout_s))
            through = await ending(client.with_options(timeout=timeout_s, base_url=proxy.base_url))
            assert await anyio.to_thread.run_sync(server.requests[-1].wait_ended, TIMEOUT_S)
        assert [request.fault for request in server.requests] == [fault, fault]
    assert _without_request_id(through) == _without_request_id(direct)
    recorded = load(tmp_path)
    if fault.before_headers:
        assert recorded == []
        return
    (made,) = recorded
    notes = {
        FaultKind.CLOSE: "it broke off: the connection to the upstream was lost",
        FaultKind.RESET: "it broke off: the connection to the upstream was lost",
        FaultKind.BROKEN_CHUNKING: "it broke off: the connection to the upstream was lost",
        FaultKind.STALL: "the client left before its end",
    }
    note = made.note.partition("; ")[2]
    if fault.kind in (FaultKind.ERROR_EVENT, FaultKind.GARBAGE):
        # The client may leave when it has seen that, and the proxy be closed before it has noticed.
        assert note in ("", notes[FaultKind.STALL], "the proxy was closed before its end")
    else:
        assert note == notes.get(fault.kind, "")
    if fault.kind in notes:
        assert made.body == SAID.body[:PLACE]


def _without_request_id(seen: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple({**part, "request_id": ""} if isinstance(part, dict) else part for part in seen)


@pytest.mark.anyio
async def test_an_upstream_that_is_not_there(tmp_path: Path) -> None:
    """An error in the API's shape, which clients know; nothing to record."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with RecordingProxy(f"http://me:hunter2@127.0.0.1:{port}/x", tmp_path) as proxy:
        async with anthropic_client(proxy.base_url) as client:
            with pytest.raises(anthropic.InternalServerError) as caught:
                await client.messages.create(model="m", max_tokens=16, messages=MESSAGES)
    message = f"the proxy cannot reach 127.0.0.1:{port} (ConnectError)"
    assert caught.value.body == {"type": "error", "error": {"type": "api_error", "message": message}}
    assert caught.value.status_code == 502
    assert load(tmp_path) == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nnonsense\r\n",
    ],
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_no_broken_reply_ends_cleanly(answer: bytes, version: bytes, tmp_path: Path) -> None:
    """Also for a client that knows no chunks, to which the mere close of a connection is an end."""
    with wire(answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        got = exchange(proxy, post(b"/v1/messages").replace(b"HTTP/1.1", b"HTTP/" + version, 1))
    assert b"hi" in got
    head, _, body = got.partition(b"\r\n\r\n")
    if version == b"1.0":
        assert got.endswith(b"<reset>")
    else:
        assert b"content-length: 10" in head.lower() or body == b"2\r\nhi\r\n"
    assert [made.body for made in load(tmp_path)] == [b"hi"]


def test_nonsense_instead_of_http(tmp_path: Path) -> None:
    """Before any header: the connection is closed without a word."""
    with wire(b"nonsense\r\n\r\n") as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        assert exchange(proxy, post(b"/v1/messages")) == b""


@pytest.mark.parametrize("status", [b"799", b"600"])
def test_a_status_that_http_does_not_have(status: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The connection is broken, and the log says that, but nothing of the reply."""
    answer = b"HTTP/1.1 " + status + b" Odd\r\nX-Odd: odd\r\nContent-Length: 2\r\n\r\nhi"
    with wire(answer) as upstream, RecordingProxy(upstream.url, tmp_path) as proxy:
        assert exchange(proxy, post(b"/v1/messages")) in (b"", b"<reset>")
    assert "Traceback" not in caplog.text
    assert "odd" not in caplog.text.lower()


@left_by_the_client
@pytest.mark.anyio
async def test_the_client_leaves(tmp_path: Path) -> None:
    """Its request is ended upstream at once, and what came is kept."""
    async with ReplayServer(ENDLESS) as server:
        async with RecordingProxy(server.base_url, tmp_path) as proxy:
            async with anthropic_client(proxy.base_url) as client:
                async with asking(client, "Go.") as response:
                    await anext(response.iter_bytes())
            (request,) = server.requests
            assert await anyio.to_thread.run_sync(request.wait_ended, TIMEOUT_S)
            assert request.disconnected
    (made,) = load(tmp_path)
    assert made.body == ENDLESS.chunks[0].data
    assert made.note.endswith("; the client left before its end")


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_client_leaves_before_the_reply(tmp_path: Path) -> None:
    """The same before any header, with nothing to keep."""
    fault = Fault(FaultKind.STALL, before_headers=True)
    async with ReplayServer(SAID, faults=Faults({0: [fault]})) as server:
        async with RecordingProxy(server.base_url, tmp_path) as proxy, anthropic_client(proxy.base_url) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ending, client)
                await until(lambda: server.requests)
                tasks.cancel_scope.cancel()
            (request,) = server.requests
            assert await anyio.to_thread.run_sync(request.wait_ended, TIMEOUT_S)
    assert load(tmp_path) == []


def test_the_client_leaves_in_its_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is passed on."""
    with ReplayServer(SAID) as server, RecordingProxy(server.base_url, tmp_path) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(
                b"POST /v1/messages HTTP/1.1\r\nHost: localhost:%d\r\nExpect: 100-continue\r\n" % proxy.port
                + JSON
                + b"\r\nContent-Length: 9\r\n\r\n"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 100")  # so the request has arrived
        httpx.post(f"{proxy.base_url}/v1/messages", json=BODY, timeout=TIMEOUT_S)
    assert len(server.requests) == 1
    assert caplog.records == []


@pytest.mark.anyio
async def test_the_proxy_is_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Replies under way are cut, upstream too, and what came is written; no thread and no connection is left."""
    async with ReplayServer(ENDLESS) as server, httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        async with RecordingProxy(server.base_url, tmp_path) as proxy:
            request = client.build_request("POST", f"{proxy.base_url}/v1/messages", json=BODY)
            response = await client.send(request, stream=True)
            chunks = response.aiter_raw()
            assert await anext(chunks) == ENDLESS.chunks[0].data
        with pytest.raises(httpx.TransportError):
            await anext(chunks)
        assert await anyio.to_thread.run_sync(server.requests[0].wait_ended, TIMEOUT_S)
    (made,) = load(tmp_path)
    assert made.body == ENDLESS.chunks[0].data
    assert made.note.endswith("; the proxy was closed before its end")
    assert [thread.name for thread in threading.enumerate() if "proxy" in thread.name] == []
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


# --- bounds -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_request_that_is_too_large(tmp_path: Path) -> None:
    """It is read to its end, since clients read no answer before that, and refused as the API refuses it."""
    with ReplayServer(SAID) as server, RecordingProxy(server.base_url, tmp_path) as proxy:
        answer = httpx.post(
            f"{proxy.base_url}/v1/messages",
            content=b"x" * (MAX_REQUEST_BYTES + 1),
            headers={"content-type": "application/json"},
            timeout=TIMEOUT_S,
        )
        assert answer.status_code == 413
        assert answer.json()["error"]["type"] == "request_too_large"
        assert server.requests == []
        answer = httpx.post(f"{proxy.base_url}/v1/messages", json=BODY, timeout=TIMEOUT_S)
        assert answer.content == SAID.body


@pytest.mark.slow
def test_a_reply_that_is_too_large(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It passes whole, and is not recorded."""
    with (
        ReplayServer(SAID) as server,
        RecordingProxy(server.base_url, RecordingFolder(tmp_path, max_reply_bytes=500)) as proxy,
    ):
        for _ in range(2):
            assert httpx.post(f"{proxy.base_url}/v1/messages", json=BODY, timeout=TIMEOUT_S).content == SAID.body
    assert load(tmp_path) == []
    assert [record.message for record in caplog.records] == ["a response over 500 bytes is not recorded"]


@pytest.mark.slow
def test_a_reply_that_never_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It passes for as long as the client reads, and takes no more memory than a recording may."""
    fault = Fault(FaultKind.ENDLESS, after_events=2)
    folder = RecordingFolder(tmp_path, max_reply_bytes=50_000)
    with ReplayServer(SAID, faults=Faults({0: [fault]})) as server, RecordingProxy(server.base_url, folder) as proxy:
        size = 0
        with httpx.stream("POST", f"{proxy.base_url}/v1/messages", json=BODY, timeout=TIMEOUT_S) as response:
            for chunk in response.iter_raw():
                size += len(chunk)
                if size > 1_000_000:
                    break
        assert server.requests[0].wait_ended(TIMEOUT_S)
    assert folder._held_bytes == 0
    assert load(tmp_path) == []
    assert len(caplog.records) == 1


def test_a_break_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong in the proxy itself: the client's reply does not end cleanly, and no trace of it is logged."""

    async def fail(*_: object) -> None:
        raise RuntimeError("words of the reply")

    monkeypatch.setattr("eagerstream_testing.capture._proxy.close", fail)
    with wire(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhi") as upstream:
        with RecordingProxy(upstream.url, tmp_path) as proxy:
            assert b"content-length: 10" in exchange(proxy, post(b"/v1/messages")).lower()
    assert [record.message for record in caplog.records] == ["a response could not be passed on: RuntimeError"]
    assert [made.body for made in load(tmp_path)] == [b"hi"]


# --- settings -----------------------------------------------------------------------------------------------------------


@rows(
    "url",
    [
        "",
        "api.anthropic.com",
        "ftp://h",
        "http://",
        "http://h:x",
        "http://h:0",
        "http://h?a=b",
        "http://h#a",
        "http://h \n",
        "http://me:hunter2@h?x=1",
    ],
)
def test_urls_that_are_none(url: str, tmp_path: Path) -> None:
    """Said in one line, without the password."""
    with pytest.raises(UsageError, match="the upstream is a URL") as caught:
        RecordingProxy(url, tmp_path)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@rows(
    "url, host, is_local",
    [
        ("https://api.anthropic.com", "api.anthropic.com", False),
        ("http://localhost:8080/a/", "localhost:8080", True),
        ("http://[::1]:80", "[::1]:80", True),
        ("http://127.9.9.9", "127.9.9.9", True),
        ("http://0.0.0.0:1", "0.0.0.0:1", False),
    ],
)
def test_upstreams(url: str, host: str, is_local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's proxies lead to others, as for any client, and never to this machine itself."""
    upstream = Upstream.parse(url)
    assert (upstream.host, upstream.is_local) == (host, is_local)
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    client = upstream.client()
    assert client.trust_env is not is_local
    assert client.timeout == httpx.Timeout(None, connect=10)


def test_hop_by_hop_headers() -> None:
    """RFC 9110, section 7.6.1: those that are known, and those that `connection` names."""
    headers = [(b"A", b"1"), (b"Connection", b"close, X-B"), (b"x-b", b"2"), (b"Keep-Alive", b"1"), (b"Upgrade", b"x")]
    assert end_to_end(headers) == [(b"A", b"1")]
    passed = request_headers([(b"Host", b"h"), (b"expect", b"100-continue")], uncompressed=False)
    assert passed == [(b"via", b"1.1 eagerstream")]
