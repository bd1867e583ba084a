"""Watchers of a process that is told to end: each is told to connect again, after the last records of its run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from eagerstream.progress.gateway import _watching
from eagerstream.progress.gateway._running import Running
from eagerstream.progress.gateway._watching import Watchers
from eagerstream.streaming import FeedEnd
from tests.support import all_tasks_blocked

EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Counts:
    """The metrics, without prometheus_client, whose counts are those of the process."""

    def __init__(self) -> None:
        self.watched = 0
        self.running = self
        self.value = 0
        self.ended: list[str] = []

    def inc(self) -> None:
        self.value += 1

    def dec(self) -> None:
        self.value -= 1

    def count_end(self, status: str) -> None:
        self.ended.append(status)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.watched += 1
        yield
        self.watched -= 1


def _counts() -> Any:
    return Counts()


class Feed:
    """A run, as far as it is counted."""

    def __init__(self, id: str | None) -> None:
        if id is not None:
            self.id = id
        self.observers: list[Any] = []

    def observe(self, observer: Any) -> None:
        self.observers.append(observer)

    def end(self) -> None:
        for observer in self.observers:
            observer.end(FeedEnd("completed", 1, {}, None))


class Watched:
    """Some watchers, and a response that never ends by itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_watching, "_LAST_RECORDS_S", 0.01)
        monkeypatch.setattr(_watching, "_POLL_S", 0.001)
        self.counts = _counts()
        self.running = Running(self.counts)
        self.watchers = Watchers(self.running, self.counts)
        self.sent: list[Any] = []
        self.headers = EVENTS
        self.body = b"data: 1\n\n"
        self.more = anyio.Event()

    async def respond(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await self.more.wait()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def answer(self, run: str | None = None) -> None:
        await self.watchers.answer(self.respond, self.send, run=run, counts=True)


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "last"), [(b"data: 1\n\n", _watching._RESTART), (b"data: 1", b"")])
async def test_a_watcher_of_no_run_here_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, body: bytes, last: bytes
) -> None:
    """In an event of its own. Within another one, it would be taken for a part of that."""
    watched = Watched(monkeypatch)
    watched.body = body
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched.answer)
            await all_tasks_blocked()
            assert watched.counts.watched == 1
            watched.watchers.drain()
    assert watched.counts.watched == 0
    assert watched.sent[-1] == {"type": "http.response.body", "body": last, "more_body": False}


@pytest.mark.anyio
async def test_a_watcher_of_a_run_here_sees_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process waits for the run, so its watchers may, too."""
    watched = Watched(monkeypatch)
    feed = Feed("run")
    watched.running.begin(feed)
    watched.running.begin(Feed(None))  # a single request is no run
    assert watched.counts.value == 1
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched.answer, "run")
            await all_tasks_blocked()
            watched.watchers.drain()
            await anyio.sleep(0.02)
            assert len(watched.sent) == 2
            feed.end()
    assert watched.sent[-1]["more_body"] is False
    assert (watched.counts.value, watched.counts.ended) == (0, ["completed"])


@pytest.mark.anyio
async def test_a_response_that_ends_by_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is no stream of events, and one that fails."""
    watched = Watched(monkeypatch)
    watched.headers = []
    watched.watchers.drain()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watched.answer)
            await all_tasks_blocked()
            assert watched.counts.watched == 0
            watched.more.set()
    assert [message.get("body") for message in watched.sent] == [None, b"data: 1\n\n", b""]

    async def fail(_: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await watched.watchers.answer(fail, watched.send, run=None, counts=True)
