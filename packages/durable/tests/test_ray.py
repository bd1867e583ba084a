"""Tools on a real Ray cluster: two nodes on this machine, one of which is lost, as is a worker of the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.durable.tests import ray_tools
from packages.durable.tests.ray_cluster import NODE
from tests.streams import block_delta, block_stop, tool_start
from tests.support import Heard, check_history, until

import eagerstream
from eagerstream import HTTPTransport, Limits, RunResult, RunStatus, Tool, UsageError
from eagerstream.errors import WorkerLost
from eagerstream.inputs import GrowingInput
from eagerstream.tools import ToolCall
from eagerstream_durable.ray import RayExecutor, RayPool
from eagerstream_testing import Fault, FaultKind, Faults, ReplayServer, Scenario, reply, text, tool_use
from eagerstream_wire import InputAccumulator

pytestmark = [pytest.mark.slow, pytest.mark.anyio]
TOOLS: list[Tool] = [tool for tool in vars(ray_tools).values() if isinstance(tool, Tool)]
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "Go."}]}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # Ray knows no other


@pytest.fixture(scope="module")
async def pool(cluster: Any, anyio_backend: str) -> AsyncIterator[RayPool]:
    """For all tests that leave its workers alive: to start one takes five seconds."""
    async with RayPool(workers=2, num_cpus=1, preload=[ray_tools.echo]) as pool:
        yield pool


@pytest.fixture
async def own_pool(cluster: Any) -> AsyncIterator[RayPool]:
    """For a test that kills workers."""
    async with RayPool(workers=2, num_cpus=1, preload=[ray_tools.echo]) as pool:
        yield pool


class Written:
    """A call whose input is written by the test, and what it told of its progress."""

    def __init__(self, name: str, input: str | None = None, id: str = "toolu_1") -> None:
        self.accumulator = InputAccumulator(input_type=GrowingInput)
        self.accumulator.feed(tool_start(0, name, id=id))
        growing = self.accumulator.inputs[0]
        assert isinstance(growing, GrowingInput)
        self.call = ToolCall(growing, 1)
        self.progress: list[Any] = []
        self.call.listeners = (Heard(on_progress=lambda _, value: self.progress.append(value)),)
        if input is not None:
            self.write(input)
            self.end()

    def write(self, fragment: str) -> None:
        self.accumulator.feed(block_delta(0, "input_json_delta", partial_json=fragment))

    def end(self) -> None:
        self.accumulator.feed(block_stop(0))

    @property
    def said(self) -> Any:
        assert self.call.result is not None
        return self.call.result["content"]


def let_go(path: Path) -> None:
    """End the call that holds there."""
    Path(f"{path}.go").touch()


def words(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def pid_in(path: Path, line: int = -1) -> int:
    return int(words(path)[line].removeprefix("began "))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@asynccontextmanager
async def executing(executor: RayExecutor, *calls: Written) -> AsyncIterator[None]:
    """The calls run; leaving it waits for them."""
    async with anyio.create_task_group() as tasks:
        for each in calls:
            executor.admit(each.call)
        for each in calls:
            tasks.start_soon(executor.execute, each.call)
        yield


async def execute(executor: RayExecutor, *calls: Written) -> None:
    async with executing(executor, *calls):
        pass


@asynccontextmanager
async def running(server: ReplayServer, pool: RayPool, **options: Any) -> AsyncIterator[eagerstream.Run]:
    """A run over a socket, whose tools are on the cluster."""
    async with HTTPTransport(base_url=server.base_url, api_key="k") as transport:
        executor = RayExecutor(TOOLS, pool=pool)
        async with eagerstream.run(transport, tools=TOOLS, executor=executor, **options, **REQUEST) as run:
            yield run


async def test_runs_have_their_tools_on_the_cluster(pool: RayPool) -> None:
    """The whole way, three runs at once: over sockets, calls of one turn on two nodes, each answered in its place."""
    calls = [tool_use("node", {}), tool_use("node", {}), tool_use("copy_lines", {"lines": ["a", "b"]})]
    results: list[RunResult] = []

    async def finish() -> None:
        async with running(server, pool) as run:
            await run.finish()
        results.append(run.result)

    with ReplayServer(Scenario(reply(*calls), reply(text("Done.")))) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(finish)
    nodes: set[object] = set()
    for result in results:
        assert result.status is RunStatus.COMPLETED
        check_history(result.messages)
        first, second, lines = [call.result["content"] for call in result.calls if call.result]
        nodes |= {first, second}
        assert lines == "a+b"
    assert len(results) == 3
    assert len(nodes) == 2


async def test_an_input_reaches_a_remote_tool_item_by_item(pool: RayPool) -> None:
    """Each line is back as progress before the next one is written: no waiting for the end of the input."""
    lines = Written("copy_lines")
    async with executing(RayExecutor(TOOLS, pool=pool), lines):
        lines.write('{"lines": [')
        for number, line in enumerate(("one", "two", "three")):
            lines.write(f'"{line}",' if line != "three" else f'"{line}"')
            await until(lambda: len(lines.progress) > number)  # noqa: B023  # called here, and no later
            assert lines.progress[-1] == line
        lines.write("]}")
        lines.end()
    assert lines.said == "one+two+three"


@pytest.mark.parametrize("chars", [50_000, 3_000_000])
async def test_large_inputs_and_results(pool: RayPool, chars: int) -> None:
    """They cross by Ray's object store, and not within its messages."""
    call = Written("echo", f'{{"text": "{"é" * chars}"}}')
    await execute(RayExecutor(TOOLS, pool=pool), call)
    assert call.call.response is not None
    assert call.call.response.text == "é" * chars


async def test_a_run_that_is_cancelled_cancels_its_tools(pool: RayPool, tmp_path: Path) -> None:
    """The coroutine is cancelled where it is, its `finally` has run when the run is over, and the worker lives on."""
    path = tmp_path / "held"
    pids = pool.pids
    with ReplayServer(Scenario(reply(tool_use("hold", {"path": str(path)})))) as server:
        async with running(server, pool) as run:
            await until(lambda: words(path))
            run.cancel()
            await run.finish()
    assert run.result.status is RunStatus.CANCELLED
    assert words(path)[1:] == ["CancelledError", "finally"]
    assert pool.pids == pids


async def test_a_stream_that_dies_reaches_the_tool_that_reads_it(pool: RayPool, tmp_path: Path) -> None:
    """What was cut off ends a tool that streams its input there: it is told, may clean up, and what it says counts."""
    path = tmp_path / "copied"
    call = tool_use("copy_once", {"path": str(path), "lines": ["a" * 50] * 40}, fragment_chars=8)
    faults = Faults({0: [Fault(FaultKind.STALL, after_events=60)]})
    with ReplayServer(Scenario(reply(call), reply(text("Well."))), faults=faults) as server:
        limits = Limits(idle_timeout_s=5.0)  # by then it has begun, on any machine
        async with running(server, pool, limits=limits) as run:
            await run.finish()
    check_history(run.result.messages)
    (told,) = [call for call in run.result.calls if call.ran]
    assert told.is_error
    assert words(path)[1:] == ["InputInterrupted", "finally"]


async def test_a_worker_that_is_killed_in_mid_call(own_pool: RayPool, tmp_path: Path) -> None:
    """A call that may run twice runs again on the other worker; of one that may not the model learns what is known."""
    again, once = tmp_path / "again", tmp_path / "once"
    calls = [Written("hold_again", f'{{"path": "{again}"}}'), Written("hold", f'{{"path": "{once}"}}')]
    starts: list[ToolCall] = []
    calls[0].call.listeners = (Heard(on_start=starts.append),)
    async with executing(RayExecutor(TOOLS, pool=own_pool), *calls):
        await until(lambda: words(again) and words(once))
        first, other = pid_in(again), pid_in(once)
        assert first != other  # each call went to the worker with most places free
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(words(again)) == 2)
        assert pid_in(again) == other
        await until(lambda: own_pool.stats.restarted == 1 and len(starts) == 1)  # a worker's word may be lost with it
        os.kill(other, signal.SIGKILL)
        let_go(again)  # it has no second chance: that was used
    assert len(starts) == 1
    for call in calls:
        assert call.call.is_error
        assert "whether its work was done is not known" in call.said
    assert words(once) == [f"began {other}"]
    await until(lambda: own_pool.stats.workers == 2)
    assert (own_pool.stats.lost, own_pool.stats.restarted) == (2, 2)
    echoes = [Written("echo", '{"text": "x"}', id=f"toolu_{number}") for number in range(4)]
    await execute(RayExecutor(TOOLS, pool=own_pool), *echoes)
    assert [call.said for call in echoes] == ["x"] * 4


async def test_an_input_that_grows_is_told_again_to_another_worker(own_pool: RayPool, tmp_path: Path) -> None:
    """What had been written reaches the second worker from its beginning, and what comes after goes there."""
    path = tmp_path / "copied"
    lines = Written("copy_again")
    async with executing(RayExecutor(TOOLS, pool=own_pool), lines):
        lines.write(f'{{"path": "{path}", "lines": ["one",')
        await until(lambda: lines.progress == ["one"])
        os.kill(pid_in(path), signal.SIGKILL)
        await until(lambda: len(lines.progress) == 2)
        lines.write('"two"]}')
        lines.end()
    assert lines.said == "one+two"
    assert lines.progress[1] == "one"


async def test_a_node_that_is_lost(cluster: Any, tmp_path: Path) -> None:
    """Its workers are gone, its calls answered, and once there is such a node again the pool is whole again."""
    node = cluster.add_node(**NODE, resources={"cellar": 1})
    held = tmp_path / "held"
    async with RayPool(workers=1, resources={"cellar": 1}, start_timeout_s=50) as pool:
        call = Written("hold", f'{{"path": "{held}"}}')
        executor = RayExecutor(TOOLS, pool=pool)
        async with executing(executor, call):
            await until(lambda: words(held))
            await anyio.to_thread.run_sync(lambda: cluster.remove_node(node, allow_graceful=False))
        assert call.call.is_error
        assert "whether its work was done is not known" in call.said
        another = cluster.add_node(**NODE, resources={"cellar": 1})
        echo = Written("echo", '{"text": "x"}')
        await execute(executor, echo)
        assert echo.said == "x"
    await anyio.to_thread.run_sync(cluster.remove_node, another)


async def test_what_does_not_end_is_ended_with_its_worker(cluster: Any, tmp_path: Path) -> None:
    """A thread past its time limit is killed for good; the calls beside it are let finish, new ones go elsewhere."""
    stuck, held = tmp_path / "stuck", tmp_path / "held"
    async with RayPool(workers=1) as pool:
        executor = RayExecutor(TOOLS, pool=pool, cancel_grace_s=0.5)
        beside = Written("hold", f'{{"path": "{held}"}}')
        async with executing(executor, beside):
            await until(lambda: words(held))
            late = Written("busy", f'{{"path": "{stuck}"}}')
            await execute(executor, late)
            assert "did not finish within 0.3 seconds" in late.said
            echo = Written("echo", '{"text": "x"}')
            await execute(executor, echo)  # by another worker: this one takes no more
            assert is_alive(pid_in(stuck))
            let_go(held)
        assert beside.said == f"ran in {pid_in(stuck)}"
        await until(lambda: not is_alive(pid_in(stuck)))
        assert pool.stats.lost == 0


async def test_runs_share_a_pool_fairly(cluster: Any, tmp_path: Path) -> None:
    """A run with one call does not wait for all those of another one that came before."""
    over: list[str] = []

    async def one(executor: RayExecutor, call: Written) -> None:
        executor.admit(call.call)
        await executor.execute(call.call)
        over.append(call.call.id)

    async with RayPool(workers=1, calls_per_worker=2) as pool, anyio.create_task_group() as tasks:
        greedy, modest = RayExecutor(TOOLS, pool=pool, max_concurrency=100), RayExecutor(TOOLS, pool=pool)
        for name in ("first", "second"):
            tasks.start_soon(one, greedy, Written("hold", f'{{"path": "{tmp_path / name}"}}', id=name))
        for number in range(20):
            tasks.start_soon(one, greedy, Written("echo", '{"text": "x"}', id=f"greedy {number}"))
        tasks.start_soon(one, modest, Written("echo", '{"text": "x"}', id="modest"))
        await until(lambda: pool.stats.waiting == 21 and words(tmp_path / "first") and words(tmp_path / "second"))
        let_go(tmp_path / "first")
        await until(lambda: len(over) == 22)
        let_go(tmp_path / "second")
    assert over[:3] == ["first", "modest", "greedy 0"]


async def test_functions_made_inside_functions_go_along(pool: RayPool) -> None:
    """Ray carries them by value, with what they close over: no module of a worker's has them."""
    greeting = "Good morning"

    @eagerstream.tool
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"{greeting}, {name}"

    call = Written("greet", '{"name": "Ada"}')
    await execute(RayExecutor([greet], pool=pool), call)
    assert call.said == "Good morning, Ada"


async def test_a_tool_that_a_worker_cannot_import_is_answered(pool: RayPool, tmp_path: Path) -> None:
    """Code that was not brought there is an error of the call, in words that say so; the worker lives on."""
    (tmp_path / "only_here.py").write_text(
        "import eagerstream\n@eagerstream.tool\nasync def here() -> str:\n    'Here.'\n    return 'x'\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import only_here  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    call = Written("here", "{}")
    await execute(RayExecutor([only_here.here], pool=pool), call)
    assert "the worker cannot load this tool: ModuleNotFoundError: No module named 'only_here'" in call.said
    assert pool.stats.workers == 2


async def test_the_programs_connection_is_left_alone(cluster: Any) -> None:
    """Leaving a pool ends its actors and nothing else; one that cannot be entered leaves nothing behind."""
    import ray

    async with RayPool(workers=1) as pool:
        (pid,) = pool.pids
    await until(lambda: not is_alive(pid))
    assert ray.is_initialized()
    with pytest.raises(UsageError, match="connected to another"):
        async with RayPool(workers=1, address="127.0.0.1:1"):
            pass
    with pytest.raises(UsageError, match="entered once"):
        async with pool:
            pass


_DRIVER = """
import anyio, sys
from eagerstream_durable.ray import RayPool

async def main():
    async with RayPool(workers=1, address=sys.argv[1]) as pool:
        print(pool.pids[0], flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_a_program_that_is_killed_takes_its_actors_along(cluster: Any) -> None:
    """Nothing of a pool outlives its program on a cluster that goes on."""
    env = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # as `ray_cluster` does it for this process
    command = [sys.executable, "-c", _DRIVER, cluster.address]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as driver:  # noqa: ASYNC220  # told when ready
        assert driver.stdout
        pid = int(await anyio.to_thread.run_sync(driver.stdout.readline))
        assert is_alive(pid)
        driver.kill()
    await until(lambda: not is_alive(pid))


async def test_pools_by_resource(cluster: Any, pool: RayPool) -> None:
    """A tool runs where its pool has what it needs; a pool that nobody can place says what is missing."""
    async with RayPool(workers=1, resources={"gpu_box": 1}) as boxes:
        executor = RayExecutor(TOOLS, pool=pool, pools={"node": boxes})
        calls = [Written("node", "{}", id=f"toolu_{number}") for number in range(4)]
        await execute(executor, *calls)
        (box,) = {call.said for call in calls}
        assert box == cluster.list_all_nodes()[1].node_id
        with pytest.raises(WorkerLost, match="gpu_box 1 of 1"):
            async with RayPool(workers=1, resources={"gpu_box": 1}, start_timeout_s=1):
                pass
    assert pool.stats.workers == 2
