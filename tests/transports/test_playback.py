"""A recording as a transport."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import eagerstream
from eagerstream.errors import APIError, UsageError
from eagerstream.recordings import Chunk, Recording
from eagerstream_testing import http_error, reply, text, tool_use
from eagerstream_testing._framing import in_aws_frames
from eagerstream_wire import MessageStart, MessageStop
from tests.streaming.streams import finished
from tests.streams import REQUEST
from tests.support import check_history

pytestmark = pytest.mark.anyio

HELLO = reply(text("Hello."))
FIRST = HELLO.body.index(b"\n\n") + 2
"""Bytes of the first event."""


@pytest.mark.slow
async def test_chunks_arrive_when_they_did() -> None:
    """The times of the recording are kept: what comes later is later."""
    recording = Recording((Chunk(0.0, HELLO.body[:FIRST]), Chunk(0.1, HELLO.body[FIRST:])))
    start_s = anyio.current_time()
    async with eagerstream.stream(recording, **REQUEST) as stream:
        events = [(event, anyio.current_time() - start_s) async for event in stream]
    assert isinstance(events[0][0], MessageStart)
    assert events[0][1] < 0.1
    assert isinstance(events[-1][0], MessageStop)
    assert events[-1][1] >= 0.099


async def test_any_number_of_times() -> None:
    """A recording answers every request, also at the same time."""
    async with eagerstream.stream(HELLO, **REQUEST) as first, eagerstream.stream(HELLO, **REQUEST) as second:
        await first.finish()
        await second.finish()
    assert first.message == second.message


async def test_a_recorded_error() -> None:
    """It says what the API said then."""
    with pytest.raises(APIError, match=r"Slowly\.") as caught:
        async with eagerstream.stream(
            http_error(429, "rate_limit_error", "Slowly.", request_id="req_1"), **REQUEST
        ) as s:
            await s.finish()
    assert (caught.value.status_code, caught.value.error_type) == (429, "rate_limit_error")
    assert caught.value.request_id == "req_1"


async def test_the_request_id() -> None:
    """It comes from the recorded headers, in whatever case they were."""
    recording = Recording(HELLO.chunks, headers={"Content-Type": "text/event-stream", "Request-Id": "req_1"})
    stream = await finished(recording)
    assert stream.request_id == "req_1"


def test_the_secrets_of_binary_frames(tmp_path: Path) -> None:
    """They cannot be masked, so such a recording is not saved as if they were."""
    recording = in_aws_frames(HELLO)
    with pytest.raises(UsageError, match="nothing can be masked in binary frames"):
        recording.save(tmp_path / "frames.jsonl")
    assert not list(tmp_path.iterdir())
    recording.save(tmp_path / "frames.jsonl", redact=False)
    assert Recording.load(tmp_path / "frames.jsonl") == recording


async def test_binary_frames() -> None:
    """What was recorded from Bedrock plays, too."""
    stream = await finished(in_aws_frames(HELLO))
    assert stream.message["content"] == [{"type": "text", "text": "Hello."}]


async def test_leaving_early() -> None:
    """A recording that is left in the middle ends at once."""
    recording = Recording((Chunk(0.0, HELLO.body[:FIRST]), Chunk(3600.0, HELLO.body[FIRST:])))
    with anyio.fail_after(5):
        async with eagerstream.stream(recording, **REQUEST) as stream:
            await anext(stream)


async def test_a_run_of_one_recording() -> None:
    """Every request is answered alike: a run over a recording with a call goes on until its bound."""

    @eagerstream.tool
    async def now() -> str:
        return "noon"

    recording = reply(tool_use("now", {}, id="toolu_1"))
    async with eagerstream.run(recording, **REQUEST, tools=[now], max_turns=1) as run:
        await run.finish()
    check_history(run.result.messages)
    assert run.result.status is eagerstream.RunStatus.LIMIT
