"""`stream`: one request, and the same events whatever the transport."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx
import pytest
from anthropic import AsyncAnthropic

import eagerstream
from eagerstream._support import redaction
from eagerstream.errors import APIError, InputInterrupted, ProtocolError, StreamInterrupted, UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import Limits
from eagerstream.recordings import Chunk, Recording
from eagerstream.streaming import MessageStream
from eagerstream.tools import tool
from eagerstream_testing import (
    ReceivedRequest,
    ReplayServer,
    Scenario,
    Timing,
    encode_event,
    error_event,
    http_error,
    reply,
    retime,
    text,
    tool_use,
)
from eagerstream_wire import InputDelta, InputStart, InputStop, MessageStart, MessageStop, Outcome, TextDelta
from tests.sampling import SEED, drawn
from tests.streaming.streams import (
    HELD,
    NEVER_S,
    SLOWLY_S,
    WEATHER,
    a_client,
    a_source,
    both_clients,
    each_client,
    each_source,
    error_of,
    events_of,
    expected,
    failure_of,
    finished,
    kinds,
    long_input,
    told,
)
from tests.streams import (
    MESSAGE_STOP,
    REQUEST,
    block_start,
    block_stop,
    blocks_of,
    event_line,
    input_delta,
    made_recordings,
    message_delta,
    message_start,
    needs_recordings,
    real_recordings,
    text_delta,
    tool_start,
)
from tests.support import Broken, Gate, LocalAPI, Piece, all_tasks_blocked, anthropic_client
from tests.tables import rows

pytestmark = pytest.mark.anyio

# --- the same from every transport ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recordings_server() -> Iterator[ReplayServer]:
    """A server that answers with the recording that the request names as its model, in random chunks."""

    def answer(request: Any) -> Recording:
        path, _, seed = request["model"].rpartition("#")
        return retime(Recording.from_body(Path(path).read_bytes()), Timing(cut="random", seed=int(seed)))

    with ReplayServer(Scenario.of(answer), speed=float("inf")) as server:
        yield server


@each_client
async def test_made_recordings_over_every_transport(recordings_server: ReplayServer, kind: str) -> None:
    """The events are those of the assembler, fed with the whole body at once: whatever the client, and the cuts.

    Each client has a third of them, and each run draws others. The next test reads all of them.
    """
    async with a_client(kind, recordings_server.base_url) as client:
        for seed, path in enumerate(drawn(made_recordings(), 7, seed=f"{SEED} {kind}")):
            stream = eagerstream.stream(client, **{**REQUEST, "model": f"{path}#{seed}"}, buffer="wait")
            assert await told(stream) == expected(path.read_bytes()), path.name


async def test_recordings_played_back() -> None:
    """All made recordings and some real ones in random chunks, without a server."""
    for path in (*made_recordings(), *drawn(real_recordings(), 4)):
        whole = Recording.load(path)
        cut = retime(whole, Timing(cut="random", seed=7, speed=float("inf")))
        assert await told(eagerstream.stream(cut, **REQUEST, buffer="wait")) == expected(whole.body), path.name


@needs_recordings
@both_clients
async def test_real_recordings_through_the_server(recordings_server: ReplayServer, kind: str) -> None:
    """Replies as the API really sent them, through sockets and the real clients, cut anywhere: a sample."""
    await _through_the_server(recordings_server, kind, drawn(real_recordings(), 4, seed=f"{SEED} {kind}"), seeds=1)


@needs_recordings
@pytest.mark.nightly
@pytest.mark.timeout(300)
@both_clients
async def test_all_real_recordings_through_the_server(recordings_server: ReplayServer, kind: str) -> None:
    """All of them, each cut in two ways."""
    await _through_the_server(recordings_server, kind, real_recordings(), seeds=2)


async def _through_the_server(server: ReplayServer, kind: str, paths: list[Path], *, seeds: int) -> None:
    async with a_client(kind, server.base_url) as client:
        for path in paths:
            for seed in range(seeds):
                stream = eagerstream.stream(client, **{**REQUEST, "model": f"{path}#{seed}"}, buffer="wait")
                assert await told(stream) == expected(path.read_bytes()), path.name


async def test_one_byte_at_a_time() -> None:
    """The smallest chunks there are: nothing depends on how many events come together. Each run draws recordings."""
    for path in drawn(made_recordings(), 5):
        body = path.read_bytes()
        chunks = tuple(Chunk(0.0, body[at : at + 1]) for at in range(len(body)))
        assert await told(eagerstream.stream(Recording(chunks), **REQUEST, buffer="wait")) == expected(body), path.name


async def test_the_message_is_the_last_event_s() -> None:
    """`stream.message` after the block is what was in `MessageStop`, and so are the other properties."""
    async with eagerstream.stream(WEATHER, **REQUEST) as stream:
        events = [event async for event in stream]
    stop = events[-1]
    assert isinstance(stop, MessageStop)
    assert stream.message == stop.message
    assert stream.stop_reason == stop.stop_reason == "tool_use"
    assert stream.inputs[1].value == {"city": "Oslo", "days": [1, 2, 3]}
    assert blocks_of(stream.message)[1]["input"] == {"city": "Oslo", "days": [1, 2, 3]}


async def test_finish() -> None:
    """For those who want only the message: reads to the end, and raises what the iteration would have raised."""
    stream = await finished(WEATHER)
    assert stream.stop_reason == "tool_use"
    async with eagerstream.stream(reply(text("So"), error_event("api_error", "Sorry")), **REQUEST) as stream:
        with pytest.raises(APIError, match="Sorry"):
            await stream.finish()


# --- the request ------------------------------------------------------------------------------------------------------


async def request_of(kind: str, **options: Any) -> ReceivedRequest:
    """The only request that a stream with these options sends."""
    async with ReplayServer(WEATHER) as server, a_client(kind, server.base_url) as client:
        await events_of(client, **options)
        (request,) = server.requests
    return request


@both_clients
async def test_the_body_of_the_request(kind: str) -> None:
    """What was given is sent, parameters that no client knows among them; nothing of ours is."""

    @tool
    async def look(city: str) -> str:
        """Look."""
        return city

    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    options = {"system": "Be brief.", "temperature": 0.5, "from_the_future": {"a": [1]}}
    request = await request_of(kind, tools=[look, server_tool], **options)
    assert request.body == {**REQUEST, **options, "stream": True, "tools": [look.to_dict(), server_tool]}
    assert request.headers["anthropic-version"]
    assert "anthropic-beta" not in request.headers


@both_clients
async def test_no_tools_no_key(kind: str) -> None:
    """Without tools the key is left out, and an `extra_body` of the caller's own is kept."""
    request = await request_of(kind)
    assert request.body == {**REQUEST, "stream": True}


@both_clients
async def test_betas_travel_in_a_header(kind: str) -> None:
    """Betas are a header of the request, never a part of its body."""
    request = await request_of(kind, betas=["one-2025-01-01", "two-2025-01-01"])
    betas = request.headers["anthropic-beta"].replace(" ", "").split(",")
    assert betas == ["one-2025-01-01", "two-2025-01-01"]
    assert "betas" not in request.body


@both_clients
async def test_stream_is_not_the_caller_s_to_set(kind: str) -> None:
    """Somebody who moves over from `create(stream=True)` leaves that in: it must not matter, or be said plainly."""
    async with ReplayServer(WEATHER) as server, a_client(kind, server.base_url) as client:
        try:
            await events_of(client, stream=True)
        except UsageError:
            assert server.requests == []
        else:
            assert server.requests[0].body["stream"] is True


@both_clients
async def test_a_message_with_half_a_surrogate_pair_can_be_echoed(kind: str) -> None:
    """What a model wrote can go back in the next request: what UTF-8 cannot carry is sent as U+FFFD."""
    half = reply(tool_use("f", '{"a": "half \\ud83d"}', id="toolu_1"))
    async with ReplayServer(Scenario(half, WEATHER)) as server, a_client(kind, server.base_url) as client:
        stream = await finished(client)
        assert stream.inputs[0].value == {"a": "half \ud83d"}
        echo = {"role": "assistant", "content": stream.message["content"]}
        answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}
        await events_of(client, messages=[*REQUEST["messages"], echo, answer])
    assert server.requests[1].body["messages"][1]["content"][0]["input"] == {"a": "half \ufffd"}


async def test_nothing_is_sent_before_the_block() -> None:
    """Calling `stream` alone does nothing: no request, no task to clean up."""
    api = LocalAPI([WEATHER])
    stream = eagerstream.stream(api.anthropic(), **REQUEST)
    with pytest.raises(UsageError, match="async with"):
        await anext(stream)
    assert api.exchanges == []
    async with stream:
        await stream.finish()
        with pytest.raises(UsageError, match="once"):
            async with stream:
                pass
    assert len(api.exchanges) == 1
    assert stream.request_id == "req_local"


@rows("client", [None, "https://api.anthropic.com", object(), httpx, AsyncAnthropic, made_recordings()[0]])
def test_wrong_clients(client: Any) -> None:
    """What is no client is refused at once, with the ones that would do. A path has a method `open`, too."""
    with pytest.raises(UsageError, match=r"AsyncAnthropic|async client"):
        eagerstream.stream(client, **REQUEST)


@rows("options", [{"buffer": "drop"}, {"min_chars": -1}, {"min_interval_s": -0.1}])
def test_bad_settings(options: dict[str, Any]) -> None:
    """Settings out of range are refused before anything is sent."""
    with pytest.raises(UsageError):
        eagerstream.stream(WEATHER, **REQUEST, **options)


def test_a_function_that_is_no_tool() -> None:
    """A forgotten `@tool` is said as what it is, not as an attribute that a function does not have."""

    async def look(city: str) -> str:
        return city

    with pytest.raises(UsageError, match="tool"):
        eagerstream.stream(WEATHER, **REQUEST, tools=[look])  # type: ignore[list-item]


def test_a_field_that_only_user_defined_tools_may_carry() -> None:
    """The API would refuse the whole request: said at once, with the kind of the tool, whatever the field's value."""
    web_search = {"type": "web_search_20250305", "name": "web_search"}
    for value in (True, False, None):
        with pytest.raises(UsageError, match="only user-defined tools take eager_input_streaming, not web_search_2025"):
            eagerstream.stream(WEATHER, **REQUEST, tools=[web_search | {"eager_input_streaming": value}])
    for kind in ({}, {"type": None}, {"type": "custom"}):
        eagerstream.stream(WEATHER, **REQUEST, tools=[{"name": "f", "eager_input_streaming": True, **kind}, web_search])


# --- leaving early ----------------------------------------------------------------------------------------------------


class _Early:
    """The ways to leave a stream before its end; each returns once the stream is left."""

    @staticmethod
    async def leave_by_break(stream: MessageStream) -> None:
        async with stream:
            async for _ in stream:
                break

    @staticmethod
    async def leave_by_return(stream: MessageStream) -> None:
        async with stream:
            async for _ in stream:
                return

    @staticmethod
    async def leave_by_exception(stream: MessageStream) -> None:
        error = LookupError("mine")
        with pytest.raises(LookupError) as caught:
            async with stream:
                async for _ in stream:
                    raise error
        assert caught.value is error

    @staticmethod
    async def leave_by_cancellation(stream: MessageStream) -> None:
        with anyio.CancelScope() as scope:
            async with stream:
                async for _ in stream:
                    scope.cancel()
        assert scope.cancelled_caught

    @staticmethod
    async def leave_by_scope_timeout(stream: MessageStream) -> None:
        with anyio.CancelScope() as scope:
            async with stream:
                async for _ in stream:
                    scope.deadline = anyio.current_time()
        assert scope.cancelled_caught

    @staticmethod
    async def leave_by_task_group(stream: MessageStream) -> None:
        async def consume() -> None:
            async with stream:
                async for _ in stream:
                    tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)

    @staticmethod
    async def leave_by_asyncio_timeout(stream: MessageStream) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit, stream:
                async for _ in stream:
                    limit.reschedule(asyncio.get_running_loop().time())

    @staticmethod
    async def leave_by_task_cancel(stream: MessageStream) -> None:
        begun = asyncio.Event()

        async def consume() -> None:
            async with stream:
                async for _ in stream:
                    begun.set()

        task = asyncio.create_task(consume())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture(scope="module")
def held_server() -> Iterator[ReplayServer]:
    """A server whose replies stop in their middle."""
    with ReplayServer(HELD) as server:
        yield server


_WAYS = [name for name in vars(_Early) if name.startswith("leave")]


@both_clients
@pytest.mark.parametrize("way", _WAYS)
async def test_leaving_early_closes_the_connection(
    held_server: ReplayServer, way: str, kind: str, anyio_backend_name: str
) -> None:
    """However the block is left, the server sees the connection go, and no task is left behind."""
    if anyio_backend_name == "trio" and ("asyncio" in way or "task_cancel" in way):
        pytest.skip("a way of asyncio's own")
    async with a_client(kind, held_server.base_url) as client:
        before = asyncio.all_tasks() if anyio_backend_name == "asyncio" else set()
        stream = eagerstream.stream(client, **REQUEST)
        await getattr(_Early, way)(stream)
        request = held_server.requests[-1]
        assert await anyio.to_thread.run_sync(request.wait_ended, SLOWLY_S)
        assert request.disconnected
        if anyio_backend_name == "asyncio":
            assert asyncio.all_tasks() == before


@both_clients
async def test_cancelled_while_it_connects(kind: str) -> None:
    """Cancellation passes also while the reply has not begun, and the server sees the connection go."""
    arrived = threading.Event()

    def say_nothing(_: Any) -> Recording:
        arrived.set()
        return Recording((Chunk(NEVER_S, b""),))

    async with ReplayServer(Scenario.of(say_nothing)) as server, a_client(kind, server.base_url) as client:
        with anyio.CancelScope() as scope:
            async with eagerstream.stream(client, **REQUEST) as stream:
                assert await anyio.to_thread.run_sync(arrived.wait, SLOWLY_S)
                scope.cancel()
                await stream.finish()
        assert scope.cancelled_caught
        (request,) = server.requests
        assert await anyio.to_thread.run_sync(request.wait_ended, SLOWLY_S)
        assert request.disconnected


@both_clients
async def test_a_client_can_be_used_again(kind: str) -> None:
    """Streams that were left early do no harm to the client's later ones."""
    scenario = Scenario.of(lambda request: WEATHER if request["model"] == "whole" else HELD)
    whole = [line for line in expected(WEATHER.body)[0] if "Delta" not in line[0]]
    async with ReplayServer(scenario) as server, a_client(kind, server.base_url) as client:
        for _ in range(2):
            async with eagerstream.stream(client, **REQUEST) as stream:
                await anext(stream)
            events = await events_of(client, model="whole")
            assert [event_line(event) for event in events if not isinstance(event, InputDelta | TextDelta)] == whole


async def test_leaving_early_ends_what_waits_for_an_input() -> None:
    """A task outside the block that waits for more of an input is told that no more comes: nothing hangs."""
    ended: list[str] = []

    async def follow(input: GrowingInput) -> None:
        try:
            async for _ in input.text("city"):
                pass
        except InputInterrupted:
            ended.append("interrupted")

    api = LocalAPI([message_start(), tool_start(0), input_delta(0, '{"city": "Os'), Gate()])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, eagerstream.stream(api.anthropic(), **REQUEST) as stream:
            async for event in stream:
                if isinstance(event, InputStart):
                    tasks.start_soon(follow, event.input)
                if isinstance(event, InputDelta):
                    break
    assert ended == ["interrupted"]


# --- slow consumers, and thinning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", ["merge", "wait"])
async def test_a_slow_consumer(buffer: Any) -> None:
    """With "merge" the reading goes on without the consumer, in bounded room; with "wait" it stops. No text is lost."""
    wire = long_input(1000)
    end = Gate()
    api = LocalAPI([*wire[:-1], end, wire[-1]])
    async with eagerstream.stream(api.transport(), **REQUEST, buffer=buffer) as stream:
        await all_tasks_blocked()
        assert end.reached.is_set() is (buffer == "merge")
        end.opened.set()
        events = [event async for event in stream]
    deltas = [event.fragment for event in events if isinstance(event, InputDelta)]
    assert "".join(deltas) == stream.inputs[0].raw
    if buffer == "merge":
        assert len(events) < 300
    else:
        assert [event_line(event) for event in events] == expected(b"".join(map(encode_event, wire)))[0]


async def test_partial_is_the_newest() -> None:
    """A consumer that is behind sees the input as it is now, not as it was when the event was made."""
    api = LocalAPI(long_input(500))
    async with eagerstream.stream(api.transport(), **REQUEST) as stream:
        await all_tasks_blocked()
        async for event in stream:
            if isinstance(event, InputDelta):
                assert event.input.outcome is Outcome.VALID
                break


async def test_min_chars() -> None:
    """Fewer, longer deltas: none under the bound but the last, which comes before the stop, and all the text."""
    async with eagerstream.stream(LocalAPI(long_input(400)).anthropic(), **REQUEST, min_chars=100) as stream:
        events = [event async for event in stream]
    deltas = [event.fragment for event in events if isinstance(event, InputDelta)]
    assert "".join(deltas) == stream.inputs[0].raw
    assert all(len(delta) >= 100 for delta in deltas[:-1])
    assert kinds(events)[-2:] == ["InputStop", "MessageStop"]


async def test_min_interval_with_a_stream_that_stalls() -> None:
    """What is held is shown when its time has come, although the model says nothing more for now."""
    stalled = Gate()
    first, second = input_delta(0, '{"city": "O'), input_delta(0, "s")
    pieces: list[Piece] = [message_start(), tool_start(0), first, 0.0, second, stalled]
    api = LocalAPI(pieces)
    shown = []
    with anyio.fail_after(SLOWLY_S):
        async with eagerstream.stream(api.anthropic(), **REQUEST, min_interval_s=0.02) as stream:
            async for event in stream:
                if isinstance(event, InputDelta):
                    shown.append(event.fragment)
                    if "".join(shown) == '{"city": "Os':
                        break
    assert not stalled.opened.is_set()


async def test_events_come_while_the_reply_is_written() -> None:
    """Nothing waits for the end of the body, of the message or of the block."""
    gates = [Gate() for _ in range(3)]
    first: list[Piece] = [message_start(), gates[0], tool_start(0), input_delta(0, '{"a": 1'), gates[1]]
    api = LocalAPI([*first, input_delta(0, "}"), block_stop(0), gates[2], message_delta("tool_use"), MESSAGE_STOP])
    async with eagerstream.stream(api.anthropic(), **REQUEST) as stream:
        assert isinstance(await anext(stream), MessageStart)
        gates[0].opened.set()
        assert isinstance(await anext(stream), InputStart)
        assert isinstance(await anext(stream), InputDelta)
        gates[1].opened.set()
        assert isinstance(await anext(stream), InputDelta)
        stop = await anext(stream)
        assert isinstance(stop, InputStop)
        assert stop.input.value == {"a": 1}
        assert not gates[2].opened.is_set()


# --- failures ---------------------------------------------------------------------------------------------------------

_HTTP_ERRORS = [
    (400, "invalid_request_error", False),
    (401, "authentication_error", False),
    (429, "rate_limit_error", True),
    (500, "api_error", True),
    (529, "overloaded_error", True),
]


@each_source
async def test_http_errors(kind: str) -> None:
    """A refused request is an `APIError` with everything that is known, before any event."""
    for status, error_type, retryable in _HTTP_ERRORS:
        events, error = await failure_of(a_source(kind, http_error(status, error_type, "Because.", request_id="req_9")))
        assert events == []
        assert type(error) is APIError, status
        assert (error.status_code, error.error_type, error.request_id) == (status, error_type, "req_9")
        known = (error.reason, error.retryable, error.retry_after_s, error.message)
        assert known == ("Because.", retryable, None, None), status
        assert str(error) == f"Because. (HTTP {status}, {error_type}, request req_9)"
        if kind == "anthropic":
            assert error.__cause__ is not None


@each_source
async def test_retry_after(kind: str) -> None:
    """The seconds to wait come from the headers of the response. `tests/transports/test_failures.py` has all forms."""
    refused = http_error(429, "rate_limit_error", "Slowly.")
    date = {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "date": "Fri, 31 Dec 1999 23:59:52 GMT"}
    recording = Recording(refused.chunks, status=429, headers={**refused.headers, **date})
    assert (await error_of(a_source(kind, recording))).retry_after_s == 7


@each_source
async def test_http_errors_in_other_words(kind: str) -> None:
    """A gateway's error page is an `APIError` too: the status alone has to do."""
    gateways = b"", b"<html>Bad gateway</html>", b"[1]", b'{"error": "text"}', b'{"error": {}}', b"\xff", b"[" * 100_000
    for body in gateways:
        recording = Recording((Chunk(0, body),), status=502, headers={"content-type": "text/html"})
        _, error = await failure_of(a_source(kind, recording))
        assert type(error) is APIError, body[:30]
        assert (error.status_code, error.error_type, error.retryable) == (502, None, True), body[:30]
        assert error.reason, body[:30]


@both_clients
async def test_wrong_content_type(kind: str) -> None:
    """A 200 that is no event stream (a login page, a gateway that does not stream) is a broken protocol."""
    for content_type in ("application/json", "text/html; charset=utf-8", ""):
        api = LocalAPI([b'{"type": "message"}'], headers={"content-type": content_type})
        _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
        assert isinstance(error, ProtocolError), content_type
        assert content_type.partition(";")[0] in str(error)
        assert api.exchanges[0].closed, content_type


@both_clients
async def test_an_error_with_status_200(kind: str) -> None:
    """Gateways send them as JSON, under any content type: an error of the API is what its event would be."""
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    refused = {"error": {"message": "prompt is too long: 9 > 8", "type": "invalid_request_error"}}
    for content_type in ("application/json", "text/plain", "text/event-stream", ""):
        for body, reason, retryable in (
            (overloaded, "Overloaded", True),
            (refused, "prompt is too long: 9 > 8", False),
        ):
            plain = json.dumps(body)
            framed = f"event: error\ndata: {plain}\n\n"
            behind = (f": keepalive\n\n{plain}", f"event: ping\ndata: 1\n\n{plain}", f"{plain}\n\ndata: [DONE]\n\n")
            whole = (plain, json.dumps(body, indent=2), f"\ufeff{plain}", f"data: {plain}", framed, *behind)
            for sent in whole:
                pieces: list[Any] = [sent[:9].encode(), sent[9:].encode()]
                api = LocalAPI(pieces, headers={"content-type": content_type, "request-id": "req_1"})
                _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
                assert isinstance(error, APIError), (content_type, sent)
                assert (error.reason, error.retryable, error.request_id) == (reason, retryable, "req_1")
                assert error.status_code is None
                assert api.exchanges[0].closed
            long = json.dumps({**body, "more": "x" * 100_000})
            lost: list[Any] = [plain.encode(), Broken()]
            for pieces in ([long.encode()], lost):
                api = LocalAPI(pieces, headers={"content-type": content_type})
                _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
                assert isinstance(error, APIError), (content_type, len(pieces))
                assert (error.reason, error.retryable) == (reason, retryable)


@both_clients
async def test_the_words_of_a_body_without_events(kind: str) -> None:
    """They are quoted, without secrets and bounded; an empty body, or one of comments, was cut."""
    told = [
        (b'{"success": false, "data": {"details": "daily usage limit reached"}}', "daily usage limit reached"),
        (b"Rate limit exceeded for key sk-ant-api03-abcdefghijklmnopqrstuvwx", "Rate limit exceeded for key"),
        (b"<html><head><title>Sign in</title></head></html>", "a page of HTML: Sign in"),
        (b'{"type": "message", "content": [{"type": "text", "text": "secret"}]}', "a message that was not streamed"),
        (b"x" * 100_000, "characters left out"),
        (b"retry after 30 seconds", "retry after 30 seconds"),
        (b"<html><title>Denied sk-ant-api03-abcdefghijklmnopqrstuvwx</title>", "a page of HTML: Denied"),
        (b'{"error": {"kind": 3}}', "kind"),
    ]
    for body, words in told:
        for content_type in ("text/plain", "text/event-stream"):
            api = LocalAPI([body], headers={"content-type": content_type})
            _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
            assert isinstance(error, ProtocolError)
            assert words in str(error)
            assert "abcdef" not in str(error)
            assert "secret" not in str(error)
            assert len(str(error)) < 600
    for body in (b"", b"\n\n", b": ping\n\n", b"event: ping\n\n", b"\xef\xbb\xbfdata: {"):
        api = LocalAPI([body])
        _, error = await failure_of(api.anthropic() if kind == "anthropic" else api.transport())
        assert isinstance(error, StreamInterrupted), body


@both_clients
async def test_content_type_with_parameters(kind: str) -> None:
    """Upper case and parameters make no difference."""
    api = LocalAPI([WEATHER], headers={"content-type": "Text/Event-Stream;charset=UTF-8"})
    events = await events_of(api.anthropic() if kind == "anthropic" else api.transport())
    assert isinstance(events[-1], MessageStop)


async def test_events_that_nobody_takes() -> None:
    """A peer cannot fill the memory with events that cannot be merged, while a consumer does something else."""
    odd: list[Piece] = [{"type": "tomorrow"}] * 800
    api = LocalAPI([message_start(), *odd, message_delta("end_turn"), MESSAGE_STOP])
    async with eagerstream.stream(api.transport(), **REQUEST, limits=Limits(max_waiting_events=400)) as stream:
        await all_tasks_blocked()
        seen = 0
        with pytest.raises(eagerstream.LimitError, match="max_waiting_events"):
            async for _ in stream:
                seen += 1
    assert 400 <= seen < 700  # those, and a full buffer
    await finished(api.transport(), limits=Limits(max_waiting_events=400))


async def test_no_input_in_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """What a model writes is nobody's business: not in a log, not in a repr."""
    secret = reply(tool_use("f", '{"token": "hunter2", broken'))
    with caplog.at_level(logging.DEBUG, logger="eagerstream"):
        events = await events_of(LocalAPI([secret]).anthropic())
    assert "hunter2" not in caplog.text
    assert all("hunter2" not in repr(event) for event in events if isinstance(event, InputStart | InputStop))


async def test_streams_at_the_same_time() -> None:
    """One client, many streams: nothing is shared between them."""
    said: dict[int, str] = {}
    scenario = Scenario.of(lambda request: reply(text(request["messages"][0]["content"] * 50)))
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:

        async def ask(number: int) -> None:
            events = await events_of(client, messages=[{"role": "user", "content": f"<{number}>"}])
            said[number] = "".join(event.text for event in events if isinstance(event, TextDelta))

        async with anyio.create_task_group() as tasks:
            for number in range(6):
                tasks.start_soon(ask, number)
    assert said == {number: f"<{number}>" * 50 for number in range(6)}


async def test_inputs_can_be_awaited_beside_the_stream() -> None:
    """The inputs of the events are `GrowingInput`s, and tasks may wait for parts of them while the stream goes on."""
    got: dict[str, Any] = {}

    async def done(input: GrowingInput) -> None:
        got["city"] = await input.field("city")
        got["open"] = input.outcome is None
        got["days"] = [item async for item in input.items("days")]
        got["outcome"] = await input.finished()

    cut = retime(WEATHER, Timing(cut=30, speed=float("inf")))
    async with anyio.create_task_group() as tasks, eagerstream.stream(cut, **REQUEST) as stream:
        async for event in stream:
            if isinstance(event, InputStart):
                tasks.start_soon(done, event.input)
    assert got == {"city": "Oslo", "open": True, "days": [1, 2, 3], "outcome": Outcome.VALID}


@pytest.mark.parametrize(
    "what", [{"type": "tomorrow"}, text_delta(0, ""), message_delta(None)], ids=["new", "text", "end"]
)
async def test_a_reply_that_drips(what: Any) -> None:
    """Something comes all the time, and it never ends: the time of a reply as a whole has a bound, too."""
    drops: list[Piece] = [piece for _ in range(1_000) for piece in (what, 0.01)]
    api = LocalAPI([message_start(), block_start(0, "text", text=""), *drops])
    limits = Limits(idle_timeout_s=5, progress_timeout_s=5, max_reply_s=0.1)
    with anyio.fail_after(5), pytest.raises(eagerstream.LimitError, match="max_reply_s"):
        await finished(api.transport(), limits=limits)
    assert api.exchanges[0].closed


@each_source
async def test_an_error_with_a_long_text(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text comes from the peer: no more of it is looked at than is kept, and a bit."""
    inspected = []

    def redact_text(text: str) -> str:
        inspected.append(len(text))
        return text

    monkeypatch.setattr(redaction, "redact_text", redact_text)
    event = {"type": "error", "error": {"type": "x" * 300_000, "message": "://a:" * 60_000}}
    _, error = await failure_of(a_source(kind, Recording.from_body(encode_event(event))))
    assert isinstance(error, APIError)
    assert error.reason.endswith("... (298,000 characters left out)")
    assert 2_000 < max(inspected) < 9_000
    assert len(str(error)) < 4_000
    assert len(error.error_type or "") == 200
