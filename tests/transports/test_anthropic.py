"""The anthropic package's async clients, by what they can do."""

from __future__ import annotations

import asyncio
import gc
import json
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import AsyncAnthropic, AsyncAnthropicBedrock

import eagerstream
from eagerstream._support.tracing import trace_headers
from eagerstream.errors import StreamInterrupted, UsageError
from eagerstream_testing import ReplayServer, Scenario, http_error, reply, text, tool_use
from eagerstream_testing._framing import in_aws_frames
from tests.streaming.streams import finished
from tests.streams import REQUEST, event_line
from tests.support import Broken, LocalAPI, anthropic_client, anthropic_http_library

pytestmark = pytest.mark.anyio

WEATHER = reply(text("Let me look."), tool_use("get_weather", {"city": "Oslo"}))


def bedrock(api: LocalAPI) -> AsyncAnthropicBedrock:
    """The client whose replies are no server-sent events, answered in the process itself."""
    return AsyncAnthropicBedrock(
        aws_access_key="k",
        aws_secret_key="s",
        aws_region="us-east-1",
        base_url="http://local",
        max_retries=0,
        http_client=api.client(anthropic_http_library()),
    )


FRAMES = {"content-type": "application/vnd.amazon.eventstream", "request-id": "", "x-amzn-requestid": "req_frames"}


async def test_a_request_that_a_tracer_reports() -> None:
    """It has the tracer's headers, unless the program has set them, and the client itself is used again afterwards."""
    with ReplayServer(Scenario(reply(text("Hi.")), reply(text("Hi.")), reply(text("Hi.")))) as server:
        async with AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0) as client:
            token = trace_headers.set({"traceparent": "00-1-2-01"})
            try:
                await finished(client)
                own = {"traceparent": "00-3-4-01"}
                await finished(client, extra_headers=own)
            finally:
                trace_headers.reset(token)
            await finished(client)
    sent = [request.headers.get("traceparent", "") for request in server.requests]
    assert sent[:2] == ["00-1-2-01", "00-3-4-01"]
    assert sent[2] not in sent[:2]


@pytest.mark.slow
async def test_replies_that_are_no_server_sent_events() -> None:
    """Binary frames give the same events."""
    api = LocalAPI([in_aws_frames(WEATHER).body], headers=FRAMES)
    async with bedrock(api) as client, eagerstream.stream(client, **REQUEST) as stream:
        lines = [event_line(event) async for event in stream]
    async with eagerstream.stream(WEATHER, **REQUEST) as played:
        assert [event_line(event) async for event in played] == lines
    assert stream.request_id == "req_frames"
    assert api.exchanges[0].closed


async def test_a_connection_that_is_lost_between_frames() -> None:
    """It is an interruption, and the request id is known."""
    frames = in_aws_frames(WEATHER).body
    api = LocalAPI([frames[: len(frames) // 2], Broken()], headers=FRAMES)
    with pytest.raises(StreamInterrupted, match="the peer is gone") as caught:
        async with bedrock(api) as client, eagerstream.stream(client, **REQUEST) as stream:
            await stream.finish()
    assert caught.value.request_id == "req_frames"
    assert caught.value.message is not None
    assert api.exchanges[0].closed


class Taking:
    """A client that takes few parameters, and keeps what it is given."""

    def __init__(self, error: Exception) -> None:
        self.arguments: dict[str, Any] = {}
        self._error = error
        self.messages = SimpleNamespace(create=self._create, with_streaming_response=SimpleNamespace(create=self._open))

    async def _create(self, *, model: str, max_tokens: int, messages: Any, stream: bool, extra_body: Any = None) -> Any:
        raise AssertionError

    def _open(self, **arguments: Any) -> Any:
        self.arguments = arguments
        return self

    async def __aenter__(self) -> Any:
        raise self._error


async def test_parameters_that_a_client_does_not_know() -> None:
    """They travel in its `extra_body`, beside what the caller put there."""
    client = Taking(KeyError())
    unknown: dict[str, Any] = {"thinking": {"type": "x"}}
    with pytest.raises(KeyError):
        await finished(client, **unknown, extra_body={"a": 1})
    sent = {"extra_body": {"a": 1, "thinking": {"type": "x"}}, "extra_headers": {"accept-encoding": "gzip"}}
    assert client.arguments == {**REQUEST, "stream": True, **sent}


async def test_the_content_coding_that_is_asked_for() -> None:
    """One that can be read within a bound, unless the caller asks for another."""
    api = LocalAPI([WEATHER])
    asked = [
        (api.anthropic(), {}, "gzip"),
        (api.anthropic(), {"Accept-Encoding": "identity"}, "identity"),
        (api.anthropic().with_options(default_headers={"Accept-Encoding": "identity"}), {}, "identity"),
    ]
    for client, headers, coding in asked:
        await finished(client, extra_headers=headers)
        assert api.exchanges[-1].headers["accept-encoding"] == coding


async def test_what_a_client_cannot_send() -> None:
    """A request without a JSON form, and a client that was closed: for its user to mend, and nothing is hidden in it."""
    api = LocalAPI([WEATHER])
    client = api.anthropic()
    wrong: dict[str, Any] = {"user_id": object()}
    for metadata in (wrong, {}):
        if not metadata:
            await client.close()
        with pytest.raises(UsageError, match="the client cannot send this request"):
            await finished(client, metadata=metadata)
    assert not api.exchanges


async def test_keys_that_cannot_be_encoded() -> None:
    """From a variable that is not UTF-8. The exception has the key, and whoever prints ours must not come to see it."""
    api = LocalAPI([WEATHER])
    with pytest.raises(UsageError, match="cannot be encoded") as caught:
        await finished(api.anthropic().with_options(api_key="hunter2\udce9"))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert not api.exchanges


async def test_options_of_the_client() -> None:
    """What a client's own method takes beside the API's parameters reaches it, and not the body."""
    async with ReplayServer(WEATHER) as server, anthropic_client(server.base_url) as client:
        await finished(client, extra_headers={"x-note": "a"}, timeout=30)
        (request,) = server.requests
    assert request.headers["x-note"] == "a"
    assert request.body == {**REQUEST, "stream": True}


@pytest.mark.slow
async def test_retries_are_the_client_s() -> None:
    """A client that retries by itself still does, and what comes then is streamed."""
    attempts = 0

    def answer(_: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return http_error(529, "overloaded_error", "Overloaded") if attempts == 1 else WEATHER

    async with (
        ReplayServer(Scenario.of(answer)) as server,
        anthropic_client(server.base_url) as client,
        eagerstream.stream(client.with_options(max_retries=1), **REQUEST) as stream,
    ):
        await stream.finish()
    assert attempts == 2
    assert stream.stop_reason == "tool_use"


async def test_the_client_stays_open() -> None:
    """Whoever made a client closes it."""
    api = LocalAPI([WEATHER])
    client = api.anthropic()
    for _ in range(2):
        await finished(client)
    assert not client.is_closed()
    assert all(exchange.closed for exchange in api.exchanges)
    assert [json.dumps(exchange.body, sort_keys=True) for exchange in api.exchanges] == [
        json.dumps({**REQUEST, "stream": True}, sort_keys=True)
    ] * 2


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_second_event_loop() -> None:
    """A client that was made once keeps connections of the first `asyncio.run`: a lost connection, not a mistake."""
    call = reply(tool_use("now", {}))
    done = reply(text("Done."))

    @eagerstream.tool
    async def now() -> str:
        """Now."""
        ran.append(True)
        return "noon"

    async def once(client: AsyncAnthropic, *, closes: bool) -> str:
        async with eagerstream.run(client, tools=[now], restart_delay_s=0.01, **REQUEST) as run:
            status = (await run.finish()).status
        if closes:
            await client.close()
        return status

    ran: list[bool] = []
    with ReplayServer(Scenario(call, done, call, done)) as server:
        client = AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0)
        assert [asyncio.run(once(client, closes=closes)) for closes in (False, True)] == ["completed"] * 2
    del client
    gc.collect()  # the sockets of the first loop, which nobody can close any more
    assert len(ran) == 2
