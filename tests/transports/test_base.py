"""What all transports share: a body becomes wire events, and others get their turn while it does."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eagerstream.errors import LimitError, ProtocolError
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.transports import HTTPTransport, StreamedReply
from eagerstream.transports._body import BodyTransport
from eagerstream_testing import encode_event, reply, tool_use
from eagerstream_wire import FragmentDecoder, MessageAssembler
from eagerstream_wire._decoding import to_wire_event
from tests.streaming.streams import error_of, finished, turns_of_others
from tests.support import LocalAPI

pytestmark = pytest.mark.anyio

TEXT = "x" * 20_000
LONG = reply(tool_use("f", {"a": TEXT}, fragment_chars=16))
"""A body of far more than one piece, and of more chunks than are handed out in one go."""


def streamed_reply(chunks: Iterable[bytes]) -> StreamedReply:
    """The reply of a peer that is never waited for."""

    async def arriving() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return StreamedReply(arriving(), request_id=None, limits=DEFAULT_LIMITS, decoder=FragmentDecoder)


def message_of(events: Iterable[Any]) -> Any:
    """What they make; the same fragment is an `InputFragment` or, at the edge of a piece, a dict."""
    assembler = MessageAssembler()
    for event in events:
        assembler.feed(event)
    return assembler.message


async def test_a_long_chunk_is_taken_in_by_pieces() -> None:
    """However long it is, a chunk holds up nobody else for longer than a piece of it; its events are the same."""
    reply = streamed_reply([LONG.body, LONG.body])
    sizes: list[int] = []
    events: list[Any] = []
    async with turns_of_others() as turns:
        while (batch := await reply.receive()) is not None:
            events += batch
            sizes.append(len(batch))
    assert message_of(events) == message_of(FragmentDecoder().feed(LONG.body))
    assert len(events) == 2 * len(FragmentDecoder().feed(LONG.body))
    assert max(sizes) < 200
    # None before a chunk: the wait for it is one. Trio may let a task go first in one round and last in the next.
    assert turns() >= (len(sizes) - 3) // 2  # trio's order is one of chance, as below


async def test_chunks_that_are_there_already() -> None:
    """A client finds hundreds of chunks in one read of a socket, and hands them out without ever waiting."""
    chunks = [block + b"\n\n" for block in LONG.body.split(b"\n\n")[:-1]]
    reply = streamed_reply(chunks)
    turns_at = []
    async with anyio.create_task_group() as tasks:
        received = 0

        async def others() -> None:
            while True:
                turns_at.append(received)
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(others)
        while await reply.receive() is not None:
            received += 1
        tasks.cancel_scope.cancel()
    assert received == len(chunks) > 1000
    gaps = [later - earlier for earlier, later in zip([0, *turns_at], [*turns_at, received], strict=True)]
    # 16 KiB, and 256 bytes for each chunk. trio may let a task go last in one round and first in the next.
    assert max(gaps) <= 2 * 16 * 1024 // 256


_BOMB = gzip.compress(b": x\n" * 1_000_000, 6)


async def test_cancelled_between_two_pieces() -> None:
    """What has come is taken in before a cancellation is seen: a reply that is cut off there loses nothing."""
    gate = anyio.Event()

    async def arriving() -> AsyncIterator[bytes]:
        yield LONG.body
        await gate.wait()

    reply = StreamedReply(arriving(), request_id=None, limits=DEFAULT_LIMITS, decoder=FragmentDecoder)
    events: list[Any] = []
    with anyio.CancelScope() as scope:
        while (batch := await reply.receive()) is not None:
            events += batch
            scope.cancel()
    assert scope.cancelled_caught
    assert message_of(events) == message_of(FragmentDecoder().feed(LONG.body))


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_a_compressed_body(library: Any, coding: str) -> None:
    """A proxy may compress the reply: some kilobytes of it are a hundred, and come as one chunk."""
    body = gzip.compress(LONG.body) if coding == "gzip" else LONG.body
    assert coding != "gzip" or len(body) < len(LONG.body) / 10
    api = LocalAPI([body[:100], body[100:]], headers={"content-encoding": coding})
    stream = await finished(api.transport(library))
    assert stream.inputs[0].value == {"a": TEXT}


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br"])
@pytest.mark.parametrize("kind", ["anthropic", "transport"])
async def test_a_bomb(kind: str, coding: str) -> None:
    """Some kilobytes stand for 4 MB: no more than `max_reply_bytes` of them is there, and others get their turn."""
    api = LocalAPI([_BOMB], headers={"content-encoding": coding})
    client = api.anthropic() if kind == "anthropic" else api.transport()
    expected = LimitError if coding == "gzip" else ProtocolError
    tracemalloc.start()
    try:
        async with turns_of_others() as turns:
            await error_of(client, expected, limits=Limits(max_reply_bytes=250_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000
    assert coding != "gzip" or turns() > 250_000 / 16_384


async def test_a_body_that_a_hook_has_read(library: Any) -> None:
    """Clients of httpx may have hooks that read a whole response, to log it say; it is not there twice."""

    async def read(response: Any) -> None:
        await response.aread()

    client = LocalAPI([LONG.body]).client(library)
    client.event_hooks = {"response": [read]}
    stream = await finished(HTTPTransport(base_url="http://local", http_client=client))
    assert stream.inputs[0].value == {"a": TEXT}


def _long_delta(kind: str, text: str) -> dict[str, Any]:
    name = {"input_json_delta": "partial_json", "text_delta": "text", "thinking_delta": "thinking"}[kind]
    extra = {"estimated_tokens": 7} if kind == "thinking_delta" else {}
    return {"type": "content_block_delta", "index": 3, "delta": {"type": kind, name: text, **extra}}


@pytest.mark.parametrize("kind", ["input_json_delta", "text_delta", "thinking_delta"])
@pytest.mark.parametrize("form", ["bytes", "events"])
async def test_a_long_delta_comes_in_portions(kind: str, form: str) -> None:
    """Some peers send an input of megabytes in one delta: what parses and shows it works for a second, in one step."""
    text = "".join(f'{number} "\\\u00e9\n' for number in range(20_000))
    event, after = _long_delta(kind, text), {"type": "ping"}
    body = encode_event({"type": "ping"}) + encode_event(event) + encode_event(after)

    async def source() -> AsyncIterator[Any]:
        for item in [body] if form == "bytes" else [{"type": "ping"}, event, after]:
            yield item

    events: list[Any] = []
    async with turns_of_others() as turns, BodyTransport(source()).open({}, DEFAULT_LIMITS) as reply:
        while (batch := await reply.receive()) is not None:
            events += [to_wire_event(each) for each in batch]
    assert [events[0], events[-1]] == [{"type": "ping"}, after]
    deltas = [each["delta"] for each in events[1:-1]]
    [name] = {key for delta in deltas for key in delta} - {"type", "estimated_tokens"}
    assert "".join(delta[name] for delta in deltas) == text
    assert max(len(delta[name]) for delta in deltas) <= 4_096
    assert sum(delta.get("estimated_tokens", 0) for delta in deltas) == (7 if kind == "thinking_delta" else 0)
    assert all((each["type"], each["index"]) == ("content_block_delta", 3) for each in events[1:-1])
    # trio runs the tasks of one round in an order of chance, so two portions may follow each other, but never three.
    assert turns() >= (len(deltas) - 1) // 2 > 5
