"""A gateway with several processes: real ones, real sockets, real watchers, and what happens if one of them dies."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from eagerstream.testing import ReplayServer, Scenario, Timing, reply, retime, text, tool_use
from eagerstream.wire import SSEDecoder
from tests.cli.test_commands import assert_one_line
from tests.killing import await_true
from tests.support import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets and signals"),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """uvicorn is on asyncio, and the event loop of the clients makes no difference here."""
    return "asyncio"


ROOT = Path(__file__).parents[2]
TARGET = "tests.progress.gateway_program:app"
TOKEN = {"authorization": "Bearer token-of-the-tests"}
WORDS = "word " * 40


def answer(request: Mapping[str, Any]) -> Any:
    """Ask for a deletion, or write: for a moment, or for longer than any test."""
    question = request["messages"][0]["content"]
    if len(request["messages"]) > 1:
        return reply(text("Done."))
    if question == "delete":
        return reply(tool_use("delete_file", {"path": "notes.txt"}))
    return retime(reply(text(WORDS if question == "short" else WORDS * 100)), Timing(tokens_per_second=50))


class Gateway:
    """A gateway that runs as a command."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    @property
    def workers(self) -> list[int]:
        """The processes that answer."""
        found = set()
        for _ in range(40):
            found.add(httpx.get(f"{self.url}/process", timeout=20).json()["pid"])
        return sorted(found)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over the workers."""
        lines = httpx.get(f"{self.url}/metrics", timeout=20).text.splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(f"eagerstream_gateway_{name}{{") and all(part in line for part in wanted)
        )


@contextmanager
def gateway(api: ReplayServer, *options: str, target: str = TARGET) -> Iterator[Gateway]:
    """The command, until the block ends; then it is told to end, and ends all of its processes."""
    environment = os.environ | {"ANTHROPIC_BASE_URL": api.base_url}
    command = [sys.executable, "-m", "eagerstream", "gateway", target, "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            match = re.match(r"gateway at (\S+), (\d+) process", told)
            assert match, told
            running = Gateway(process, match[1])
            await_true(lambda: len(running.workers) == int(match[2]), at_most_s=60)
            yield running
            process.terminate()
            process.wait(60)
        finally:
            process.kill()


@contextmanager
def api_double() -> Iterator[ReplayServer]:
    with ReplayServer(Scenario.of(answer)) as api:
        yield api


@pytest.fixture(scope="module")
def shared() -> Iterator[Gateway]:
    """Two processes for the tests that end none of them."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "2") as running:
        yield running


def client(**options: Any) -> httpx.AsyncClient:
    """A client whose requests reach any process: each has a connection of its own."""
    limits = httpx.Limits(max_keepalive_connections=0)
    return httpx.AsyncClient(limits=limits, timeout=30, headers=TOKEN, **options)


class Started:
    """A run, as the client that started it reads it."""

    def __init__(self, id: str, lines: AsyncIterator[str]) -> None:
        self.id = id
        self._lines = lines

    async def until(self, type: str) -> dict[str, Any]:
        """The next record of this type."""
        async for line in self._lines:
            if line.startswith("data: ") and (record := json.loads(line[6:]))["type"] == type:
                return dict(record)
        raise AssertionError(f"there is no {type}")

    async def rest(self) -> list[dict[str, Any]]:
        """Its other records."""
        return [json.loads(line[6:]) async for line in self._lines if line.startswith("data: ")]


@asynccontextmanager
async def started(url: str, question: str) -> AsyncIterator[Started]:
    async with client() as starter, starter.stream("POST", f"{url}/runs", json={"question": question}) as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        async for line in lines:
            if line.startswith("data: "):
                yield Started(json.loads(line[6:])["run"], lines)
                return


async def pid_of(url: str, run: str) -> int:
    """The process of a run: whichever process gets this request, the one of the run answers it."""
    async with client() as asking:
        return int((await asking.get(f"{url}/process/{run}")).json()["pid"])


async def decide(url: str, run: Started, **decision: Any) -> None:
    """Decide about the call of a run, once it asks: a watcher is told when that is."""
    decision["block"] = (await run.until("input_stop"))["block"]
    async with client() as deciding:
        with anyio.fail_after(30):
            while True:
                decided = await deciding.post(f"{url}/watch/runs/{run.id}/decide", json=decision)
                if decided.status_code != 409:
                    break
    assert decided.status_code == 204


async def watch(url: str, run: str) -> tuple[list[dict[str, Any]], str]:
    """The records that a watcher gets, and the last event."""
    records: list[dict[str, Any]] = []
    decoder = SSEDecoder()
    async with (
        client() as watching,
        watching.stream("GET", f"{url}/watch/events", params={"run": run}) as response,
    ):
        assert response.status_code == 200
        async for chunk in response.aiter_bytes():
            for event in decoder.feed(chunk):
                if event.event == "records":
                    records += json.loads(event.data)["records"]
                if event.event in ("end", "gone", "restart"):
                    return records, event.event
    return records, ""


# --- watchers and decisions -------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_watchers_reach_a_run_in_any_process(shared: Gateway) -> None:
    """Of twelve, some are accepted by the other process; all get the same records, to the end."""
    before = shared.metric("requests_forwarded_total")
    async with started(shared.url, "short") as run:
        watched: list[tuple[list[dict[str, Any]], str]] = []

        async def one() -> None:
            watched.append(await watch(shared.url, run.id))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(one)
            records = await run.rest()
    assert records[-1]["status"] == "completed"
    for seen, last in watched:
        assert last == "end"
        assert "".join(one["text"] for one in seen if one["type"] == "text_delta") == WORDS
        assert seen[-1]["type"] == "run_stop"
    # The kernel chooses who accepts a connection, so there is no number of them of which one is surely forwarded.
    for _ in range(100):
        if shared.metric("requests_forwarded_total") > before:
            break
        await watch(shared.url, run.id)
    assert shared.metric("requests_forwarded_total") > before
    await until(lambda: shared.metric("watchers") == 0)


@pytest.mark.anyio
@pytest.mark.parametrize("approved", [True, False])
async def test_a_decision_reaches_the_run(shared: Gateway, approved: bool) -> None:
    """One of eight runs each time, so that some of the decisions are accepted by the other process."""
    before = shared.metric("requests_forwarded_total")
    for _ in range(8):
        async with started(shared.url, "delete") as run:
            await decide(shared.url, run, approved=approved, reason="keep it")
            (stop,) = [record for record in await run.rest() if record["type"] == "tool_stop"]
            assert ("deleted notes.txt" in str(stop["content"])) == approved
            assert approved or "keep it" in str(stop["content"])
    assert shared.metric("requests_forwarded_total") > before


@pytest.mark.anyio
async def test_messages_and_cancellation_reach_the_run(shared: Gateway) -> None:
    """Through new connections, until both processes have accepted one."""
    async with started(shared.url, "long") as run, client() as speaking:
        before = shared.metric("requests_forwarded_total")
        said = 0
        while not said or shared.metric("requests_forwarded_total") == before:
            message = {"message": "And?", "when": "when_idle"}
            answered = await speaking.post(f"{shared.url}/runs/{run.id}/messages", json=message)
            assert (answered.status_code, answered.json()) == (202, {})
            said += 1
        refused = await speaking.post(f"{shared.url}/runs/{run.id}/messages", json={"message": 5})
        assert refused.json() == {"error": "message: a text is required"}
        assert (await speaking.post(f"{shared.url}/runs/{run.id}/cancel", json={})).status_code == 202
        assert (await run.rest())[-1]["status"] == "cancelled"
        assert (await speaking.post(f"{shared.url}/runs/{run.id}/cancel", json={})).status_code == 404


@pytest.mark.anyio
async def test_a_client_that_leaves_is_noticed_by_the_process_of_the_run(shared: Gateway) -> None:
    """Watchers that were passed on are counted where the run is: the count falls as they leave."""
    await until(lambda: shared.metric("watchers") == 0)
    async with started(shared.url, "long") as run:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(watch, shared.url, run.id)
            await until(lambda: shared.metric("watchers") == 8)
            tasks.cancel_scope.cancel()
        await until(lambda: shared.metric("watchers") == 0)
    await until(lambda: shared.metric("runs_running") == 0)


@pytest.mark.anyio
async def test_the_address_of_the_client_is_passed_on(shared: Gateway) -> None:
    """An application that limits clients by their address sees it, and no client can claim another one."""
    async with started(shared.url, "long") as run, client() as asking:
        before = shared.metric("requests_forwarded_total")
        while shared.metric("requests_forwarded_total") == before:
            told = await asking.get(f"{shared.url}/process/{run.id}")
            assert told.json()["client"] == "127.0.0.1"


# --- attacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    "id",
    [
        "0123abcd-" + "5" * 32,
        "../../../../etc/passwd",
        "..%2f..%2f0123abcd-" + "5" * 32,
        "0123abcd-" + "5" * 31 + "/",
        "%00" + "0123abcd-" + "5" * 32,
    ],
)
async def test_runs_that_never_were(shared: Gateway, id: str) -> None:
    """Of a process that never was, or of no process at all: nothing hangs, and nothing else is opened."""
    async with client() as asking:
        assert (await asking.post(f"{shared.url}/runs/{id}/messages", json={"message": "?"})).status_code in (404, 405)
    assert await watch(shared.url, id) == ([], "gone")


@pytest.mark.anyio
async def test_a_large_body_is_refused_by_the_process_of_the_run(shared: Gateway) -> None:
    """It is passed on as it comes, and its sender is refused as soon as it is too large."""
    async with started(shared.url, "long") as run, client() as speaking:
        for _ in range(6):
            big = {"block": 0, "approved": True, "reason": "x" * 100_000}
            refused = await speaking.post(f"{shared.url}/watch/runs/{run.id}/decide", json=big)
            assert refused.status_code == 413


def test_the_token_of_the_application_is_asked_for(shared: Gateway) -> None:
    """Whichever process accepts the request, and before anything is said about a run."""
    for _ in range(6):
        assert httpx.get(f"{shared.url}/watch/events", params={"run": "0123abcd-" + "5" * 32}).status_code == 401


def test_nobody_else_may_open_the_sockets(shared: Gateway) -> None:
    """They are in a folder of this user's: who opens one could decide about calls without a token of the application."""
    (folder,) = {
        Path(line.split()[-1]).parent
        for line in Path("/proc/net/unix").read_text().splitlines()
        if "/eagerstream-" in line and line.endswith(".sock") and _belongs(line.split()[-1], shared)
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == os.getuid()


def _belongs(path: str, shared: Gateway) -> bool:
    metrics = httpx.get(f"{shared.url}/metrics").text
    return f'worker="{Path(path).stem}"' in metrics


# --- death and restart ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_killed_process_takes_only_its_own_runs() -> None:
    """Its clients are cut, its watchers are told that the run is gone, a new process starts, and other runs end well."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "2") as running:
        ends: dict[str, str] = {}
        pids: dict[str, int] = {}
        seen: dict[str, str] = {}
        killed = anyio.Event()

        async def converse() -> None:
            async with started(running.url, "delete") as run:
                pids[run.id] = await pid_of(running.url, run.id)
                await killed.wait()
                if pids[run.id] != victim:
                    await decide(running.url, run, approved=True)
                try:
                    ends[run.id] = (await run.rest())[-1]["status"]
                except httpx.TransportError:
                    ends[run.id] = "cut"

        async def follow(id: str) -> None:
            while not seen.get(id):  # as a client does, which connects again
                try:
                    seen[id] = (await watch(running.url, id))[1]
                except httpx.TransportError:
                    pass

        async with anyio.create_task_group() as tasks:
            while len(pids) < 16 or len({*pids.values()}) < 2:  # a busy machine may give many to one process
                count = len(pids)
                tasks.start_soon(converse)
                await until(lambda: len(pids) > count)  # noqa: B023  # at once
            for id in (*pids, *pids):
                tasks.start_soon(follow, id)
            await until(lambda: running.metric("watchers") == 2 * len(pids))
            victim = min(pids.values())
            os.kill(victim, signal.SIGKILL)
            killed.set()
        assert ends == {id: "cut" if pid == victim else "completed" for id, pid in pids.items()}
        assert seen == {id: "gone" if pid == victim else "end" for id, pid in pids.items()}
        await_true(lambda: len(running.workers) == 2, at_most_s=90)
        assert victim not in running.workers
        assert running.metric("runs_running") == 0
        assert running.metric("runs_ended_total", status="completed") == list(ends.values()).count("completed")
        async with started(running.url, "short") as run:
            assert (await run.rest())[-1]["status"] == "completed"


@pytest.mark.anyio
async def test_a_process_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on with their runs, and it is tried again until it starts."""
    failures = tmp_path / "failures"
    monkeypatch.setenv("FAILURES", str(failures))
    target = "tests.progress.gateway_program:fails_at_times"
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "2", target=target) as running:
        async with started(running.url, "delete") as run:
            owner = await pid_of(running.url, run.id)
            [victim] = {*running.workers} - {owner}
            failures.touch()
            os.kill(victim, signal.SIGKILL)
            await until(lambda: failures.stat().st_size > 1)
            await decide(running.url, run, approved=True)
            assert (await run.rest())[-1]["status"] == "completed"
        failures.unlink()
        await_true(lambda: len({*running.workers} - {victim}) == 2, at_most_s=60)


@pytest.mark.anyio
async def test_a_restart_cuts_no_run() -> None:
    """SIGHUP replaces both processes, one after the other. Runs end first, new ones are accepted all the time."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "30") as running:
        old = running.workers
        ends: list[str] = []
        lasts: list[str] = []
        is_over = False

        async def converse() -> None:
            async with started(running.url, "short") as run, anyio.create_task_group() as tasks:
                tasks.start_soon(follow, run.id)
                ends.append((await run.rest())[-1]["status"])

        async def follow(id: str) -> None:
            """Continue through another process if this one is about to end, as clients do."""
            while (last := (await watch(running.url, id))[1]) == "restart":
                pass
            lasts.append(last)

        async def go_on() -> None:
            while not is_over:
                await converse()

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(go_on)
            await until(lambda: running.metric("runs_running") >= 6)
            running.process.send_signal(signal.SIGHUP)
            with anyio.fail_after(120):
                while set(old) & set(running.workers):  # noqa: ASYNC110  # of other processes
                    await anyio.sleep(0.1)
            is_over = True
        assert set(ends) == {"completed"}
        assert set(lasts) <= {"end", "gone"}  # gone: it asked after the process had ended
        assert lasts.count("end") > len(lasts) / 2


@pytest.mark.anyio
async def test_the_end_does_not_wait_for_a_restart() -> None:
    """While the restart waits for the runs of one process, SIGTERM reaches the other one, too."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "60") as running:
        async with AsyncExitStack() as stack:
            pids: dict[str, int] = {}
            while len(set(pids.values())) < 2:
                run = await stack.enter_async_context(started(running.url, "delete"))
                pids[run.id] = await pid_of(running.url, run.id)
            watched: list[int] = []
            told: list[int] = []

            async def follow() -> None:
                async with httpx.AsyncClient(headers=TOKEN, timeout=60) as own:  # one connection, so one process
                    pid = (await own.get(f"{running.url}/process")).json()["pid"]
                    async with own.stream("GET", f"{running.url}/watch/events") as response:
                        lines = response.aiter_lines()
                        await anext(lines)
                        watched.append(pid)
                        assert "event: restart" in [line async for line in lines]
                        told.append(pid)

            async with anyio.create_task_group() as tasks:
                while len({*watched}) < 2:
                    count = len(watched)
                    tasks.start_soon(follow)
                    await until(lambda: len(watched) > count)  # noqa: B023  # at once
                running.process.send_signal(signal.SIGHUP)
                await until(lambda: told)
                assert len({*told}) == 1
                running.process.terminate()
                await until(lambda: sorted(told) == sorted(watched))


@pytest.mark.anyio
async def test_watchers_are_told_of_the_end() -> None:
    """One that watches the list of runs would hold a process until its grace is over."""
    with api_double() as api, gateway(api, "--workers", "1", "--grace-s", "60") as running:
        decoder = SSEDecoder()
        names: list[str] = []
        async with client() as watching, watching.stream("GET", f"{running.url}/watch/events") as response:
            async for chunk in response.aiter_bytes():
                names += [event.event for event in decoder.feed(chunk)]
                if names == ["runs"]:
                    running.process.terminate()
        assert names == ["runs", "restart"]
        with anyio.fail_after(30):
            await anyio.to_thread.run_sync(running.process.wait)


@pytest.mark.anyio
async def test_runs_that_take_too_long_are_cancelled() -> None:
    """Over the grace time, their connections to the API are closed, and the clients see that the answer is cut."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "1") as running:
        async with started(running.url, "long") as run:
            running.process.terminate()
            with pytest.raises(httpx.TransportError), anyio.fail_after(40):
                await run.rest()
        (request,) = api.requests
        assert request.wait_ended(20)
        assert request.disconnected


def test_workers_end_with_their_supervisor() -> None:
    """Killed, it cannot tell them; they must not keep the port."""
    with api_double() as api, gateway(api, "--workers", "2", "--grace-s", "1") as running:
        workers = running.workers
        running.process.kill()
        running.process.wait()
        await_true(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


# --- several machines -------------------------------------------------------------------------------------------------


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis of the tests' own, with a password; its URL."""
    program = shutil.which("redis-server")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("needs redis-server")
        pytest.skip("needs redis-server")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "secret-of-redis"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Ready to accept connections" in line for line in process.stdout)
            yield f"redis://:secret-of-redis@127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.mark.anyio
async def test_gateways_of_two_machines(tmp_path: Path) -> None:
    """Each reaches the runs of the other by its URL in Redis. A run whose machine is unknown is not called gone."""
    with redis_server(tmp_path) as redis, api_double() as api:
        options = ["--workers", "2", "--grace-s", "1", "--redis", redis]
        with gateway(api, *options) as first, gateway(api, *options) as second:
            async with started(first.url, "delete") as run:
                watched: list[Any] = []

                async def follow() -> None:
                    watched.append(await watch(second.url, run.id))

                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(follow)
                    await decide(second.url, run, approved=True)
                    records = await run.rest()
            assert records[-1]["status"] == "completed"
            assert [last for _, last in watched] == ["end"] * 4
            assert {seen[-1]["type"] for seen, _ in watched} == {"run_stop"}
            assert await watch(second.url, "0123abcd-" + "5" * 32) == ([], "gone")


@pytest.mark.anyio
async def test_a_process_that_starts_without_redis(tmp_path: Path) -> None:
    """It has its name and its socket, and registers when Redis is back."""
    with api_double() as api, ExitStack() as stack:
        redis = stack.enter_context(redis_server(tmp_path))
        with gateway(api, "--workers", "2", "--grace-s", "1", "--redis", redis) as running:
            victim = running.workers[0]
            stack.close()
            os.kill(victim, signal.SIGKILL)
            await_true(lambda: len({*running.workers} - {victim}) == 2, at_most_s=60)
            pids: set[int] = set()
            while len(pids) < 2:
                async with started(running.url, "delete") as run:
                    pids.add(await pid_of(running.url, run.id))
                    await decide(running.url, run, approved=True)
                    assert (await run.rest())[-1]["status"] == "completed"
                assert "-" in run.id  # with the name of its process


def test_a_redis_that_does_not_answer_is_told_without_its_password() -> None:
    """In one line, before any worker starts."""
    with api_double() as api:
        environment = os.environ | {
            "ANTHROPIC_BASE_URL": api.base_url,
            "EAGERSTREAM_REDIS_URL": "redis://:secret@127.0.0.1:1",
        }
        command = [sys.executable, "-m", "eagerstream", "gateway", TARGET, "--port", "0"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "eagerstream: Redis does not answer (ConnectionError)\n"


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--redis", "http://localhost"], "the URL of Redis begins with"),
        (["--advertise", "http://localhost"], "--advertise is for --redis"),
        (["--host", ""], "a host is needed to listen on"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(options: list[str], words: str) -> None:
    """Here by the command. tests/cli/test_gateway.py has more of it, without a process."""
    environment = os.environ | {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    command = [sys.executable, "-m", "eagerstream", "gateway", TARGET, "--port", "0", *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert_one_line(done, 2, words)


@pytest.mark.parametrize("name", ["fails_to_load", "fails_to_start"])
def test_processes_that_cannot_start(name: str) -> None:
    """The command ends, and says so, instead of trying it for ever."""
    environment = os.environ | {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    target = f"tests.progress.gateway_program:{name}"
    command = [sys.executable, "-m", "eagerstream", "gateway", target, "--port", "0", "--workers", "2"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "there is no database" in done.stderr
    assert done.stderr.endswith("eagerstream: a worker could not start: see its messages above\n")


def test_one_process_is_a_plain_server_of_a_factory() -> None:
    """Without a supervisor and sockets. Metrics can be left out: the path is then the application's."""
    with (
        api_double() as api,
        gateway(api, "--no-metrics", target="tests.progress.gateway_program:make") as running,
    ):
        assert running.workers == [running.process.pid]
        assert httpx.get(f"{running.url}/metrics").status_code == 404
