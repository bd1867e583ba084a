"""Attacks to measure. Each is a program in which a hostile peer, client or text attacks the library."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import socketserver
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx

import eagerstream
from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Chunk, Recording

REQUEST: Final[dict[str, Any]] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Go."}]}
_SSE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
_MB: Final = 1_000_000


async def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack.

    Attributes:
        what: Description of the attack.
        run: Carries out the attack with the prepared material. Returns a description of its end.
        prepare: Makes the material of the attack. Its time and memory do not count.
        frozen_s: Maximum time for which the event loop may block, in seconds, with a margin for slower machines.
        grown_mb: Maximum growth of the process, in MB.
    """

    what: str
    run: Callable[[Any], Awaitable[str]]
    prepare: Callable[[], Awaitable[Any]] = _nothing
    frozen_s: float = 0.5
    grown_mb: int = 100


# --- hostile peers ----------------------------------------------------------------------------------------------------


@contextmanager
def peer(answer: Callable[[socket.socket, bytes], object]) -> Iterator[str]:
    """Run a peer in threads of this process. Yield its address. `answer` gets the connection and the request's head."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            data = b""
            while b"\r\n\r\n" not in data:
                data += self.request.recv(65_536)
            head, _, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(body) < int(length[1]):  # unread bytes would reset the connection
                body += self.request.recv(65_536)
            with suppress(OSError):  # the client may close the connection early
                answer(self.request, head)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _client(kind: str, base_url: str) -> Any:
    if kind == "transport":
        return eagerstream.HTTPTransport(base_url=base_url)
    import anthropic

    return anthropic.AsyncAnthropic(api_key="key", base_url=base_url, max_retries=0)


def _streams_from(kind: str, limits: dict[str, Any] | None = None) -> Callable[[Any], Awaitable[str]]:
    """Return a program that streams the prepared response of a peer."""

    async def run(answer: Callable[[socket.socket], object]) -> str:
        with peer(lambda connection, _: answer(connection)) as base_url:
            client = _client(kind, base_url)
            known = {name: value for name, value in (limits or {}).items() if hasattr(eagerstream.Limits, name)}
            try:
                with anyio.fail_after(20):
                    async with eagerstream.stream(client, **REQUEST, limits=eagerstream.Limits(**known)) as stream:
                        await stream.finish()
            except (EagerStreamError, TimeoutError) as error:
                return type(error).__name__
        return "well"

    return run


def _bomb(codings: int, status: str) -> Callable[[], Awaitable[Any]]:
    async def prepare() -> Any:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        line = b":" + b"x" * (1 << 20) + b"\n"
        body = b"".join(packer.compress(line) for _ in range(1_000 if codings == 2 else 50)) + packer.flush()
        body = gzip.compress(body) if codings == 2 else body
        coding = ", ".join(["gzip"] * codings).encode()
        head = b"HTTP/1.1 %b\r\ncontent-type: text/event-stream\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n"
        return lambda peer: peer.sendall(head % (status.encode(), coding, len(body)) + body)

    return prepare


async def _error_event() -> Any:
    error = {"type": "error", "error": {"type": "api_error", "message": "://a:" * (6 * _MB)}}
    body = _SSE + b"\r\nevent: error\ndata: " + json.dumps(error).encode() + b"\n\n"
    return lambda peer: peer.sendall(body)


async def _endless_error() -> Any:
    def answer(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n")
        for _ in range(8_000):
            peer.sendall(b"x" * 65_536)

    return answer


async def _drip() -> Any:
    def answer(peer: socket.socket) -> None:
        peer.sendall(_SSE + b"\r\n" + _event(_START))
        while True:
            peer.sendall(_event({"type": "unknown"}))
            time.sleep(0.1)

    return answer


async def warm_up() -> None:
    """Send a first request to each client and endpoint, and raise a first error. Later ones load no modules."""
    body = b'{"type":"error","error":{"type":"api_error","message":"password=a"}}'
    head = b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    for kind in ("transport", "anthropic"):
        await _streams_from(kind)(lambda peer: peer.sendall(head + body))
    await _post_bodies(await _bodies(2_000, "a")())


# --- responses --------------------------------------------------------------------------------------------------------

_MESSAGE: Final[dict[str, Any]] = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
_START: Final[dict[str, Any]] = {
    "type": "message_start",
    "message": {**_MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}},
}


def _event(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def events_of(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a body that this module made."""
    return [json.loads(line.removeprefix(b"data: ")) for line in body.splitlines() if line.startswith(b"data: ")]


def call(input: str) -> Recording:
    """Return a response that calls the tool `t`."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    delta = {"type": "input_json_delta", "partial_json": input}
    events: tuple[dict[str, Any], ...] = (
        _START,
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        end,
        {"type": "message_stop"},
    )
    return Recording((Chunk(0.0, b"".join(map(_event, events))),))


async def _mcp_tool() -> Any:
    """Return a tool of an MCP server. The server chose its schema."""
    from types import SimpleNamespace

    from eagerstream_adapters.mcp import _tool

    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    listed = SimpleNamespace(name="t", title=None, description="d", annotations=None, input_schema=schema)
    tool = _tool(SimpleNamespace(), listed, "t", {})
    await _call_of(tool, "x")  # loads the modules that check an input
    return tool


async def _bad_pattern(tool: Any) -> str:
    return await _call_of(tool, "a" * 26 + "!")


async def _call_of(tool: Any, text: str) -> str:
    async with eagerstream.run(call(json.dumps({"x": text})), **REQUEST, max_turns=1, tools=[tool]) as run:
        await run.finish()
    return str(run.result.status)


# --- clients of endpoints ---------------------------------------------------------------------------------------------


def _started(*_: object) -> Any:
    return eagerstream.run(Recording.from_body(b""), **REQUEST, max_turns=1, max_restarts=0)


async def _posted(app: Any, path: str, body: bytes) -> str:
    headers = {"content-type": "application/json"}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.post(path, content=body, headers=headers, timeout=100)
    return f"HTTP {response.status_code}"


def _agui(fields: dict[str, Any]) -> bytes:
    request: dict[str, Any] = {
        "threadId": "t",
        "runId": "r",
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    request["messages"] = [{"id": "1", "role": "user", "content": "x"}]
    return json.dumps({**request, **fields}).encode()


async def _agui_schema() -> Any:
    schema = {"type": "object", "properties": {f"k{number:07}": {"type": "string"} for number in range(37_000)}}
    return _agui({"tools": [{"name": "t", "description": "d", "parameters": schema}]})


async def _post_agui_schema(body: bytes) -> str:
    from eagerstream_progress.agui import agui_app, frontend_tools

    def start(input: Any) -> Any:
        reply = Recording.from_body(b"")
        return eagerstream.run(reply, **REQUEST, max_turns=1, max_restarts=0, tools=frontend_tools(input))

    return await _posted(agui_app(start), "/", body)


def _many(part: dict[str, Any], size: int) -> list[dict[str, Any]]:
    return [part] * (size // (len(json.dumps(part)) + 2))


def _bodies(size: int, text: str) -> Callable[[], Awaitable[dict[str, bytes]]]:
    """Return a function that prepares a body for each endpoint, with this size in bytes, of parts with this text."""

    async def prepare() -> dict[str, bytes]:
        lists = json.dumps([[text]] * (size // (len(text) + 6) - 100)).encode()
        parts = _many({"type": "text", "text": text}, size - 500)
        messages = _many({"id": "1", "role": "user", "content": text}, size - 500)
        return {
            "gateway": b'{"a":' + lists + b"}",
            "vercel": json.dumps({"id": "c", "messages": [{"id": "1", "role": "user", "parts": parts}]}).encode(),
            "agui": _agui({"messages": messages}),
            "agui, nested": _agui({}).replace(b'"state": {}', b'"state": {"a": ' + lists + b"}"),
        }

    return prepare


async def _post_bodies(bodies: dict[str, bytes]) -> str:
    from eagerstream_progress.agui import agui_app
    from eagerstream_progress.gateway import RunSlots, gateway_app
    from eagerstream_progress.vercel import vercel_app

    apps = {
        "gateway": (gateway_app(_started, slots=RunSlots(9)), "/runs"),
        "vercel": (vercel_app(_started), "/api/chat"),
        "agui": (agui_app(_started), "/"),
    }
    answers = [await _posted(*apps[name.partition(",")[0]], body) for name, body in bodies.items()]
    return ", ".join(sorted(set(answers)))


async def _silent_sockets(_prepared: None) -> str:
    """Connect 60 clients that send headers but no body to a gateway with 50 places. Then send a complete request."""
    import uvicorn

    from eagerstream_progress.gateway import RunSlots, gateway_app

    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    server = uvicorn.Server(uvicorn.Config(gateway_app(_started, slots=RunSlots(50)), log_level="error"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    post = "POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    silent = []
    for _ in range(60):
        connection = await asyncio.open_connection(*address)
        connection[1].write(post.format(1000).encode())
        silent.append(connection[1])
    await asyncio.sleep(2)
    reader, writer = await asyncio.open_connection(*address)
    writer.write(post.format(2).encode() + b"{}")
    answer = (await reader.readline()).split()[1].decode()
    for client in (*silent, writer):
        client.close()
    server.should_exit = True
    await serving
    return f"HTTP {answer} for an honest client"


async def _long_log() -> Any:
    from eagerstream_progress import Hub, RunLog
    from eagerstream_progress.web import serve

    hub, log, seq = Hub(), RunLog("r1"), iter(range(1, 10_000))

    def add(**fields: Any) -> None:
        record: Any = {"v": 1, "seq": next(seq), "at_s": 0.0, **fields}
        log.append([record])

    add(type="run_start", run="r1", started_at="2026-01-01T00:00:00.000Z", name="x", model="m")
    add(type="turn_start", turn=1)
    add(type="block_start", block=1, index=0, kind="text")
    for _ in range(30 * 16):
        add(type="text_delta", block=1, text="x" * 65_536)
    hub.add(log)
    server = serve(hub)
    server.start()
    return server


async def _late_watchers(server: Any) -> str:
    answers = await anyio.to_thread.run_sync(_watch, server.port, server.token)
    await anyio.to_thread.run_sync(server.close)
    return ", ".join(sorted(answers))


def _watch(port: int, token: str) -> set[str]:
    """Connect 40 late clients that do not read. Return the first 12 bytes of their responses after 8 s."""
    request = f"GET /events?run=r1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    watching = []
    for _ in range(40):
        watcher = socket.socket()
        watcher.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        watcher.connect(("127.0.0.1", port))
        watcher.sendall(request.encode())
        watching.append(watcher)
    time.sleep(8)
    answers = {watcher.recv(12).decode() for watcher in watching}
    for watcher in watching:
        watcher.close()
    return answers


# --- texts ------------------------------------------------------------------------------------------------------------


def _texts(part: str) -> Callable[[], Awaitable[Recording]]:
    async def prepare() -> Recording:
        text = part * (5 * _MB // len(part))
        deltas: list[dict[str, Any]] = [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 4_000]}}
            for at in range(0, len(text), 4_000)
        ]
        block: dict[str, Any] = {"type": "content_block_start", "index": 0}
        block["content_block"] = {"type": "text", "text": ""}
        return Recording((Chunk(0.0, b"".join(map(_event, (_START, block, *deltas)))),))

    return prepare


async def _save(recording: Recording) -> str:
    """Save a recording in a thread, as the recording proxy does. The event loop continues meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        await anyio.to_thread.run_sync(recording.save, Path(folder) / "reply.jsonl")
    return "written"


_GZIP: Final = {"max_reply_bytes": 8 << 20}

ATTACKS: Final = {
    "gzip_twice": Attack(
        what="8 kB of `gzip, gzip` that stand for 1 GB, over HTTPTransport",
        run=_streams_from("transport", _GZIP),
        prepare=_bomb(2, "200 OK"),
    ),
    "gzip_twice_anthropic": Attack(
        what="the same over an anthropic client",
        run=_streams_from("anthropic", _GZIP),
        prepare=_bomb(2, "200 OK"),
    ),
    "gzip_once": Attack(
        what="50 kB of `gzip` that stand for 50 MB, with max_reply_bytes = 8 MiB",
        run=_streams_from("transport", _GZIP),
        prepare=_bomb(1, "200 OK"),
    ),
    "gzip_error": Attack(
        what="an error response of `gzip, gzip`, over an anthropic client",
        run=_streams_from("anthropic", _GZIP),
        prepare=_bomb(2, "400 No"),
    ),
    "error_event": Attack(
        what="an `error` event with a message of 30 MB",
        run=_streams_from("transport"),
        prepare=_error_event,
        grown_mb=300,
    ),
    "endless_error": Attack(
        what="an error response without an end, over an anthropic client",
        run=_streams_from("anthropic", {"idle_timeout_s": 10.0}),
        prepare=_endless_error,
    ),
    "drip": Attack(
        what="an unknown event each 0.1 s, with max_reply_s = 3; given 20 s",
        run=_streams_from("transport", {"max_reply_s": 3.0}),
        prepare=_drip,
    ),
    "bad_pattern": Attack(
        what="the pattern `^(a+)+$` in the schema of an MCP tool", run=_bad_pattern, prepare=_mcp_tool
    ),
    "agui_schema": Attack(
        what="1 MB of schema in a request of AG-UI", run=_post_agui_schema, prepare=_agui_schema, grown_mb=200
    ),
    "bodies": Attack(
        what="bodies of 1.9 MB for each endpoint, of texts of 120 characters",
        run=_post_bodies,
        prepare=_bodies(1_900_000, "a" * 120),
        grown_mb=200,
    ),
    "large_bodies": Attack(
        what="bodies of 4 MB for each endpoint, of texts of one character",
        run=_post_bodies,
        prepare=_bodies(4 * _MB, "a"),
    ),
    "silent_sockets": Attack(what="sixty silent clients of a gateway with fifty places", run=_silent_sockets),
    "late_watchers": Attack(
        what="forty late watchers of a log of 30 MB", run=_late_watchers, prepare=_long_log, grown_mb=200
    ),
    "masking_prose": Attack(
        what="5 MB of prose in a recorded response",
        run=_save,
        prepare=_texts("A house on the hill. "),
        grown_mb=200,
    ),
    "masking_tokens": Attack(
        what="5 MB of `token: x ` in a recorded response", run=_save, prepare=_texts("token: x "), grown_mb=200
    ),
}
"""Attacks by name."""
