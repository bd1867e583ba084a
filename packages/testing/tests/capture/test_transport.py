"""`RecordingTransport`: what passes is recorded, and passes as it would without."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.testing.tests.capture import proxies
from tests.streams import REQUEST, event_line, made_recordings
from tests.support import Broken, Gate, LocalAPI, anthropic_client, check_history

import eagerstream
from eagerstream import Limits, Recording, StreamInterrupted
from eagerstream.errors import APIError, UsageError
from eagerstream.transports import Reply, RequestBody, Transport, as_transport
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, Timing, reply, retime, text, tool_use
from eagerstream_testing.capture import RecordingFolder, RecordingTransport

KEY = "sk-ant-api03-Zx9_abc-DEF"
SAID = retime(reply(text("Hello there.")), Timing(cut="event", speed=float("inf")))


def load(folder: RecordingFolder | Path) -> list[Recording]:
    """The recordings in a folder, by name."""
    if isinstance(folder, Path):
        return proxies.load(folder)
    folder.flush()
    return proxies.load(folder.path)


async def events_of(client: Any, **options: Any) -> list[Any]:
    async with eagerstream.stream(client, **{**REQUEST, **options}) as stream:
        return [event_line(event) async for event in stream]


@pytest.mark.anyio
async def test_each_client(tmp_path: Path) -> None:
    """An anthropic client, an HTTPTransport and a recording: the same events, and a recording of the same bytes."""
    async with ReplayServer(SAID) as server, anthropic_client(server.base_url) as client:
        plain = eagerstream.HTTPTransport(base_url=server.base_url)
        async with plain:
            for number, source in enumerate((client, plain, SAID)):
                direct = await events_of(source)
                async with RecordingTransport(source, tmp_path / str(number)) as recording:
                    assert await events_of(recording) == direct
                (made,) = load(tmp_path / str(number))
                assert made.body == SAID.body
                assert (made.status, made.media_type) == (200, "text/event-stream")
                assert await events_of(made) == direct
        (made,) = load(tmp_path / "0")
        assert made.note == f"recorded from 127.0.0.1:{server.port}, {REQUEST['model']}, HTTP 200"
        assert made.headers["request-id"].startswith("req_")


@pytest.mark.anyio
async def test_a_run_in_the_order_of_its_turns(tmp_path: Path) -> None:
    """What `serve` is given plays the conversation again."""

    @eagerstream.tool
    async def get_weather(city: str) -> str:
        """Weather."""
        return city

    call = reply(tool_use("get_weather", {"city": "Oslo"}))
    options: dict[str, Any] = {**REQUEST, "tools": [get_weather], "max_turns": 4}
    results = []
    async with ReplayServer(Scenario(call, SAID)) as server, anthropic_client(server.base_url) as client:
        async with RecordingTransport(client, RecordingFolder(tmp_path, redact_contents=True)) as recording:
            async with eagerstream.run(recording, **options) as run:
                await run.finish()
            results.append(run.result)
    recordings = load(tmp_path)
    assert b"get_weather" in recordings[0].body
    assert b"Oslo" not in recordings[0].body
    async with ReplayServer(Scenario(*recordings)) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.run(client, **options) as run:
            await run.finish()
        results.append(run.result)
    assert [result.status.value for result in results] == ["completed", "completed"]
    check_history(results[1].messages)
    assert results[1].calls[0].input.value == {"city": "****"}  # the key is declared by the tool


@pytest.mark.anyio
async def test_chunks_and_times(tmp_path: Path) -> None:
    """A chunk is what the client got at once, and its time counts from the request."""
    gates = [Gate(), Gate()]
    first, second = SAID.chunks[0].data, SAID.body[len(SAID.chunks[0].data) :]
    api = LocalAPI([gates[0], first, gates[1], second])
    recording = RecordingTransport(api.transport(), tmp_path)
    began_s = anyio.current_time()
    opened_s = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events_of, recording)
        for gate in gates:
            await gate.reached.wait()
            opened_s.append(anyio.current_time() - began_s)
            gate.opened.set()
    ended_s = anyio.current_time() - began_s
    (made,) = load(recording.folder)
    assert [chunk.data for chunk in made.chunks] == [first, second]
    assert 0 <= made.chunks[0].at_s <= opened_s[1] + 1e-3
    assert opened_s[1] - 0.1 <= made.chunks[1].at_s <= ended_s + 1e-3  # the clocks begin within a moment


@pytest.mark.anyio
async def test_what_breaks_off(tmp_path: Path) -> None:
    """The reader sees what it would see, and what came is kept, with a note."""
    first = SAID.chunks[0].data
    recording = RecordingTransport(LocalAPI([first, Broken()]).transport(), tmp_path)
    with pytest.raises(StreamInterrupted):
        await events_of(recording)
    (made,) = load(recording.folder)
    assert made.body == first
    assert made.note.endswith("; it broke off: the connection was lost")


@pytest.mark.anyio
async def test_what_is_given_up(tmp_path: Path) -> None:
    """Cancelled in the middle: the same, and the connection is closed."""
    gate = Gate()
    api = LocalAPI([SAID.chunks[0].data, gate])
    recording = RecordingTransport(api.transport(), tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events_of, recording)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    (made,) = load(recording.folder)
    assert made.body == SAID.chunks[0].data
    assert made.note.endswith("; its reader left before its end")
    assert api.exchanges[0].closed


class _Silent(Transport):
    """Never answers."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        self.asked.set()
        await anyio.sleep_forever()
        raise AssertionError
        yield  # makes it a generator


@pytest.mark.anyio
async def test_cancelled_before_it_begins(tmp_path: Path) -> None:
    """There is nothing to record."""
    silent = _Silent()
    recording = RecordingTransport(silent, tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(events_of, recording)
        await silent.asked.wait()
        tasks.cancel_scope.cancel()
    assert load(recording.folder) == []


@pytest.mark.anyio
async def test_refusals(tmp_path: Path) -> None:
    """An error response is a reply, too: as it came where the client shows it, else made of its error."""
    faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529)] * 2})
    async with ReplayServer(SAID, faults=faults) as server, anthropic_client(server.base_url) as client:
        async with eagerstream.HTTPTransport(base_url=server.base_url) as plain:
            for source, note in ((client, "HTTP 529"), (plain, "its body is made of what its error says")):
                recording = RecordingTransport(source, tmp_path / type(source).__name__)
                with pytest.raises(APIError, match="Overloaded"):
                    await events_of(recording)
                (made,) = load(recording.folder)
                assert made.status == 529
                assert json.loads(made.body)["error"] == {"type": "overloaded_error", "message": "Overloaded"}
                assert made.note.endswith(note)
                with pytest.raises(APIError, match="Overloaded"):
                    await events_of(made)


@pytest.mark.anyio
async def test_nobody_there(tmp_path: Path) -> None:
    """Without a reply there is no recording, and the error is the same."""
    async with ReplayServer(SAID) as server:
        url = server.base_url
    async with anthropic_client(url) as client:
        recording = RecordingTransport(client, tmp_path)
        with pytest.raises(APIError, match="could not be reached"):
            await events_of(recording)
        assert load(recording.folder) == []


@pytest.mark.anyio
async def test_where_eager_streaming_is_refused(tmp_path: Path) -> None:
    """The request is sent in another form, as without; both replies are there, and the next request knows."""

    @eagerstream.tool
    async def f(x: int) -> None:
        """F."""

    async with ReplayServer(SAID, eager="header") as server, anthropic_client(server.base_url) as client:
        async with RecordingTransport(client, tmp_path) as recording:
            for _ in range(2):
                async with eagerstream.stream(recording, tools=[f], **REQUEST) as stream:
                    await stream.finish()
        assert [request.status for request in server.requests] == [400, 200, 200]
    assert [made.status for made in load(tmp_path)] == [400, 200, 200]


@pytest.mark.anyio
async def test_the_client_keeps_its_settings(tmp_path: Path) -> None:
    """What is asked of a transport is asked of the one inside."""
    async with anthropic_client("http://127.0.0.1:1") as client:
        client = client.with_options(max_retries=3, default_headers={"anthropic-beta": "a,b"})
        inner, recording = as_transport(client), RecordingTransport(client, tmp_path)
        assert recording.opening_timeout_s(Limits()) == inner.opening_timeout_s(Limits()) > 120
        assert recording.default_betas == ["a", "b"]
        assert recording.base_url == "http://127.0.0.1:1"
        assert "127.0.0.1" not in repr(recording)


@pytest.mark.anyio
async def test_no_key_is_kept(tmp_path: Path) -> None:
    """Neither the client's own, nor one in a URL, nor one in a reply."""
    from anthropic import AsyncAnthropic

    body = reply(text(f"Your key is {KEY}."))
    async with ReplayServer(body) as server:
        url = server.base_url.replace("//", "//me:hunter2@")
        async with AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client:
            async with RecordingTransport(client, tmp_path) as recording:
                await events_of(recording)
    content = (tmp_path / "0001.jsonl").read_text()
    assert "127.0.0.1" in content
    assert "hunter2" not in content
    assert KEY not in content
    assert "".join(Recording.load(tmp_path / "0001.jsonl").body.decode().split("text_delta")).count("*") == len(KEY)


@pytest.mark.anyio
async def test_recordings_of_recordings(tmp_path: Path) -> None:
    """Whatever a reply is: recorded while it is played, it is the same."""
    folder = RecordingFolder(tmp_path, keep_secrets=True)
    played = [Recording.load(path) for path in made_recordings()]
    for each in played:
        try:
            await events_of(RecordingTransport(each, folder))
        except eagerstream.EagerStreamError:
            pass  # some break off, or break the protocol
    assert [made.body for made in load(folder)] == [each.body for each in played]


class _Closed(Transport):
    """A transport of somebody's own, which shows no bytes."""

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        async with as_transport(SAID).open(request, limits) as inner:

            class Own:
                request_id: str | None = None
                receive = inner.receive

            yield Own()


@pytest.mark.anyio
async def test_a_transport_that_shows_no_bytes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It works as without, and that there is no recording is said once."""
    recording = RecordingTransport(_Closed(), tmp_path)
    for _ in range(2):
        assert await events_of(recording) == await events_of(SAID)
    assert load(recording.folder) == []
    assert [record.message for record in caplog.records] == [
        "responses of a _Closed are not recorded: it gives no bytes"
    ]


def test_what_is_no_client(tmp_path: Path) -> None:
    """Said as `stream` says it."""
    with pytest.raises(UsageError, match="must be an async client"):
        RecordingTransport(object(), tmp_path)
