"""`read_reply`: the only loop that reads a response, and every way in which the response can end."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import eagerstream
from eagerstream.errors import APIError, LimitError, ProtocolError, StreamInterrupted
from eagerstream.limits import Limits
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import ReplayServer, encode_event, error_event, reply, text, tool_use
from eagerstream_wire import InputDelta, InputStart, InputStop, MessageStart, MessageStop, Outcome
from tests.streaming.streams import (
    HELD,
    WEATHER,
    a_client,
    a_source,
    both_clients,
    each_source,
    error_of,
    events_of,
    failure_of,
    finished,
    kinds,
    turns_of_others,
)
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    blocks_of,
    input_delta,
    message_delta,
    message_start,
    text_delta,
    tool_start,
)
from tests.support import Broken, LocalAPI

pytestmark = pytest.mark.anyio


@each_source
async def test_error_event(kind: str) -> None:
    """The events before it come first, each input with its stop, then the error with all that the API said."""
    cut = reply(text("So"), tool_use("f", '{"a": ', closed=False), error_event("overloaded_error", "Overloaded"))
    events, error = await failure_of(a_source(kind, cut))
    assert kinds(events).count("InputStart") == kinds(events).count("InputStop") == 1
    assert isinstance(events[-1], InputStop)
    assert events[-1].input.outcome is Outcome.INCOMPLETE
    assert type(error) is APIError
    assert (error.reason, error.error_type, error.status_code) == ("Overloaded", "overloaded_error", None)
    assert error.retryable
    assert error.message is not None
    assert error.message["content"][0]["text"] == "So"
    assert error.request_id == (None if kind == "recording" else "req_local")


@pytest.mark.parametrize("odd", [[], {}, {"type": []}, 7, None, ""])
async def test_error_event_alone(odd: object) -> None:
    """It may have a request id, and whatever stands where a text is due. A list once came out as a TypeError."""
    event: dict[str, Any] = {
        "type": "error",
        "error": {"type": odd or "invalid_request_error", "message": "No"},
        "request_id": "req_7",
    }
    error = await error_of(Recording.from_body(encode_event(event)))
    assert (error.request_id, error.retryable, error.message) == ("req_7", False, None)
    event = {"type": "error", "error": {"type": odd, "message": odd}, "request_id": odd}
    error = await error_of(Recording.from_body(encode_event(event)))
    assert (error.error_type, error.request_id, error.retryable) == (None, None, False)


@both_clients
@pytest.mark.parametrize("loss", [Broken(), None], ids=["broken", "ended"])
async def test_the_body_is_cut(kind: str, loss: Broken | None) -> None:
    """A lost connection and a body that ends too early: what came comes, each input is settled, then it is said."""
    pieces = [message_start(), tool_start(0), input_delta(0, '{"a": "b'), tool_start(1), block_stop(1)]
    api = LocalAPI([*pieces, *([loss] if loss else [])])
    events, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
    assert kinds(events) == ["MessageStart", "InputStart", "InputDelta", "InputStart", "InputStop", "InputStop"]
    assert {event.input.outcome for event in events if isinstance(event, InputStop)} == {Outcome.INCOMPLETE}
    assert type(error) is StreamInterrupted
    assert error.retryable
    assert error.request_id == "req_local"
    assert error.message is not None
    assert [block["input"] for block in error.message["content"]] == [
        {"INVALID_JSON": '{"a": "b'},
        {"INVALID_JSON": ""},
    ]
    assert (error.__cause__ is not None) is (loss is not None)


@both_clients
async def test_a_server_that_dies(kind: str) -> None:
    """The same with a real connection, which breaks off in the middle of a chunk."""
    server = ReplayServer(HELD)
    async with server, a_client(kind, server.base_url) as client, eagerstream.stream(client, **REQUEST) as stream:
        await anext(stream)
        await anyio.to_thread.run_sync(server.close)
        with pytest.raises(StreamInterrupted) as caught:
            await stream.finish()
    assert caught.value.message is not None


@pytest.mark.parametrize("loss", [Broken(), {"type": "error", "error": {"type": "api_error", "message": "No"}}])
async def test_a_reply_that_breaks_off_at_its_very_end_is_not_whole(loss: Any) -> None:
    """`MessageStop` says that the reply is whole: it must not come together with an interruption."""
    pieces = [message_start(), block_start(0, "text", text=""), text_delta(0, "Hi"), block_stop(0)]
    events, error = await failure_of(LocalAPI([*pieces, message_delta("end_turn"), loss]).anthropic())
    assert isinstance(error, APIError)
    assert "MessageStop" not in kinds(events)


@both_clients
@pytest.mark.slow
async def test_a_body_that_is_given_up_is_closed(kind: str) -> None:
    """A reply that is left in its middle leaves nothing to the garbage collector, which trio would warn about."""
    pieces: list[Any] = [message_start(), b"data: nonsense\n\n", *[text_delta(0, "x" * 1000) for _ in range(500)]]
    recording = Recording(tuple(Chunk(0.0, p if isinstance(p, bytes) else encode_event(p)) for p in pieces))
    async with ReplayServer(recording) as server, a_client(kind, server.base_url) as client:
        events, error = await failure_of(client)
        assert kinds(events) == ["MessageStart"]
        assert isinstance(error, ProtocolError)
        del error
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gc.collect()
            await anyio.lowlevel.checkpoint()
    assert [str(warning.message) for warning in caught if "generator" in str(warning.message)] == []


@each_source
async def test_too_large_an_event(kind: str) -> None:
    """One event over the limit ends the stream, after the events before it."""
    large = reply(text("Hi"), tool_use("f", {"a": "x" * 5000}, fragment_chars=5000))
    events, error = await failure_of(a_source(kind, large), limits=Limits(max_event_bytes=2000))
    assert isinstance(error, LimitError)
    assert error.limit == "max_event_bytes"
    assert isinstance(events[-1], InputStop)
    assert events[-1].input.outcome is Outcome.INCOMPLETE


async def test_too_many_blocks() -> None:
    """A message of more blocks than anybody would write ends the stream, not the memory."""
    many = reply(*(text(str(number)) for number in range(20)))
    events, error = await failure_of(many, limits=Limits(max_blocks=10))
    assert isinstance(error, LimitError)
    assert kinds(events).count("BlockStart") == 10


async def test_too_many_values() -> None:
    """They end the stream, before the event is made and after the events before it."""
    event = {"type": "odd", "values": [[]] * 60_000}
    body = encode_event(message_start()) + encode_event(event)
    events, error = await failure_of(LocalAPI([body]).transport())
    assert isinstance(error, LimitError)
    assert (error.limit, kinds(events)) == ("max_values", ["MessageStart"])
    events, _ = await failure_of(LocalAPI([body]).transport(), limits=Limits(max_values=200_000))
    assert kinds(events) == ["MessageStart", "UnknownEvent"]


async def test_many_events_at_once_come_in_portions() -> None:
    """One `message_start` may bring 4,096 calls: to start one takes 0.1 ms, so others get their turn in between."""
    calls = [{"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}} for number in range(1_000)]
    body = (
        encode_event(message_start(content=calls))
        + encode_event(message_delta("tool_use"))
        + encode_event(MESSAGE_STOP)
    )
    seen: list[tuple[int, int]] = []

    class Seer:
        """Notes the number of events, and the turns of the event loop until then."""

        def take(self, events: Any) -> None:
            seen.append((len(events), turns()))

        def end(self, end: object) -> None:
            pass

    async with turns_of_others() as turns, eagerstream.stream(LocalAPI([body]).transport(), **REQUEST) as stream:
        stream.observe(Seer())
        await stream.finish()
    portions = [(number, turn) for number, turn in seen if number > 100]
    assert sum(number for number, _ in portions) >= 2_000
    assert max(number for number, _ in portions) <= 256
    # trio runs the tasks of one round in an order of chance, so two portions may follow each other, but never three.
    at = [turn for _, turn in portions]
    assert all(first < third for first, third in zip(at, at[2:], strict=False))


@pytest.mark.parametrize("data", [b"data: {nonsense\n\n", b"data: [1]\n\n", b"data: {}\n\n"])
@pytest.mark.parametrize("together", [True, False])
async def test_what_is_no_event(data: bytes, *, together: bool) -> None:
    """Data that is not the API's is a `ProtocolError`, after the events before it, in one chunk or in two."""
    first = encode_event(message_start()) + encode_event(block_start(0, "text", text=""))
    api = LocalAPI([first + data] if together else [first, data])
    events, error = await failure_of(api.anthropic())
    assert kinds(events) == ["MessageStart", "BlockStart", "BlockStop"]
    assert isinstance(error, ProtocolError)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx leaves its generators behind
@both_clients
async def test_a_body_that_cannot_be_decompressed(kind: str) -> None:
    """A broken content encoding is a broken reply in our terms too, not an exception of the library below."""
    api = LocalAPI([b"this is not gzip"], headers={"content-encoding": "gzip"})
    _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
    assert isinstance(error, (ProtocolError, APIError))


async def test_a_gateway_that_tries_again() -> None:
    """A second `message_start` in the middle of a message restarts it, and says so."""
    pieces = [message_start(), tool_start(0), input_delta(0, '{"a'), message_start(id="msg_2")]
    rest = [block_start(0, "text", text=""), text_delta(0, "Hi"), block_stop(0), message_delta("end_turn")]
    async with eagerstream.stream(LocalAPI([*pieces, *rest, MESSAGE_STOP]).anthropic(), **REQUEST) as stream:
        events = [event async for event in stream]
    assert [event.restarted for event in events if isinstance(event, MessageStart)] == [False, True]
    assert kinds(events)[3] == "InputStop"
    assert stream.message["id"] == "msg_2"
    assert stream.message["content"] == [{"type": "text", "text": "Hi"}]
    assert stream.inputs == {}


async def test_a_connection_lost_after_the_message() -> None:
    """The message is whole: what happens to the connection then loses nothing."""
    events = await events_of(LocalAPI([WEATHER, Broken()]).anthropic())
    assert isinstance(events[-1], MessageStop)


async def test_done_marker() -> None:
    """Gateways that also speak another protocol end a body with `[DONE]`."""
    events = await events_of(LocalAPI([WEATHER, b"data: [DONE]\n\n"]).anthropic())
    assert isinstance(events[-1], MessageStop)


@pytest.mark.parametrize("wait", ["field", "finished"])
async def test_waiting_for_an_input_in_the_loop_does_not_hold_up_the_reader(wait: str) -> None:
    """With `buffer="wait"` the reader waits for the consumer, who must then not wait for what is still to be read."""
    written = reply(tool_use("f", {"a": "x" * 5000, "z": 1}, fragment_chars=4))
    with anyio.fail_after(20):
        async with eagerstream.stream(LocalAPI([written]).anthropic(), **REQUEST, buffer="wait") as stream:
            async for event in stream:
                if isinstance(event, InputStart):
                    assert await (event.input.field("z") if wait == "field" else event.input.finished())
                    break
            fragments = [event.fragment async for event in stream if isinstance(event, InputDelta)]
    assert "".join(fragments) == stream.inputs[0].raw


async def test_two_messages_in_a_chunk() -> None:
    """What comes behind the end of a message is read, too: the newest message counts."""

    def message(word: str) -> list[Any]:
        text = [block_start(0, "text", text=""), text_delta(0, word), block_stop(0)]
        return [message_start(), *text, message_delta("end_turn"), MESSAGE_STOP]

    body = b"".join(encode_event(event) for event in [*message("one"), *message("two")])
    stream = await finished(LocalAPI([body]).transport())
    assert blocks_of(stream.message)[0]["text"] == "two"
