"""Hubs of several processes on one Redis: what each shows of the others, whatever happens to Redis and to processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest
from packages.progress.tests.made_log import MadeCall, add, made_log
from packages.progress.tests.observed import viewed
from packages.progress.tests.redis_server import RedisServer
from tests.loop.durable import World, client_of, left_at, scenario
from tests.streams import REQUEST
from tests.support import LocalAPI, until

import eagerstream
from eagerstream import tool
from eagerstream.calls import RunStatus
from eagerstream.errors import LimitError, UsageError
from eagerstream.loop import resume
from eagerstream_progress import Cancel, Decide, Hub, RunLog, Say, WatcherDropped
from eagerstream_testing import reply, text, tool_use

pytest.importorskip("redis", reason="needs the extra redis")

from eagerstream_progress.redis import RedisRelay
from eagerstream_progress.redis._mirror import Mirror
from eagerstream_progress.redis._stored import WRITE_RUN, Entry, Seal, entries_of

pytestmark = pytest.mark.anyio

SECRET = "only the processes know"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for all tests, each of which has its own prefix."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that a test may kill."""
    with RedisServer(tmp_path) as server:
        yield server


class Processes:
    """Hubs that know each other through Redis only, as those of several processes do."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.prefix = f"test-{uuid4().hex}"
        self._relays: dict[Hub, RedisRelay] = {}

    def hub(
        self, *, secret: str | None = SECRET, prefix: str | None = None, max_runs: int = 100, **options: Any
    ) -> Hub:
        relay = RedisRelay(self._server.url, secret=secret, prefix=prefix or self.prefix, **options)
        hub = Hub(relay=relay, max_runs=max_runs)
        relay.start()
        self._relays[hub] = relay
        return hub

    def keys(self, pattern: str) -> list[str]:
        return sorted(key.decode() for key in self._server.client.keys(f"{self.prefix}:{pattern}"))

    async def close(self, *hubs: Hub, timeout_s: float = 5.0) -> None:
        for hub in hubs or list(self._relays):
            await anyio.to_thread.run_sync(self._relays.pop(hub).close, timeout_s)

    async def kill(self, hub: Hub) -> None:
        """End it without writing the waiting records, and without a word to the other processes."""
        await self.close(hub, timeout_s=0)


@asynccontextmanager
async def processes(server: RedisServer) -> AsyncIterator[Processes]:
    made = Processes(server)
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await made.close(timeout_s=0.2)


def write(log: RunLog, count: int, *, chars: int = 5) -> None:
    for _ in range(count):
        add(log, {"type": "text_delta", "block": 1, "text": f"{log.seq} ".ljust(chars, "x")})


def text_of(log: RunLog) -> str:
    return viewed(log.records()).text


async def found_in(hub: Hub, run_id: str = "run_1") -> RunLog:
    """The log of a run, as soon as it is known."""
    while True:
        try:
            return await hub.find(run_id)
        except (KeyError, ConnectionError):
            await anyio.sleep(0.01)


# --- runs are seen everywhere -----------------------------------------------------------------------------------------


async def test_a_run_is_seen_in_another_process(redis: RedisServer) -> None:
    """Its facts, all its records, what comes later, and its end."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        log = made_log()
        owner.add(log)
        there = await found_in(other)
        assert there.records() == log.snapshot().records
        (summary,) = other.summaries()
        assert summary == owner.summary(log) == {
            "id": "run_1", "name": "made", "started_at": "2026-11-22T10:00:00Z", "model": "m",
            "status": None, "ended": False, "asks": False, "acts": False, "lost": False,
        }  # fmt: skip
        assert other.is_live("run_1")
        assert other.logs == []
        write(log, 500)
        call = MadeCall(log, 2, "pay")
        call.write('{"amount": 9007199254740993, "half": "\\ud83d')
        await until(lambda: there.seq == log.seq)
        assert there.snapshot().records == log.snapshot().records
        add(log, {"type": "run_stop", "status": "completed", "turns": 1, "usage": {}, "error": None, "violations": 0})
        log.close()
        await until(lambda: there.is_closed and other.summaries()[0]["ended"])
        assert other.summaries()[0]["status"] == "completed"
        assert not other.is_live("run_1")
        assert there.snapshot().records == log.snapshot().records


async def test_a_watcher_goes_on_in_another_process(redis: RedisServer) -> None:
    """From any number that another process gave, nothing comes twice or is missing."""
    async with processes(redis) as several:
        owner = several.hub()
        log = made_log()
        owner.add(log)
        await found_in(several.hub())
        for _ in range(20):
            write(log, 7)
            await anyio.sleep(0.005)
        there = await found_in(several.hub())
        await until(lambda: there.seq == log.seq)
        for after in range(20, log.seq):
            async with (
                log.watch(after=after, merges=False) as here,
                there.watch(after=after, merges=False) as elsewhere,
            ):
                assert (await anext(elsewhere)).records == (await anext(here)).records


@pytest.mark.slow
async def test_what_it_does_not_know(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such run, also with an id that is none; the runs of another prefix."""
    monkeypatch.setattr("eagerstream_progress.redis._session._COMING_S", 0.1)
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub(prefix="another-prefix")
        owner.add(made_log())
        await found_in(several.hub())
        for run_id in ("run_1", "", "x" * 100_000, "\ud800", "a\nb"):
            with pytest.raises(KeyError):
                await other.find(run_id)
            with pytest.raises(KeyError):
                await other.act(run_id, Cancel())
        assert other.summaries() == []


async def test_a_watcher_is_faster_than_the_run(redis: RedisServer) -> None:
    """A run is awaited for a moment: who has started it in one process may ask another one at once."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        found: list[RunLog] = []

        async def find() -> None:
            found.append(await other.find("run_1"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(find)
            await anyio.sleep(0.3)
            owner.add(made_log())
        assert text_of(found[0]) == "0 1 2 "


@pytest.mark.slow
async def test_the_newest_runs_are_listed(redis: RedisServer) -> None:
    """As many as a hub keeps of its own; all the others are found by their ids."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub(max_runs=3)
        for number in range(8):
            log = RunLog(f"run_{number}")
            add(log, {"type": "run_start", "run": log.id, "started_at": f"2026-11-22T10:00:0{number}Z",
                      "name": None, "model": "m"})  # fmt: skip
            owner.add(log)
        for number in range(8):
            await found_in(several.hub(), f"run_{number}")
        late = several.hub(max_runs=3)
        await until(lambda: [summary["id"] for summary in late.summaries()] == ["run_5", "run_6", "run_7"])
        assert (await other.find("run_0")).seq == 1


# --- what people do comes to the run ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_decision_in_another_process(redis: RedisServer) -> None:
    """It is asked there, and decided once, whoever decides; a reason reaches the model; messages come in order."""
    async with processes(redis) as several:
        owner, *others = several.hub(), several.hub(), several.hub()
        deleted: list[str] = []

        @tool(approve=owner.approve)
        async def delete_file(path: str) -> str:
            deleted.append(path)
            return "gone"

        calls = reply(tool_use("delete_file", {"path": "a"}), tool_use("delete_file", {"path": "b"}))
        api = LocalAPI(calls, reply(text("Done.")))
        async with (
            eagerstream.run(api.anthropic(), tools=[delete_file], **REQUEST) as run,
            anyio.create_task_group() as tasks,
        ):
            log = owner.observe(run)
            tasks.start_soon(run.finish)
            await until(lambda: len(owner.questions) == 2)
            first, second = sorted(block for _, block in owner.questions)
            there = await found_in(others[0], log.id)
            await until(lambda: all(hub.summaries() and hub.summaries()[0]["asks"] for hub in others))
            assert others[0].summaries()[0]["acts"]
            decided: list[object] = []

            async def decide(hub: Hub, approved: bool) -> None:
                try:
                    await hub.act(log.id, Decide(first, approved, "not that one"))
                    decided.append(approved)
                except KeyError:
                    decided.append(None)

            async with anyio.create_task_group() as deciding:
                for number in range(10):
                    deciding.start_soon(decide, others[number % 2], number % 3 == 0)
            assert decided.count(None) == 9
            for number in range(20):
                await others[0].act(log.id, Say(f"message {number}"))
            await others[1].act(log.id, Decide(second, approved=True))
        await until(lambda: there.is_closed)
        assert viewed(there.records()).status == "completed"
        assert ("a" in deleted) is (True in decided)
        sent = json.dumps(api.exchanges[1].body["messages"])
        assert ("not that one" in sent) is (False in decided)
        assert [sent.count(f'"message {number}"') for number in range(20)] == [1] * 20
        places = [sent.index(f'"message {number}"') for number in range(20)]
        assert places == sorted(places)
        with pytest.raises(KeyError):
            await others[0].act(log.id, Say("too late"))


@pytest.mark.slow
async def test_a_run_is_cancelled_from_another_process(redis: RedisServer) -> None:
    """The run and a single call; and messages beyond the bound are refused."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        started = anyio.Event()

        @tool
        async def wait() -> str:
            started.set()
            await anyio.sleep_forever()
            raise AssertionError

        api = LocalAPI(reply(tool_use("wait", {}), tool_use("wait", {})), reply(text("Done.")))
        async with eagerstream.run(api.anthropic(), tools=[wait], **REQUEST) as run, anyio.create_task_group() as tasks:
            log = owner.observe(run)
            tasks.start_soon(run.finish)
            await started.wait()
            there = await found_in(other, log.id)
            await until(lambda: len(viewed(there.records()).calls) == 2)
            first = viewed(there.records()).calls[0].block
            await other.act(log.id, Cancel(first, "too slow"))
            with pytest.raises(KeyError):
                await other.act(log.id, Cancel(999))
            with pytest.raises(UsageError):
                await other.act(log.id, Say("sooner", cast("Any", "yesterday")))
            for _ in range(100):
                await other.act(log.id, Say("again"))
            with pytest.raises(LimitError):
                await other.act(log.id, Say("again"))
            await other.act(log.id, Cancel())
        assert run.result.status is RunStatus.CANCELLED


@pytest.mark.slow
async def test_an_owner_that_does_not_answer(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An action fails after a time, and says so; one that is cancelled leaves nothing."""
    monkeypatch.setattr("eagerstream_progress.redis._session._ANSWER_S", 0.3)
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        owner.add(made_log())
        await found_in(other)
        await several.kill(owner)
        with pytest.raises(TimeoutError):
            await other.act("run_1", Cancel())
        with anyio.move_on_after(0.1) as scope:
            await other.act("run_1", Cancel())
        assert scope.cancelled_caught


# --- processes and Redis go away --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_dead_process_is_seen(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs are lost: after a while, or at once if it closes in order. Nobody acts on them."""
    monkeypatch.setattr("eagerstream_progress.redis._session.LEASE_S", 0.5)
    monkeypatch.setattr("eagerstream_progress.redis._session._BEAT_S", 0.1)
    async with processes(redis) as several:
        closed, killed, other = several.hub(), several.hub(), several.hub()
        closed.add(made_log("closed"))
        killed.add(made_log("killed"))
        there = [await found_in(other, name) for name in ("closed", "killed")]

        def lost() -> set[str]:
            return {summary["id"] for summary in other.summaries() if summary["lost"]}

        await anyio.sleep(1)
        assert lost() == set()
        await several.close(closed)
        await several.kill(killed)
        await until(lambda: lost() == {"closed", "killed"})
        for name in ("closed", "killed"):
            with pytest.raises(ConnectionError):
                await other.act(name, Cancel())
        assert [text_of(log) for log in there] == ["0 1 2 "] * 2  # what there was is still seen
        assert not any(log.is_closed for log in there)


async def test_redis_is_gone_for_a_while(server: RedisServer) -> None:
    """Runs go on without a delay, and are seen as lost. What came meanwhile follows, also if Redis has lost all."""
    async with processes(server) as several:
        owner, other = several.hub(), several.hub()
        log, quiet = made_log(), made_log("quiet")
        owner.add(log)
        owner.add(quiet)
        there = await found_in(other)
        await found_in(other, "quiet")
        async with there.watch(merges=False) as watcher:
            await anext(watcher)
            before = made_log("ended before")
            owner.add(before)
            before.close()
            await found_in(other, before.id)
            server.kill()
            write(log, 2_000)
            ended = made_log("ended while Redis was gone")
            owner.add(ended)
            ended.close()
            with pytest.raises(OSError, match="Redis does not answer"):
                await other.find("another")
            await anyio.sleep(0.3)
            server.start()
            seen: list[int] = []
            while not seen or seen[-1] != log.seq:
                seen += [record["seq"] for record in (await anext(watcher)).records]
            assert seen == list(range(8, log.seq + 1))
        late = several.hub()
        for each in (log, quiet, before, ended):
            assert text_of(await found_in(late, each.id)) == text_of(each)
        await until(lambda: [each["ended"] for each in late.summaries() if each["id"] == ended.id] == [True])


@pytest.mark.slow
async def test_redis_does_not_move(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it gets an error in time, and so does whoever waits while the relay closes."""
    monkeypatch.setattr("eagerstream_progress.redis._session._ANSWER_S", 1.0)
    async with processes(server) as several:
        owner, other, closing = several.hub(), several.hub(), several.hub()
        log = made_log()
        owner.add(log)
        there = await found_in(other)
        await found_in(closing)
        server.pause()
        failed: list[type[Exception]] = []

        async def fail(wait: Callable[[], Awaitable[object]]) -> None:
            try:
                await wait()
            except (OSError, UsageError) as error:
                failed.append(type(error))

        started_s = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(fail, partial(other.find, f"unknown {number}"))
                tasks.start_soon(fail, partial(other.act, "run_1", Say("x")))
                tasks.start_soon(fail, partial(closing.find, f"unknown {number}"))
            await anyio.sleep(0.2)
            tasks.start_soon(partial(several.close, closing, timeout_s=0))
            write(log, 100)
        assert len(failed) == 60
        assert anyio.current_time() - started_s < 10
        server.resume()
        await until(lambda: there.seq == log.seq)


@pytest.mark.slow
async def test_more_than_a_log_keeps(server: RedisServer) -> None:
    """If more comes than the bound while Redis is gone, a snapshot follows: a watcher begins anew, and nothing is lost."""
    async with processes(server) as several:
        owner, other = several.hub(), several.hub()
        log = made_log(max_recent=50)
        owner.add(log)
        there = await found_in(other)
        async with there.watch() as watcher:
            await anext(watcher)
            server.kill()
            write(log, 500)
            server.start()
            with pytest.raises(WatcherDropped):
                while True:
                    await anext(watcher)
        assert text_of(there) == text_of(log)
        write(log, 5)
        await until(lambda: there.seq == log.seq)
        assert there.snapshot().records == log.snapshot().records


@pytest.mark.slow
async def test_a_stream_is_bounded(redis: RedisServer) -> None:
    """A long run takes a bounded part of Redis, and those who watch it or come late see all of it."""
    async with processes(redis) as several:
        owner, other = several.hub(max_stream_bytes=20_000), several.hub()
        log = made_log()
        owner.add(log)
        there = await found_in(other)
        sizes: list[int] = []
        async with there.watch(merges=False) as watcher:
            seen = len((await anext(watcher)).records)
            for _ in range(60):
                write(log, 200)
                while there.seq != log.seq:
                    seen += len((await anext(watcher)).records)
                sizes.append(redis.client.memory_usage(f"{several.prefix}:records:run_1", samples=0))
        assert log.seq * len(json.dumps(log.snapshot().records[-1])) > 1_000_000
        assert max(sizes) < 600_000
        late = await found_in(several.hub())
        assert late.snapshot().records == there.snapshot().records == log.snapshot().records


async def test_a_run_that_another_process_continues(redis: RedisServer) -> None:
    """The records of the later process are shown, also in the first one; a position of before leads to a snapshot."""
    async with processes(redis) as several:
        first, second, other = several.hub(), several.hub(), several.hub()
        log = made_log()
        first.add(log)
        there = await found_in(other)
        log.close()
        await until(lambda: there.is_closed)
        resumed = RunLog("run_1")
        start = {"run": "run_1", "started_at": "2026-11-22T11:00:00Z", "name": None, "model": "m", "resumed_after": 1}
        add(resumed, {"type": "run_start", "seq": 1_000, "at_s": 0.0, **start})
        second.add(resumed)
        await until(lambda: not there.is_closed and there.seq == 1_000)
        async with there.watch(after=5) as watcher:
            assert (await anext(watcher)).is_snapshot
        await until(lambda: first.is_live("run_1"))
        assert (await first.find("run_1")).records() == resumed.records()


async def test_a_run_that_is_resumed_in_another_process(redis: RedisServer) -> None:
    """From its journal: a position of the first process leads to a snapshot in the second one, however long that runs."""
    async with processes(redis) as several:
        first, second, other = several.hub(), several.hub(), several.hub()
        world = World()
        with first.observing():
            journal = await left_at("request", world, world.tools())
        before = first.log("r").seq
        there = await found_in(other, "r")
        await until(lambda: there.seq == before)
        async with client_of(scenario()) as client:
            with second.observing():
                async with resume(client, journal, "r", tools=world.tools()) as run:
                    await run.finish()
        resumed = second.log("r")
        await until(lambda: there.is_closed and there.seq == resumed.seq)
        assert resumed.records()[0].get("resumed_after") == 1
        assert resumed.records()[0]["seq"] > before
        assert viewed(there.records()).status == viewed(resumed.records()).status == "completed"
        for log in (resumed, there, await first.find("r")):
            async with log.watch(after=before) as watcher:
                assert (await anext(watcher)).is_snapshot


# --- whoever reaches Redis --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_false_records(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the secret, nobody adds, changes or moves a record, or shows a run."""
    monkeypatch.setattr("eagerstream_progress.redis._session._COMING_S", 0.1)
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        log, second = made_log(), made_log("run_2", texts=9)
        owner.add(log)
        owner.add(second)
        there = await found_in(other)
        await found_in(other, "run_2")
        hostile, prefix = redis.client, several.prefix
        true = [fields[b"e"] for _, fields in hostile.xrange(f"{prefix}:records:run_1")]
        record: Any = {**log.records()[-1], "seq": 99, "text": "false"}
        false = Entry(1, 0, 99, records=[record])
        snapshot = Entry(5, 99, 99, part=0, parts=1, records=log.records())
        for entry in (false, snapshot):
            for secret in (None, "another secret of 16 chars"):
                sealed = Seal(secret, prefix).close("records:run_1", entry.encode())
                hostile.xadd(f"{prefix}:records:run_1", {"e": sealed})
        for garbage in (b"", b"\xff" * 100, b"[" * 100_000, true[0][:-1], true[0][:32] + b"[1]", true[0] + b" "):
            hostile.xadd(f"{prefix}:records:run_1", {"e": garbage})
        hostile.xadd(f"{prefix}:records:run_1", {"another": b"field"})
        for entry in true * 2:  # what was there comes again
            hostile.xadd(f"{prefix}:records:run_1", {"e": entry})
            hostile.xadd(f"{prefix}:records:run_2", {"e": entry})  # and where it is not for
        head = hostile.hget(f"{prefix}:run:run_1", "head")
        hostile.hset(f"{prefix}:run:run_3", "head", head)
        hostile.zadd(f"{prefix}:runs", {"run_3": 9e9, b"\xff": 9e9})
        for run in ("run_3", "run_1", b"\xff", ""):
            hostile.xadd(f"{prefix}:changes", {"run": run})
        write(log, 1)
        await until(lambda: there.seq == log.seq)
        late = several.hub()
        for hub in (other, late):
            assert (await found_in(hub)).snapshot().records == log.snapshot().records
            assert (await found_in(hub, "run_2")).snapshot().records == second.snapshot().records
            with pytest.raises(KeyError):
                await hub.find("run_3")
            assert {summary["id"] for summary in hub.summaries()} == {"run_1", "run_2"}


@pytest.mark.slow
async def test_unusable_keys(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the secret, somebody puts other things in the places of ours, or makes a key that cannot be written."""
    monkeypatch.setattr("eagerstream_progress.redis._session._BEAT_S", 0.05)
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        said: list[str] = []
        monkeypatch.setattr(owner, "say", lambda run_id, message, when="next_turn": said.append(message))
        logs = [made_log("run_1"), made_log("run_2")]
        for log in logs:
            owner.add(log)
        there = [await found_in(other, log.id) for log in logs]
        hostile, prefix = redis.client, several.prefix
        inboxes = several.keys("inbox:*")
        streams = [f"{prefix}:records:run_1", f"{prefix}:changes", *inboxes]
        run = f"{prefix}:run:run_1"

        def put(key: str) -> None:
            hostile.delete(key)
            hostile.set(key, "x")

        attacks: list[Callable[[], object]] = [partial(put, key) for key in (*streams, f"{prefix}:runs", run)]
        for last in ("9999999999999-0", "18446744073709551615-18446744073709551614"):
            attacks += [partial(hostile.xadd, key, {"e": "x", "run": "x"}, id=last) for key in streams]
        attacks += [
            partial(hostile.hset, run, field, value)
            for field in ("owner", "generation", "number", "head")
            for value in ("x", str(2**60))
        ]
        attacks += [partial(hostile.delete, key) for key in (*streams, f"{prefix}:runs", run)]
        attacks.append(lambda: (hostile.set(f"{prefix}:run:evil", "x"), hostile.zadd(f"{prefix}:runs", {"evil": 9e9})))
        async with there[0].watch(), there[1].watch():  # they stay
            for number, attack in enumerate(attacks):
                attack()
                for log in logs:
                    write(log, 2)
                await until(lambda: all(mirror.seq == log.seq for mirror, log in zip(there, logs, strict=True)))
                while len(said) <= number:
                    try:
                        await other.act("run_2", Say(f"after {number}"))
                    except OSError:
                        await anyio.sleep(0.05)
        assert [text_of(mirror) for mirror in there] == [text_of(log) for log in logs]
        late = several.hub()
        await until(lambda: {summary["id"] for summary in late.summaries()} == {"run_1", "run_2"})
        for log in logs:
            assert text_of(await found_in(late, log.id)) == text_of(log)


@pytest.mark.slow
async def test_what_was_true_once(redis: RedisServer) -> None:
    """The end of an earlier part of a run, an earlier head, and a command that comes late change nothing."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        log = made_log()
        owner.add(log)
        there = await found_in(other)
        log.close()
        owner.add(log)
        await until(lambda: there.is_closed and other.summaries()[0]["ended"])
        hostile, prefix = redis.client, several.prefix
        stream, run = f"{prefix}:records:run_1", f"{prefix}:run:run_1"
        ((_, end),) = hostile.xrevrange(stream, count=1)
        before = hostile.hgetall(run)
        log.reopen()
        owner.add(log)
        write(log, 5)
        await until(lambda: not there.is_closed and there.seq == log.seq)
        await until(lambda: not other.summaries()[0]["ended"])
        async with there.watch() as watcher:
            await anext(watcher)
            hostile.xadd(stream, end)
            hostile.hset(run, "head", before[b"head"])
            hostile.xadd(f"{prefix}:changes", {"run": "run_1"})
            facts = [b"claim", before[b"owner"], before[b"generation"], before[b"number"], 60_000, before[b"head"]]
            keys = [run, stream, f"{prefix}:runs", f"{prefix}:changes"]
            length = hostile.xlen(stream)
            assert hostile.eval(WRITE_RUN, 4, *keys, *facts, 0, "run_1", "", end[b"e"]) == 1
            assert hostile.xlen(stream) == length
            await anyio.sleep(0.3)
            write(log, 1)
            assert (await anext(watcher)).seq == log.seq
        assert not other.summaries()[0]["ended"]


@pytest.mark.slow
async def test_the_same_id(redis: RedisServer) -> None:
    """Of two processes that live, the first one has it. After its death, the second one's records are its own."""
    async with processes(redis) as several:
        first, second, third, other = several.hub(), several.hub(), several.hub(), several.hub()
        logs = [made_log(), made_log(texts=9), made_log(texts=20)]
        first.add(logs[0])
        there = await found_in(other)
        second.add(logs[1])
        await anyio.sleep(0.3)
        write(logs[0], 1)
        write(logs[1], 30)
        await until(lambda: there.seq == logs[0].seq)
        assert text_of(there) == text_of(logs[0])
        await several.close(first)
        third.add(logs[2])
        write(logs[2], 1)
        await until(lambda: there.seq == logs[2].seq)
        assert text_of(there) == text_of(logs[2])


@pytest.mark.slow
async def test_false_actions(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the secret, nobody decides; and what somebody with the secret has asked for cannot be asked again."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        said: list[str] = []
        monkeypatch.setattr(owner, "say", lambda run_id, message, when="next_turn": said.append(message))
        monkeypatch.setattr(owner, "decide", lambda *_, **__: said.append("decided"))
        owner.add(made_log())
        await found_in(other)
        await other.act("run_1", Say("first"))
        hostile = redis.client
        asks = [
            (key, fields)
            for key in several.keys("inbox:*")
            for _, fields in hostile.xrange(key)
            if b'"ask"' in fields[b"e"]
        ]
        ((inbox, fields),) = asks
        process = inbox.rpartition(":")[2]
        ask = json.dumps(["ask", "me", 1, "run_1", "decide", {"block": 1, "approved": True}]).encode()
        others = Seal("another secret of 16 chars", several.prefix), Seal(SECRET, "another-prefix")
        false = [ask, *(seal.close(f"inbox:{process}", ask) for seal in others)]
        false.append(Seal(SECRET, several.prefix).close("inbox:another-process", ask))
        for sealed in false:
            hostile.xadd(inbox, {"e": sealed})
        for _ in range(5):
            hostile.xadd(inbox, fields)  # again
        for number in range(5_000):
            hostile.xadd(inbox, {"e": b"x" * 100 if number % 2 else b"[" * 5_000})
        await other.act("run_1", Say("second"))
        assert said == ["first", "second"]


async def test_actions_of_another_form(redis: RedisServer) -> None:
    """A process with the secret, but of another version, gets an error, and the relay goes on."""
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        owner.add(made_log())
        await found_in(other)
        peers: Any = other._peers
        session = peers._session()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("eagerstream_progress.redis._inbox.written_action", lambda action: action)
            for path, fields, error in (
                ("unknown", {}, KeyError),
                ("decide", {"block": "1", "approved": True}, UsageError),
                ("messages", {"message": ["a"]}, UsageError),
                ("cancel", {"block": 1, "reason": "x" * 3_000}, UsageError),
            ):
                with pytest.raises(error):
                    await other.act("run_1", cast("Any", (path, fields)))
        assert session is peers._session()


# --- the life of a relay ----------------------------------------------------------------------------------------------

EXIT = """
import sys
from packages.progress.tests.made_log import made_log
from eagerstream_progress import Hub
from eagerstream_progress.redis import RedisRelay
hub = Hub(relay=RedisRelay(sys.argv[1], secret=sys.argv[2], prefix=sys.argv[3]))
log = made_log(texts=1000)
hub.add(log)
log.close()
"""

FORK = """
import os, sys, time
from packages.progress.tests.made_log import made_log
from packages.progress.tests.test_redis import write
from eagerstream_progress import Hub
from eagerstream_progress.redis import RedisRelay
relay = RedisRelay(sys.argv[1], secret=sys.argv[2], prefix=sys.argv[3])
hub = Hub(relay=relay)
parent = made_log("of the parent")
hub.add(parent)
time.sleep(1)  # a child has only a part of a module that another thread imports
if os.fork() == 0:
    log = made_log("of the child")
    hub.add(log)
    log.close()
    relay.close()
    os._exit(0)
os.wait()
write(parent, 500)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "runs"), [(EXIT, ["run_1"]), (FORK, ["of the child", "of the parent"])])
async def test_the_end_of_a_program(redis: RedisServer, program: str, runs: list[str]) -> None:
    """Its last records are written at its exit. A child after a fork has its own thread."""
    async with processes(redis) as several:
        arguments = [sys.executable, "-c", program, redis.url, SECRET, several.prefix]
        path = os.pathsep.join(each for each in sys.path if each)
        done = await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                arguments, env={**os.environ, "PYTHONPATH": path}, timeout=60, check=True, capture_output=True
            )
        )
        assert done.stderr == b""
        hub = several.hub()
        for run in runs:
            there = await found_in(hub, run)
            assert there.seq == {"run_1": 1_004, "of the parent": 507, "of the child": 7}[run]
        if runs == ["run_1"]:
            there = await hub.find("run_1")
            assert there.is_closed
            assert text_of(there) == text_of(made_log(texts=1000))


async def test_wrong_uses(redis: RedisServer) -> None:
    with pytest.raises(UsageError, match="16 characters"):
        RedisRelay(redis.url, secret="short")
    with pytest.raises(UsageError, match="prefix"):
        RedisRelay(redis.url, secret=None, prefix="")
    with pytest.raises(UsageError, match="60"):
        RedisRelay(redis.url, secret=None, keep_s=1)
    with pytest.raises(ValueError, match="redis://"):
        RedisRelay("localhost:6379", secret=None)
    relay = RedisRelay(redis.url, secret=SECRET)
    with pytest.raises(UsageError, match="needs the relay"):
        relay.start()
    hub = Hub(relay=relay)
    with pytest.raises(UsageError, match="one hub"):
        Hub(relay=relay)
    relay.close()
    relay.close()
    with pytest.raises(UsageError, match="closed"):
        hub.add(made_log())
    assert SECRET not in repr(vars(relay))


async def test_a_run_whose_id_is_too_long(redis: RedisServer) -> None:
    """It is not relayed, and harms nothing."""
    async with processes(redis) as several:
        owner = several.hub()
        for run_id in ("x" * 300, "a\nb", "\ud800"):
            owner.add(made_log(run_id))
        owner.add(made_log())
        await found_in(several.hub())
        assert several.keys("run:*") == [f"{several.prefix}:run:run_1"]


@pytest.mark.slow
async def test_idle_mirrors_are_dropped(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without watchers is not read any more. The next watcher gets all of it."""
    monkeypatch.setattr("eagerstream_progress.redis._session._IDLE_S", 0.1)
    monkeypatch.setattr("eagerstream_progress.redis._session._BEAT_S", 0.05)
    async with processes(redis) as several:
        owner, other = several.hub(), several.hub()
        log = made_log()
        owner.add(log)
        there = await found_in(other)
        async with there.watch() as watcher:
            await anext(watcher)
            await anyio.sleep(0.5)
            write(log, 1)
            assert (await anext(watcher)).seq == log.seq  # it is watched
        await anyio.sleep(0.5)
        write(log, 1)
        again = await found_in(other)
        assert again is not there
        await until(lambda: again.seq == log.seq)
        assert text_of(again) == text_of(log)


@pytest.mark.parametrize("seq", [7, 8])
async def test_parts_of_two_snapshots(seq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no snapshot, even if nothing but a part of each is left, and both have as many."""
    monkeypatch.setattr("eagerstream_progress.redis._stored._PART_CHARS", 500)
    seal = Seal(SECRET, "prefix")
    first, second = made_log(texts=3), made_log(texts=3 + seq - 7)
    write(second, 1, chars=100)
    parts = [
        [seal.close("records:run_1", entry.encode()) for entry in entries_of(log.snapshot(), 1, log.seq)]
        for log in (first, second)
    ]
    assert len(parts[0]) == len(parts[1]) == 2
    mirror = Mirror("run_1", seal)
    mirror.take(b"1-0", parts[0][0])
    mirror.take(b"1-1", parts[1][1])
    assert (mirror.log.seq, mirror.has_gap) == (0, True)
    for place, part in enumerate(parts[1]):
        mirror.take(b"2-%d" % place, part)
    assert text_of(mirror.log) == text_of(second)


@pytest.mark.slow
async def test_deleted_records(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted entries make a view late, but never false: each view is one that the run had."""
    monkeypatch.setattr("eagerstream_progress.redis._session._BEAT_S", 0.1)
    monkeypatch.setattr("eagerstream_progress.redis._stored._PART_CHARS", 500)  # a snapshot has many parts
    async with processes(redis) as several:
        owner = several.hub(max_stream_bytes=3_000)
        log = made_log()
        owner.add(log)
        views = [(0, "")]
        there = await found_in(several.hub())
        for number in range(40):
            write(log, 5)
            views.append((log.seq, text_of(log)))
            entries = redis.client.xrange(f"{several.prefix}:records:run_1")
            for entry, _ in entries[number % 5 :: 5]:
                redis.client.xdel(f"{several.prefix}:records:run_1", entry)
            late = await found_in(several.hub())
            for mirror in (there, late):
                seq, seen = mirror.seq, text_of(mirror)
                assert any(text.startswith(seen) for _, text in views), seq
        write(log, 200)  # another snapshot follows
        await until(lambda: text_of(there) == text_of(log))


@pytest.mark.slow
async def test_everything_expires(redis: RedisServer) -> None:
    """No key of a process or a run stays for ever, whether it ends in order or not."""
    async with processes(redis) as several:
        owner, other, closed = several.hub(), several.hub(), several.hub(keep_s=60)
        for hub, run_id in ((owner, "run_1"), (closed, "run_2")):
            hub.add(made_log(run_id))
        await found_in(other)
        await found_in(other, "run_2")
        with pytest.raises(KeyError):
            await other.act("run_1", Cancel())
        await several.close(closed)
        await until(lambda: all(redis.client.ttl(key) > 0 for key in several.keys("*")))
        assert len(several.keys("*")) >= 7
        assert 0 < redis.client.ttl(f"{several.prefix}:records:run_2") <= 60
        await several.kill(owner)
        assert all(redis.client.ttl(key) > 0 for key in several.keys("*"))
