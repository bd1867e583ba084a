"""The gateway: places for runs, what a client is answered, and that what is slow holds up only its own run."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from itertools import groupby, islice
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest
from anthropic.types import MessageParam
from packages.progress.tests.asgi import client_of, scope_of
from tests.source_tree import ROOT
from tests.streams import MESSAGE_STOP, block_start, block_stop, message_delta, message_start, text_delta
from tests.support import Gate, LocalAPI, awaiting, until
from tests.tables import rows

import eagerstream
from eagerstream import HTTPTransport, LimitError, Run, UsageError, tool
from eagerstream._support.serving.asgi_server import ThreadedServer
from eagerstream_progress import Hub
from eagerstream_progress.gateway import RunsFull, RunSlots, gateway_app
from eagerstream_testing import ReplayServer, Scenario, Timing, encode_event, reply, text, tool_use
from eagerstream_wire import SSEDecoder

ASKED = {"question": "How?"}


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_no_more_runs_than_places() -> None:
    """The next one is refused at once, and told when to come back; a place that is left is free again."""
    slots = RunSlots(2, retry_after_s=3)
    async with slots.hold():
        async with slots.hold():
            assert (slots.held, slots.waiting) == (2, 0)
            with pytest.raises(RunsFull) as refused:
                async with slots.hold():
                    pass
            assert refused.value.retry_after_s == 3
            assert isinstance(refused.value, LimitError)
        async with slots.hold():
            assert slots.held == 2
    assert slots.held == 0


@pytest.mark.anyio
async def test_who_waits_gets_a_place_in_the_order_of_asking() -> None:
    """Fair, and bounded: who finds no place to wait in is refused."""
    slots = RunSlots(1, max_waiting=2)
    served: list[int] = []

    async def ask(number: int) -> None:
        async with slots.hold():
            served.append(number)

    async with anyio.create_task_group() as tasks:
        async with slots.hold():
            for number in range(2):
                tasks.start_soon(ask, number)
                await until(lambda: slots.waiting == number + 1)  # noqa: B023  # awaited in the loop
            with pytest.raises(RunsFull):
                await ask(2)
    assert served == [0, 1]


@pytest.mark.anyio
async def test_nobody_waits_for_ever() -> None:
    """Over `max_wait_s` it is refused, and so it is out of the way of those behind it."""
    slots = RunSlots(1, max_waiting=1, max_wait_s=0.01)
    async with slots.hold():
        with pytest.raises(RunsFull):
            async with slots.hold():
                pass
        assert slots.waiting == 0


@pytest.mark.anyio
async def test_who_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    """A client that gave up takes no place."""
    slots = RunSlots(1, max_waiting=1)

    async def ask() -> None:
        async with slots.hold():
            raise AssertionError("it was cancelled")

    async with slots.hold():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: slots.waiting)
            tasks.cancel_scope.cancel()
    assert (slots.held, slots.waiting) == (0, 0)
    async with slots.hold():
        assert slots.held == 1


@rows("options", [{"max_runs": 0}, {"max_waiting": -1}, {"max_wait_s": 0}, {"retry_after_s": float("inf")}])
def test_places_that_make_no_sense(options: dict[str, Any]) -> None:
    """They are refused where they are given."""
    with pytest.raises(UsageError):
        RunSlots(**({"max_runs": 1} | options))


# --- answers ----------------------------------------------------------------------------------------------------------


@tool
async def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"15 degrees in {city}"


def starting(transport: Any, **options: Any) -> Callable[[Mapping[str, Any]], Run]:
    def start(asked: Mapping[str, Any]) -> Run:
        question: list[MessageParam] = [{"role": "user", "content": asked["question"]}]
        settings: dict[str, Any] = {
            "tools": [get_weather],
            "buffer": "wait",
            "pings": True,
            "model": "m",
            "max_tokens": 1,
        }
        settings |= options
        return eagerstream.run(transport, messages=question, **settings)

    return start


async def ask(app: Any) -> httpx.Response:
    async with client_of(app) as client:
        with anyio.fail_after(10):
            return await client.post("/runs", json=ASKED)


def records_of(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in SSEDecoder().feed(body)]


@pytest.mark.anyio
async def test_the_records_of_a_run() -> None:
    """From its beginning to its end, as a watcher of the hub gets them, under the same id."""
    api = LocalAPI(reply(tool_use("get_weather", {"city": "Oslo"})), reply(text("It is mild.")))
    hub, slots = Hub(), RunSlots(1)
    response = await ask(gateway_app(starting(api.transport()), slots=slots, hub=hub))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    records = records_of(response.content)
    assert [record["seq"] for record in records] == [*range(1, len(records) + 1)]
    (log,) = hub.logs
    assert records[0]["run"] == log.id
    # The gateway takes events one by one, so that each of its deltas has one fragment. The log has one for a chunk.
    assert [type for type, _ in groupby(record["type"] for record in records)] == [
        record["type"] for record in log.records()
    ]
    assert (records[-1]["type"], records[-1]["status"]) == ("run_stop", "completed")
    assert "".join(record["text"] for record in records if record["type"] == "text_delta") == "It is mild."
    assert [record["content"] for record in records if record["type"] == "tool_stop"] == ["15 degrees in Oslo"]
    assert slots.held == 0


@pytest.mark.anyio
async def test_numbers_that_a_client_would_round() -> None:
    """A client may be written in JavaScript: it gets their digits."""
    api = LocalAPI(reply(tool_use("get_weather", {"city": "Oslo", "id": 2**53 + 1})), reply(text("It is mild.")))
    response = await ask(gateway_app(starting(api.transport()), slots=RunSlots(1)))
    patches = [record["patch"] for record in records_of(response.content) if record["type"] == "input_delta"]
    values = [operation["value"] for patch in patches for operation in patch]
    assert values == [{"city": "Oslo", "id": {"$number": "9007199254740993"}}]


@pytest.mark.anyio
async def test_a_full_gateway_says_when_to_come_back() -> None:
    """The runs that are held go on; the next request after one of them has a place."""
    gate = Gate()
    api = LocalAPI([gate, reply(text("Done."))])
    slots = RunSlots(1, retry_after_s=1.5)
    app = gateway_app(starting(api.transport()), slots=slots)
    async with awaiting(lambda: ask(app)) as answers:
        await gate.reached.wait()
        refused = await ask(app)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert refused.json() == {"error": "the gateway is full"}
        async with client_of(app) as client:
            told = (await client.get("/runs")).json()
        assert told == {"held": 1, "max_runs": 1, "waiting": 0, "max_waiting": 0}
        gate.opened.set()
    assert records_of(answers[0].content)[-1]["status"] == "completed"
    assert (await ask(app)).status_code == 200
    assert len(api.exchanges) == 2


@pytest.mark.anyio
async def test_clients_that_send_no_body_take_no_places() -> None:
    """Opening a connection costs them nothing: sixty silent ones must not close the gateway to others."""
    slots = RunSlots(1)
    app = gateway_app(starting(LocalAPI(reply(text("Done."))).transport()), slots=slots)
    waiting = 0

    async def receive() -> Any:
        nonlocal waiting
        waiting += 1
        await anyio.sleep_forever()

    async def send(_: Any) -> None:
        raise AssertionError("it is not answered")

    async with anyio.create_task_group() as tasks:
        for _ in range(60):
            tasks.start_soon(app, scope_of("/runs"), receive, send)
        await until(lambda: waiting == 60)
        assert slots.held == 0
        assert (await ask(app)).status_code == 200
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"json": [1]}, 400),
        ({"content": "{", "headers": {"content-type": "application/json"}}, 400),
        ({"content": "question=How", "headers": {"content-type": "text/plain"}}, 415),
        ({"json": {"question": ""}}, 400),
    ],
)
async def test_bodies_that_are_not_taken(options: dict[str, Any], status: int) -> None:
    """Each is told what is wrong, and keeps no place."""
    slots = RunSlots(1)
    app = gateway_app(starting(LocalAPI([b""]).transport()), slots=slots)
    async with client_of(app) as client:
        response = await client.post("/runs", **options)
    assert response.status_code == status
    assert response.json()["error"]
    assert slots.held == 0


@pytest.mark.anyio
async def test_what_is_wrong_is_told_without_secrets() -> None:
    """Neither what starts a run nor what ends it may tell a client a key."""
    secret = "sk-ant-api03-" + "a" * 40

    def start(_: Mapping[str, Any]) -> Run:
        raise UsageError(f"no model for {secret}")

    refused = await ask(gateway_app(start, slots=RunSlots(1)))
    assert refused.status_code == 400
    assert secret not in refused.text
    assert "no model for" in refused.text

    class Leaking(HTTPTransport):
        def open(self, *_: Any) -> Any:
            raise OSError(f"cannot read {secret}")

    app = gateway_app(starting(Leaking(base_url="http://local")), slots=RunSlots(1))
    failed = records_of((await ask(app)).content)[-1]
    assert (failed["type"], failed["status"]) == ("run_stop", "error")
    assert failed["error"] == {"type": "OSError", "text": "The run failed."}


@pytest.mark.anyio
async def test_an_error_of_the_api_is_told() -> None:
    """In the words of its class; the run is the client's own."""
    api = LocalAPI([b"{}"], status=401)
    last = records_of((await ask(gateway_app(starting(api.transport()), slots=RunSlots(1)))).content)[-1]
    assert last["error"]["type"] == "APIError"


async def say(app: Any, run: str, asked: Any) -> tuple[int, Any]:
    """Status and body of the answer to a message to a run."""
    async with client_of(app) as client:
        answer = await client.post(f"/runs/{run}/messages", json=asked)
        return answer.status_code, answer.json()


@pytest.mark.anyio
async def test_a_client_speaks_to_its_run() -> None:
    """By the id in `run_start`. What cannot be said is refused in words, and a run that has ended is not found."""
    gate = Gate()
    api = LocalAPI(
        [message_start(), block_start(0, "text", text=""), text_delta(0, "It is "), gate], [reply(text("Mild."))]
    )
    hub = Hub()
    app = gateway_app(starting(api.transport()), slots=RunSlots(1), hub=hub)
    async with awaiting(lambda: ask(app)) as answers:
        await gate.reached.wait()
        (log,) = hub.logs
        assert await say(app, "another", {"message": "Hello?"}) == (404, {"error": "there is no such run"})
        assert await say(app, log.id, {"message": 5}) == (400, {"error": "message: a text is required"})
        status, refused = await say(app, log.id, {"message": "In German.", "when": "soon"})
        assert (status, "soon" in refused["error"]) == (400, True)
        for _ in range(99):
            assert await say(app, log.id, {"message": "And?", "when": "when_idle"}) == (202, {})
        assert await say(app, log.id, {"message": "In German.", "when": "now"}) == (202, {})
    records = records_of(answers[0].content)
    assert "".join(record["text"] for record in records if record["type"] == "text_delta").startswith("It is Mild.")
    assert api.exchanges[1].body["messages"][1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "It is "}]},
        {"role": "user", "content": "In German."},
    ]
    assert len(api.exchanges) == 3  # the other messages kept the run going
    assert (await say(app, log.id, {"message": "Thanks."}))[0] == 404


@pytest.mark.anyio
async def test_a_client_cancels_its_run() -> None:
    """Its records end in order, and nothing is found afterwards. A form of another page's cannot do it."""
    gate = Gate()
    api = LocalAPI([message_start(), block_start(0, "text", text=""), text_delta(0, "It is "), gate])
    app = gateway_app(starting(api.transport()), slots=RunSlots(1), hub=(hub := Hub()))
    async with awaiting(lambda: ask(app)) as answers:
        await gate.reached.wait()
        (log,) = hub.logs
        async with client_of(app) as client:
            address = f"/runs/{log.id}/cancel"
            assert (await client.post(address, data={"a": "b"})).status_code == 415
            assert (await client.post("/runs/another/cancel", json={})).status_code == 404
            assert (await client.post(address, json={})).status_code == 202
    last = records_of(answers[0].content)[-1]
    assert (last["type"], last["status"]) == ("run_stop", "cancelled")


@pytest.mark.anyio
async def test_no_more_than_100_messages_wait() -> None:
    """A client that sends without end fills no memory, and is told."""
    gate = Gate()
    app = gateway_app(
        starting(LocalAPI([gate, reply(text("Done."))]).transport()), slots=RunSlots(1), hub=(hub := Hub())
    )
    async with awaiting(lambda: ask(app)):
        await gate.reached.wait()
        (log,) = hub.logs
        statuses = [(await say(app, log.id, {"message": "And?"}))[0] for _ in range(101)]
        gate.opened.set()
    assert statuses == [202] * 100 + [429]


# --- one process ------------------------------------------------------------------------------------------------------


@rows(
    "workers, should_reload, is_refused",
    [(1, False, False), (4, False, True), (4, True, False)],  # with `--reload`, uvicorn starts one
)
def test_several_workers_of_uvicorn(
    monkeypatch: pytest.MonkeyPatch, workers: int, should_reload: bool, is_refused: bool
) -> None:
    """A run would be found by some of its requests only."""
    config = SimpleNamespace(workers=workers, should_reload=should_reload)
    monkeypatch.setattr(multiprocessing.current_process(), "_kwargs", {"config": config}, raising=False)
    with pytest.raises(UsageError, match="without --workers") if is_refused else nullcontext():
        gateway_app(starting(None), slots=RunSlots(1))


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--workers", "2"], ["--reload"]])
def test_the_workers_of_the_real_uvicorn(tmp_path: Path, options: list[str]) -> None:
    """They are known by a private name of `multiprocessing`: a newer version may have another."""
    program = """
        from eagerstream_progress.gateway import RunSlots, gateway_app
        app = gateway_app(print, slots=RunSlots(1))
        print("accepted", flush=True)
    """
    (tmp_path / "program.py").write_text(dedent(program))
    command = [sys.executable, "-m", "uvicorn", "program:app", "--port", "0", *options]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ends = re.compile("accepted|UsageError: a gateway is one process")
            (end,) = islice(filter(None, map(ends.search, process.stdout)), 1)
        finally:
            process.terminate()
    assert (end[0] == "accepted") == (options == ["--reload"])


# --- over sockets -----------------------------------------------------------------------------------------------------


class SlowAPI:
    """An API whose replies are as long as anybody reads them, and that counts what it could send; for asyncio.

    Attributes:
        sent: By the question that was asked, bytes that the connection has taken.
        ended: Questions whose connection is gone.
    """

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.ended: set[str] = set()
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SlowAPI]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        question = json.loads(await reader.readexactly(length))["messages"][0]["content"]
        size, _, name = question.partition(" ")
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            writer.write(encode_event(message_start()) + encode_event(block_start(0, "text", text="")))
            piece = encode_event(text_delta(0, "x" * 8_000))
            self.sent[name] = 0
            for _ in range(int(size) // len(piece)):
                writer.write(piece)
                await writer.drain()
                self.sent[name] += len(piece)
            writer.write(b"".join(map(encode_event, (block_stop(0), message_delta("end_turn"), MESSAGE_STOP))))
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.ended.add(name)
            writer.close()


@contextmanager
def gateway(start: Callable[[Mapping[str, Any]], Run], **options: Any) -> Iterator[ThreadedServer]:
    """The gateway on a socket, in a thread of its own."""
    make = lambda: gateway_app(start, **options)  # noqa: E731  # one line of three arguments
    with ThreadedServer(make, name="gateway", host="127.0.0.1", port=0) as server:
        yield server


@asynccontextmanager
async def asking(server: ThreadedServer, question: str) -> AsyncIterator[anyio.abc.SocketStream]:
    """A connection on which a run was asked for, and that has read nothing yet."""
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        body = json.dumps({"question": question}).encode()
        head = f"POST /runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        await stream.send(head.encode() + body)
        yield stream


async def stopped_growing(count: Callable[[], int]) -> int:
    """What a count comes to, once it has not grown for a second."""
    last, same = -1, 0
    with anyio.fail_after(40):
        while same < 10:
            now = count()
            last, same = now, same + 1 if now == last and now else 0
            await anyio.sleep(0.1)
    return last


MEGABYTE = 1024 * 1024


@pytest.mark.slow
def test_a_stalled_client_stops_the_reading_of_its_own_reply_only() -> None:
    """From end to end: what the API can send stops growing; others are served; it goes on where the client reads on."""

    async def main() -> None:
        async with SlowAPI().running() as api:
            # Its client is made in the thread of the gateway, and nobody closes it.
            start = starting(HTTPTransport(base_url=api.url, library="httpx"))
            with gateway(start, slots=RunSlots(10), stall_s=60.0) as server:
                total = 64 * MEGABYTE
                async with asking(server, f"{total} stalled") as stalled:
                    held_up = await stopped_growing(lambda: api.sent.get("stalled", 0))
                    assert held_up < total / 2
                    async with asking(server, f"{4 * MEGABYTE} quick") as quick:
                        await read_to_the_end(quick)
                    assert api.sent["stalled"] == held_up
                    assert await read_to_the_end(stalled) > total * 0.99
                assert api.sent["stalled"] > total * 0.99

    asyncio.run(main())


async def read_to_the_end(stream: anyio.abc.SocketStream) -> int:
    """Until the last record; how many bytes came."""
    count, tail = 0, b""
    with anyio.fail_after(40):
        while b'"run_stop"' not in tail:
            piece = await stream.receive(262_144)
            count += len(piece)
            tail = (tail + piece)[-10_000:]
    return count


@pytest.mark.slow
def test_a_client_that_vanishes_or_stalls_for_too_long_ends_its_run() -> None:
    """Its reply is given up, and its place is free."""

    async def main() -> None:
        async with SlowAPI().running() as api:
            slots = RunSlots(2)
            start = starting(HTTPTransport(base_url=api.url, library="httpx"))
            with gateway(start, slots=slots, stall_s=1.0) as server:
                async with asking(server, f"{256 * MEGABYTE} vanishes"):
                    await until(lambda: api.sent.get("vanishes"))
                async with asking(server, f"{64 * MEGABYTE} stalls"):
                    await until(lambda: api.ended == {"vanishes", "stalls"})
                    await until(lambda: slots.held == 0)

    asyncio.run(main())


# --- the example, as a program of its own -----------------------------------------------------------------------------

EXAMPLE = ROOT / "examples" / "gateway.py"


class Program:
    """The gateway of the example, asked over HTTP."""

    def __init__(self, process: subprocess.Popen[str], url: str, page: str) -> None:
        self.process = process
        self.url = url
        self.page = page

    @property
    def workers(self) -> list[int]:
        """The processes of its workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    async def ask(self, client: httpx.AsyncClient, question: str = "How many?") -> list[dict[str, Any]]:
        """The records of a run."""
        response = await client.post(f"{self.url}/runs", json={"question": question})
        assert response.status_code == 200
        return records_of(response.content)


@contextmanager
def program(api: ReplayServer, *, runs: int, **settings: str) -> Iterator[Program]:
    """The example, until the block ends; then it is told to end as a server is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings |= {"ANTHROPIC_BASE_URL": api.base_url, "ANTHROPIC_API_KEY": "simulated", "RUNS": str(runs)}
    options = ["--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "5"]
    command = [sys.executable, "-m", "uvicorn", "gateway:app", *options]
    with subprocess.Popen(
        command,
        cwd=EXAMPLE.parent,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            assert told.startswith("watch at "), process.stderr and process.stderr.read()
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:  # it listens in a moment
                assert client.get(f"{url}/runs").json()["held"] == 0
            yield Program(process, url, told.removeprefix("watch at ").strip())
            workers = Program(process, url, "").workers
            process.terminate()
            assert process.wait(60) in (0, -signal.SIGTERM)
            assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
        finally:
            process.kill()


def counting(*belows: int) -> Scenario:
    """A run that counts primes, and then says that it is done."""
    calls = reply(*(tool_use("count_primes", {"below": below}) for below in belows))
    return Scenario(calls, reply(text("Done. " * 5)), timing=Timing(tokens_per_second=20))


def patient_client(runs: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=runs + 5)
    return httpx.AsyncClient(limits=limits, timeout=50, transport=None)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_the_gateway_of_the_example_holds_so_many_runs() -> None:
    """All of them at once, tools in its workers, each whole; one more is answered, and a watcher that leaves is not missed."""
    runs = 20

    async def main() -> None:
        with ReplayServer(counting(2_000, 3_000)) as api, program(api, runs=runs) as gateway:
            async with patient_client(runs) as client, anyio.create_task_group() as tasks:
                told: list[list[dict[str, Any]]] = []

                async def one() -> None:
                    told.append(await gateway.ask(client))

                for _ in range(runs):
                    tasks.start_soon(one)
                await until(lambda: len(api.requests) == runs)
                refused = await client.post(f"{gateway.url}/runs", json={"question": "One more?"})
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                await watch_for_a_moment(gateway.page)
            for records in told:
                check_count(records)
            assert len(api.requests) == 2 * runs

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_the_gateway_of_the_example_on_a_cluster() -> None:
    """The same with Ray's workers: a cluster of its own, which goes with it."""

    async def main() -> None:
        with (
            ReplayServer(counting(2_000, 3_000)) as api,
            program(api, runs=4, RAY="1", RAY_ADDRESS="local") as gateway,
        ):
            async with patient_client(4) as client, anyio.create_task_group() as tasks:

                async def one() -> None:
                    check_count(await gateway.ask(client))

                for _ in range(4):
                    tasks.start_soon(one)

    anyio.run(main)


def check_count(records: list[dict[str, Any]]) -> None:
    """It has counted what `counting` asks for."""
    assert records[-1]["status"] == "completed"
    assert sorted(record["content"] for record in records if record["type"] == "tool_stop") == ["303", "430"]


async def watch_for_a_moment(page: str) -> None:
    """Read the beginning of a run as the page does, and leave without a word."""
    address, _, token = page.partition("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=20) as client:
        async with client.stream("GET", "/events") as listed:
            async for line in listed.aiter_lines():
                if line.startswith("data:"):
                    break
        assert listed.status_code == 200


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_a_client_that_vanishes_frees_the_workers() -> None:
    """Its reply is over, the tools that keep both workers busy end, and the next run has them."""

    def answer(request: Mapping[str, Any]) -> Any:
        is_long = request["messages"][0]["content"] == "long"
        below = 100_000_000 if is_long else 2_000
        return reply(*(tool_use("count_primes", {"below": below}) for _ in range(2)), message_id=f"msg_{below}")

    async def main() -> None:
        scenario = Scenario(answer, reply(text("Done.")))
        with ReplayServer(scenario) as api, program(api, runs=2) as gateway:
            async with patient_client(2) as client:
                with pytest.raises(TimeoutError), anyio.fail_after(10):
                    async with client.stream("POST", f"{gateway.url}/runs", json={"question": "long"}) as response:
                        begun = 0
                        async for line in response.aiter_lines():
                            begun += '"tool_start"' in line
                            if begun == 2:
                                raise TimeoutError
                with anyio.fail_after(30):
                    records = await gateway.ask(client, "short")
                assert [r["content"] for r in records if r["type"] == "tool_stop"] == ["303", "303"]
                with anyio.fail_after(10):  # the run of the client that vanished is still being cleaned up
                    while (await client.get(f"{gateway.url}/runs")).json()["held"]:  # noqa: ASYNC110 - it asks a server
                        await anyio.sleep(0.05)

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_a_worker_that_is_killed_loses_no_call() -> None:
    """The tool may be repeated: its call is run again in another worker, and the run never hears of it."""

    async def main() -> None:
        scenario = Scenario(reply(tool_use("count_primes", {"below": 200_000})), reply(text("Done.")))
        with ReplayServer(scenario) as api, program(api, runs=2) as gateway:
            async with patient_client(2) as client:
                killed = False
                lines: list[str] = []
                async with client.stream("POST", f"{gateway.url}/runs", json={"question": "?"}) as response:
                    async for line in response.aiter_lines():
                        lines.append(line)
                        if '"tool_start"' in line and not killed:
                            killed = True
                            for pid in gateway.workers:
                                os.kill(pid, signal.SIGKILL)
                records = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
                assert [r["content"] for r in records if r["type"] == "tool_stop"] == ["17984"]
                assert records[-1]["status"] == "completed"

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for children in /proc")
def test_a_gateway_that_is_told_to_end_ends_its_runs() -> None:
    """Within its grace, replies and workers and all; the clients see that their answer was cut."""

    async def main() -> None:
        slow = Scenario(reply(text("word " * 4_000)), timing=Timing(tokens_per_second=10))
        with ReplayServer(slow) as api:
            with program(api, runs=2) as gateway:
                async with patient_client(2) as client:
                    async with client.stream("POST", f"{gateway.url}/runs", json={"question": "?"}) as response:
                        lines = response.aiter_lines()
                        await anext(lines)
                        gateway.process.terminate()
                        with pytest.raises(httpx.TransportError), anyio.fail_after(20):
                            async for _ in lines:
                                pass
            (request,) = api.requests
            assert request.wait_ended(10)
            assert request.disconnected

    anyio.run(main)
