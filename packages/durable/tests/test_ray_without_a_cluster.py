"""The adapter to Ray as far as it needs no cluster."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from types import ModuleType
from typing import Any

import anyio
import pytest
from packages.durable.tests import ray_tools
from tests.tables import rows

from eagerstream import MissingExtraError, UsageError
from eagerstream.errors import WorkerLost
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream_durable.ray import RayPool, _worker as worker_module
from eagerstream_durable.ray._actor import ToolWorker
from eagerstream_durable.ray._pool import reference_to
from eagerstream_durable.ray._worker import Worker
from eagerstream_durable.workers._crossing import response_from, value_from
from eagerstream_durable.workers._messages import Begin, Cancel, Cancelled, End, Ended, FromWorker, More, Progress


@pytest.mark.slow
def test_importing_it_imports_no_ray() -> None:
    """Ray takes most of a second; a pool imports it, in a thread, when it is entered."""
    program = "import sys, eagerstream_durable.ray; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lacks ray is told what to install, when making the pool."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"eagerstream-durable\[ray\]"):
        RayPool()


@rows(
    "options",
    [{"workers": 0}, {"calls_per_worker": 1.5}, {"max_waiting": 0}, {"start_timeout_s": 0}, {"num_cpus": -1}],
)
def test_numbers_out_of_their_range(options: dict[str, Any]) -> None:
    """They are refused when the pool is made, and not by Ray in the middle of its start."""
    with pytest.raises(UsageError, match=next(iter(options)).replace("num_cpus", "CPU")):
        RayPool(**options)


def test_trio() -> None:
    """Ray knows only asyncio, which is said before anything is started."""

    async def enter() -> None:
        async with RayPool():
            pass

    with pytest.raises(UsageError, match="needs asyncio"):
        anyio.run(enter, backend="trio")


async def _heard(worker: ToolWorker, key: str, said: bytes) -> list[FromWorker]:
    """All that a call says, from what its beginning gave."""
    messages: list[FromWorker] = pickle.loads(said)
    while not isinstance(messages[-1], Ended | Cancelled):
        messages += pickle.loads(await worker.hear(key))
    return messages


def _begin(name: str, text: str) -> bytes:
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    return pickle.dumps(Begin(block, 0, 1, DEFAULT_LIMITS, text, whole=None))


@pytest.mark.slow
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_messages_out_of_their_order(order: tuple[int, ...]) -> None:
    """Ray may bring what an async actor is told in any order, even before its call's beginning."""
    messages = {1: More('"a","b'), 2: More('"]}'), 3: End(whole=True)}

    async def serve() -> list[FromWorker]:
        worker = ToolWorker()
        for number in order:
            await worker.tell("key", number, pickle.dumps(messages[number]))
        reference = reference_to(ray_tools.copy_lines)
        return await _heard(worker, "key", await worker.begin("key", reference, _begin("copy_lines", '{"lines": [')))

    heard = anyio.run(serve)
    assert [value_from(each.value) for each in heard if isinstance(each, Progress)][:2] == ["a", "b"]
    assert isinstance(heard[-1], Ended)
    assert response_from(heard[-1].response).text == "a+b"


@pytest.mark.slow
def test_progress_waits_for_who_is_slow() -> None:
    """What is not fetched stays bounded: the newest values take the place of others, and the result is not lost."""

    async def serve() -> tuple[list[FromWorker], list[FromWorker]]:
        worker = ToolWorker()
        text = f'{{"lines": [{", ".join(f"{number:04d}".join(chr(34) * 2) for number in range(1000))}'
        first = pickle.loads(await worker.begin("key", reference_to(ray_tools.copy_lines), _begin("copy_lines", text)))
        for _ in range(5_000):
            await anyio.lowlevel.checkpoint()
        waiting = pickle.loads(await worker.hear("key"))
        await worker.tell("key", 1, pickle.dumps(Cancel()))
        return first + waiting, await _heard(worker, "key", await worker.hear("key"))

    waited, rest = anyio.run(serve)
    assert len(waited) < 40
    assert len(rest) < 40
    assert isinstance(rest[-1], Cancelled)
    values = [value_from(each.value) for each in (*waited, *rest) if isinstance(each, Progress)]
    assert values == sorted(values)
    assert values[-1] == "0999"


class _Dying:
    """An actor whose death its calls report, and not (yet) the task that lasts as long as it does."""

    def __init__(self, death: Exception) -> None:
        self._death = death

    def __getattr__(self, name: str) -> _Dying:
        self._asked = name
        return self

    def remote(self, *_arguments: object) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._asked == "ready":
            answer.set_result(1)
        elif self._asked != "forever":
            answer.set_exception(self._death)
        return answer


def test_a_call_is_the_first_to_know_that_its_worker_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker counts as lost, and not as one that was left alone with a tool that does not end.

    The names of Ray that this needs are made here: importing it takes most of a second of CPU.
    """

    class RayError(Exception):
        pass

    class RayActorError(RayError):
        pass

    class ActorDiedError(RayActorError):
        pass

    class ActorUnavailableError(RayActorError):
        pass

    exceptions: Any = ModuleType("ray.exceptions")
    exceptions.RayError, exceptions.RayActorError = RayError, RayActorError
    exceptions.ActorUnavailableError = ActorUnavailableError
    ray: Any = ModuleType("ray")
    ray.exceptions, ray.is_initialized = exceptions, lambda: False
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", exceptions)
    ready = asyncio.Event()

    async def lose() -> Worker:
        monkeypatch.setattr(worker_module, "_start", lambda _options: _Dying(ActorDiedError()))
        worker = Worker({}, (), start_timeout_s=30)
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(lambda _worker: ready.set()))
            await ready.wait()
            line = worker.open(b"tool")
            await line.send(pickle.loads(_begin("echo", "{}")))
            with pytest.raises(WorkerLost, match="ActorDiedError"):
                await line.receive()
            assert not worker.close(line)  # it gets no other call
        return worker

    worker = asyncio.run(lose())
    assert worker.has_died
    assert not worker.was_ended


def test_a_call_that_ends_before_it_was_sent_leaves_its_worker_in_use() -> None:
    """Nothing of it runs there, so the worker takes the next call, and no other is started in its place."""
    worker = Worker({}, (), start_timeout_s=30)
    assert worker.close(worker.open(b"tool"))
