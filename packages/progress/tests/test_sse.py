"""`progress.sse`: messages as the standard has them, comments in silence, and clients that leave or stall."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from eagerstream._support.serving.asgi_server import ThreadedServer
from eagerstream_progress._sse import EventStream, Write, encode_json, encode_message
from eagerstream_wire import SSEDecoder

pytestmark = pytest.mark.anyio


class Client:
    """The other side of a response: what was sent, and when it leaves or stalls."""

    def __init__(self, *, stalls: bool = False, raises: bool = False) -> None:
        self.sent: list[Any] = []
        self.leaves = anyio.Event()
        self._more = anyio.Event()
        self._stalls = stalls
        self._raises = raises

    async def receive(self) -> dict[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.sent and self._stalls:
            await anyio.sleep_forever()
        if self.sent and self._raises:
            raise OSError("gone")
        self.sent.append(message)
        self._more.set()
        self._more = anyio.Event()
        await anyio.lowlevel.checkpoint()

    async def wait_for(self, body: bytes) -> None:
        while body not in self.body:
            await self._more.wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def answer(client: Client, produce: Callable[[Write], Awaitable[None]], **options: Any) -> None:
    with anyio.fail_after(5):
        await EventStream(produce, **options)({"type": "http"}, client.receive, client.send)


@given(st.text(), st.none() | st.integers())
def test_what_is_encoded_is_decoded(data: str, id: int | None) -> None:
    """Whatever the text has in it, a decoder by the standard gives it back, with LF for every line end."""
    encoded = encode_message(data, event="records", id=id)
    (event,) = SSEDecoder().feed(encoded)
    assert event.data == data.replace("\r\n", "\n").replace("\r", "\n")
    assert event.event == "records"
    assert event.id == ("" if id is None else str(id))


def test_half_a_surrogate_pair_is_replaced() -> None:
    """What a model wrote may hold one, and must not break the stream."""
    assert encode_json({"text": "a\ud800b"}) == 'data: {"text":"a\ufffdb"}\n\n'.encode()


async def test_messages_are_written_at_once_and_the_response_ends() -> None:
    """Each message is a body of its own, no proxy may hold it back, and the end is told."""
    client = Client()

    async def produce(write: Write) -> None:
        await write(b"data: 1\n\n")
        assert client.body == b"data: 1\n\n"
        await write(b"data: 2\n\n")

    await answer(client, produce, headers={"X-More": "yes"})
    headers = dict(client.sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"x-accel-buffering"] == b"no"
    assert headers[b"x-more"] == b"yes"
    assert client.body == b"data: 1\n\ndata: 2\n\n"
    assert client.sent[-1]["more_body"] is False


async def test_a_long_message_stays_whole() -> None:
    """It goes out in pieces, since a slow client is none that stalls; no comment gets between them."""
    client = Client()
    message = encode_message("x" * 3_000_000)

    async def produce(write: Write) -> None:
        await write(message)

    await answer(client, produce, keep_alive_s=0)
    assert len(client.sent) > 10
    assert message in client.body


async def test_pieces_are_sent_as_they_are() -> None:
    """Many responses may share them: none makes a copy. No comment gets between them, either."""
    client = Client()
    pieces = [b"data: ", b"x" * 300_000, b"\n\n"]

    async def produce(write: Write) -> None:
        await write(iter(pieces))

    await answer(client, produce, keep_alive_s=0)
    bodies = [message["body"] for message in client.sent[1:]]
    start = next(place for place, body in enumerate(bodies) if body is pieces[0])
    assert all(sent is piece for sent, piece in zip(bodies[start:], pieces, strict=False))


async def test_silence_is_filled_with_comments() -> None:
    """A connection on which nothing is said gets comments, which no client shows."""
    client = Client()

    async def produce(write: Write) -> None:
        await client.wait_for(b":\n\n:\n\n")

    await answer(client, produce, keep_alive_s=0.01)
    assert SSEDecoder().feed(client.body) == []


async def test_a_silence_that_the_client_sees() -> None:
    """A browser shows comments to no page, so a page gets messages instead."""
    client = Client()
    alive = encode_message("{}", event="alive")

    async def produce(write: Write) -> None:
        await client.wait_for(alive + alive)

    await answer(client, produce, keep_alive_s=0.01, heartbeat=alive)


async def test_a_client_that_leaves_cancels() -> None:
    """What is written for nobody ends at once, and cleans up."""
    client = Client()
    cleaned: list[bool] = []

    async def produce(write: Write) -> None:
        client.leaves.set()
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append(True)

    await answer(client, produce)
    assert cleaned == [True]


@pytest.mark.parametrize("how", ["stalls", "raises"])
async def test_a_client_that_takes_nothing_is_dropped(how: str) -> None:
    """Nothing waits for ever for a reader that does not read; servers that raise instead mean the same."""
    client = Client(**{how: True})
    reached: list[bool] = []

    async def produce(write: Write) -> None:
        await write(b"data: 1\n\n")
        reached.append(True)

    await answer(client, produce, stall_s=0.02)
    assert reached == []
    assert len(client.sent) == 1


async def test_a_reader_that_stalls_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    """On a real socket: one that stops reading is not waited for, and the server has nothing to complain of."""
    ended = threading.Event()

    async def produce(write: Write) -> None:
        try:
            while True:
                await write(b"data: " + b"x" * 1_000_000 + b"\n\n")
        finally:
            ended.set()

    server = ThreadedServer(lambda: EventStream(produce, stall_s=0.05), name="test server", host="127.0.0.1", port=0)
    async with server, await anyio.connect_tcp("127.0.0.1", server.port) as connection:
        await connection.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await anyio.to_thread.run_sync(ended.wait, 10)
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)), anyio.fail_after(10):
            while True:
                await connection.receive()
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_an_error_passes_through() -> None:
    """What goes wrong in the function is told to the server as it is, not in a group."""

    async def produce(write: Write) -> None:
        raise KeyError("run")

    with pytest.raises(KeyError):
        await answer(Client(), produce)
