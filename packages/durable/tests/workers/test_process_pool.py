"""`ProcessPool`: worker processes that come and go, and what becomes of the calls that they had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from packages.durable.tests.workers import tools
from packages.durable.tests.workers.calls import Written, a_call, answered, content, executing, lines_of
from tests.source_tree import ROOT
from tests.support import Heard, until
from tests.tables import rows

from eagerstream import UsageError, tool
from eagerstream.errors import WorkerLost
from eagerstream.tools import Tool, ToolCall
from eagerstream_durable.workers import ProcessExecutor, ProcessPool
from eagerstream_durable.workers._frames import Setup
from eagerstream_durable.workers._messages import Cancel
from eagerstream_durable.workers._process import WorkerProcess

pytestmark = pytest.mark.anyio


def _pool(**options: Any) -> ProcessPool:
    return ProcessPool(1, preload=["packages.durable.tests.workers.tools"], **options)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_life(anyio_backend_name: str, tmp_path: Path) -> None:
    """A worker is there when the pool is entered, is replaced if it is lost, and is gone when the pool is left.

    The model is told of the lost one that nobody knows what was done.
    """
    before = threading.active_count()
    async with ProcessPool(1) as pool:
        (first,) = pool.pids
        assert (pool.stats.workers, pool.stats.busy, pool.stats.waiting) == (1, 0, 0)
        executor = ProcessExecutor([tools.pid, tools.dies], pool=pool)
        assert int(content(await answered(executor, a_call("pid")))) == first != os.getpid()
        call = await answered(executor, a_call("dies", log=str(tmp_path / "log")))
        assert call.is_error
        assert content(call) == (
            "WorkerLost: the worker that ran this tool was lost (it was ended by SIGKILL): "
            "whether its work was done is not known"
        )
        assert call.response is not None
        assert call.response.code == "SERVICE_UNAVAILABLE"
        assert (tmp_path / "log").read_text().split() == [str(first)]
        second = int(content(await answered(executor, a_call("pid"))))
        assert second != first
        assert pool.pids == [second]
        assert (pool.stats.lost, pool.stats.restarted) == (1, 1)
    assert not _lives(first)
    assert not _lives(second)
    assert pool.stats.workers == 0
    if anyio_backend_name == "asyncio":  # trio keeps threads for later
        await until(lambda: threading.active_count() <= before)  # asyncio has some that wait for processes
    with pytest.raises(UsageError, match="entered once"):
        await pool.__aenter__()


@pytest.mark.slow
async def test_what_the_body_raises_passes_through() -> None:
    """An exception of the program is not wrapped in a group."""
    with pytest.raises(ValueError, match="the program's own"):
        async with _pool():
            raise ValueError("the program's own")


@pytest.mark.slow
async def test_entered_and_left_by_two_tasks() -> None:
    """As by an object with methods to start and stop."""
    pool = _pool()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.__aenter__)
    pids = pool.pids
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.__aexit__)
    assert len(pids) == 1
    assert not any(map(_lives, pids))


@pytest.mark.slow
async def test_a_pool_that_was_left() -> None:
    """A call that comes too late is answered; one that runs is cancelled, and cleans up."""
    executor: ProcessExecutor | None = None
    async with _pool() as pool:
        executor = ProcessExecutor([tools.double], pool=pool)
    call = await answered(executor, a_call("double", n=1))
    assert content(call) == "WorkerLost: the pool was left"


@pytest.mark.slow
async def test_another_event_loop() -> None:
    """A pool belongs to one event loop: a call in another thread's is told so, and touches nothing."""
    async with _pool() as pool:
        executor = ProcessExecutor([tools.double], pool=pool)
        call = await anyio.to_thread.run_sync(lambda: anyio.run(answered, executor, a_call("double", n=1)))
        assert content(call).startswith("UsageError: a pool is used in the event loop that entered it")
        assert not call.ran
        assert content(await answered(executor, a_call("double", n=2))) == "4"


@pytest.mark.slow
async def test_leaving_cancels(tmp_path: Path) -> None:
    """What runs when the pool is left is cancelled, and its cleanup runs; the call is answered."""
    log = tmp_path / "log"
    written = a_call("cleans_up", log=str(log))
    async with anyio.create_task_group() as tasks:
        async with _pool() as pool:
            executor = ProcessExecutor([tools.cleans_up], pool=pool)
            tasks.start_soon(answered, executor, written)
            await lines_of(log, 1)
    assert log.read_text().splitlines() == ["begun", "cleaned"]
    assert "whether its work was done is not known" in content(written.call)


@pytest.mark.slow
async def test_lost_worker_of_an_idempotent_tool(tmp_path: Path) -> None:
    """A call of an idempotent tool is run again, in another process, and starts only once for who watches.

    With `retries=0`, it is not run again.
    """
    starts: list[ToolCall] = []
    written = a_call("dies_once", log=str(tmp_path / "log"))
    written.call.listeners = (Heard(on_start=starts.append),)
    async with _pool() as pool:
        call = await answered(ProcessExecutor([tools.dies_once], pool=pool), written)
        once = ProcessExecutor([tools.dies_once], pool=pool, retries=0)
        assert "WorkerLost" in content(await answered(once, a_call("dies_once", log=str(tmp_path / "other"))))
    assert content(call) == "survived"
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first != second
    assert len(starts) == 1


@pytest.mark.slow
async def test_lost_worker_while_the_input_grows(tmp_path: Path) -> None:
    """What has come of the input by then is given to the next worker, and then what comes."""
    log = tmp_path / "log"
    written = Written("dies_reading")
    async with _pool() as pool:
        async with executing(ProcessExecutor([tools.dies_reading], pool=pool), written):
            written.write(f'{{"log": {json.dumps(str(log))}, "lines": ["a", "b"')
            await lines_of(log, 2)  # the second one is of the second worker
            written.write(', "c"]}')
            written.end()
    assert content(written.call) == "a,b,c"


@pytest.mark.slow
async def test_killed_from_outside(tmp_path: Path) -> None:
    """A worker without a call that is killed is replaced, and no call is lost for it."""
    async with _pool() as pool:
        os.kill(pool.pids[0], signal.SIGKILL)
        executor = ProcessExecutor([tools.logs], pool=pool)
        calls = [a_call("logs", log=str(tmp_path / "log"), name=str(number)) for number in range(3)]
        async with anyio.create_task_group() as tasks:
            for each in calls:
                tasks.start_soon(answered, executor, each)
        assert [content(each.call) for each in calls] == ["0", "1", "2"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("dies", [True, False])
async def test_a_forked_process_that_outlives_its_worker(tmp_path: Path, *, dies: bool) -> None:
    """It holds the pipes open; the worker's end shows all the same, and does not take the whole grace."""
    log = tmp_path / "log"
    try:
        with anyio.fail_after(20):
            async with _pool(cancel_grace_s=30) as pool:
                executor = ProcessExecutor([tools.leaves_a_process], pool=pool)
                call = await answered(executor, a_call("leaves_a_process", log=str(log), dies=dies))
                assert call.is_error == dies
    finally:
        for line in log.read_text().splitlines():
            os.kill(int(line), signal.SIGKILL)
        await anyio.sleep(0.05)  # the event loop sees the end of the pipe


@pytest.mark.slow
async def test_time_limit_ends_a_plain_function(tmp_path: Path) -> None:
    """A `def` that takes too long ends with its process; the next call has another one."""
    log = tmp_path / "log"
    spins = Tool(tools.spins.__wrapped__, timeout_s=0.2)
    async with _pool() as pool:
        executor = ProcessExecutor([spins, tools.double], pool=pool)
        assert "TimeoutError" in content(await answered(executor, a_call("spins", log=str(log))))
        await until(lambda: not _lives(int(log.read_text())))
        assert content(await answered(executor, a_call("double", n=1))) == "2"
        assert (pool.stats.lost, pool.stats.restarted) == (0, 1)


@pytest.mark.slow
async def test_cancellation_that_is_ignored(tmp_path: Path) -> None:
    """A tool that goes on in spite of its cancellation ends with its process when its grace is over."""
    log = tmp_path / "log"
    async with _pool() as pool:
        executor = ProcessExecutor([tools.ignores_cancellation], pool=pool, cancel_grace_s=0.1)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(executor.execute, a_call("ignores_cancellation", log=str(log)).call)
                await lines_of(log, 1)
                tasks.cancel_scope.cancel()
        await until(lambda: not _lives(int(log.read_text())))


@pytest.mark.slow
async def test_a_worker_with_other_calls_is_killed_after_them(tmp_path: Path) -> None:
    """A tool that does not end takes no other call along: its worker is left alone until these are over."""
    log, gate, stuck = tmp_path / "log", tmp_path / "gate", tmp_path / "stuck"
    async with _pool(calls_per_worker=4) as pool:
        executor = ProcessExecutor([tools.spins, tools.finishes, tools.double], pool=pool)
        other = a_call("finishes", log=str(log), gate=str(gate))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answered, executor, other)
            await lines_of(log, 1)
            with anyio.fail_after(30):
                async with anyio.create_task_group() as left:
                    left.start_soon(executor.execute, a_call("spins", log=str(stuck)).call)
                    await lines_of(stuck, 1)
                    left.cancel_scope.cancel()
            pid = int(stuck.read_text())
            assert _lives(pid)
            assert pool.stats.workers == 0
            gate.touch()
        assert content(other.call) == "finished"
        await until(lambda: not _lives(pid))
        assert content(await answered(executor, a_call("double", n=1))) == "2"


@pytest.mark.slow
async def test_a_call_that_waits_is_not_running(tmp_path: Path) -> None:
    """Its time does not pass, and it can be left; then it has not begun."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    async with _pool() as pool:
        executor = ProcessExecutor([tools.finishes, tools.sleeper], pool=pool)
        first, waits = a_call("finishes", log=str(log), gate=str(gate)), a_call("sleeper")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answered, executor, first)
            await lines_of(log, 1)
            async with anyio.create_task_group() as left:
                left.start_soon(executor.execute, waits.call)
                await until(lambda: pool.stats.waiting)
                assert not waits.call.ran
                left.cancel_scope.cancel()
            assert pool.stats.waiting == 0
            gate.touch()
        assert (waits.call.ran, waits.call.result) == (False, None)
        assert content(first.call) == "finished"


@pytest.mark.slow
async def test_too_many_wait(tmp_path: Path) -> None:
    """A call that finds too many waiting is answered at once."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    async with _pool(max_waiting=1) as pool:
        executor = ProcessExecutor([tools.finishes, tools.double], pool=pool)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answered, executor, a_call("finishes", log=str(log), gate=str(gate)))
            await lines_of(log, 1)
            tasks.start_soon(answered, executor, waits := a_call("double", n=1))
            await until(lambda: pool.stats.waiting)
            refused = await answered(executor, a_call("double", n=2))
            gate.touch()
        assert content(refused) == "Not executed: 1 calls wait for a worker already. Try again later."
        assert not refused.ran
        assert content(waits.call) == "2"


@pytest.mark.slow
async def test_executors_share_fairly(tmp_path: Path) -> None:
    """A place goes to the executor that has none, although another one's calls have waited longer."""
    log, begun, gates = tmp_path / "log", tmp_path / "begun", [tmp_path / "gate 0", tmp_path / "gate 1"]
    async with _pool(calls_per_worker=2) as pool:
        many = ProcessExecutor([tools.finishes, tools.logs], pool=pool)
        few = ProcessExecutor([tools.logs], pool=pool)
        async with anyio.create_task_group() as tasks:
            for number, gate in enumerate(gates):
                tasks.start_soon(answered, many, a_call("finishes", log=str(begun), gate=str(gate)))
                await lines_of(begun, number + 1)
            for number, (executor, name) in enumerate([(many, "many 0"), (many, "many 1"), (few, "few")]):
                tasks.start_soon(answered, executor, a_call("logs", log=str(log), name=name))
                await until(lambda: pool.stats.waiting == number + 1)  # noqa: B023 - within the turn
            gates[0].touch()
            assert await lines_of(log, 3) == ["few", "many 0", "many 1"]
            gates[1].touch()


@pytest.mark.slow
async def test_what_tools_print() -> None:
    """Neither what a tool prints nor what it writes to its standard output gets between the messages."""
    async with _pool() as pool:
        executor = ProcessExecutor([tools.prints], pool=pool)
        assert content(await answered(executor, a_call("prints", text="printed by a tool\n"))) == "printed"


@pytest.mark.skipif(sys.platform == "win32", reason="looks for descriptors")
@pytest.mark.slow
async def test_junk_between_the_messages() -> None:
    """A worker that sends what is no message is ended, and replaced."""
    async with _pool() as pool:
        executor = ProcessExecutor([tools.writes_junk, tools.double], pool=pool)
        assert "it sent" in content(await answered(executor, a_call("writes_junk")))
        assert content(await answered(executor, a_call("double", n=1))) == "2"


@pytest.mark.slow
async def test_a_result_that_is_too_large() -> None:
    """The model is told; the worker lives on."""
    async with _pool(max_message_bytes=100_000) as pool:
        executor = ProcessExecutor([tools.long_result, tools.big_progress, tools.length], pool=pool)
        call = await answered(executor, a_call("long_result", size=200_000))
        assert content(call) == "the result of the tool is larger than max_message_bytes=100000"
        written = a_call("big_progress", size=200_000)
        assert content(await answered(executor, written)) == "done"
        assert written.progress == []
        call = await answered(executor, a_call("length", text="x" * 200_000))
        assert "max_message_bytes=100000" in content(call)
        assert pool.stats.lost == 0


@pytest.mark.slow
async def test_some_tools_stay_here() -> None:
    """Which tools run in which pool is up to the program; those without one run in this process."""

    @tool
    async def local() -> int:
        """A closure runs here only."""
        return os.getpid()

    async with _pool() as one, _pool() as other:
        executor = ProcessExecutor([tools.pid, tools.double, local], pool=one, pools={"local": None, "double": other})
        assert int(content(await answered(executor, a_call("pid")))) in one.pids
        assert content(await answered(executor, a_call("local"))) == str(os.getpid())
        os.kill(one.pids[0], signal.SIGKILL)
        assert content(await answered(executor, a_call("double", n=1))) == "2"


@pytest.mark.slow
async def test_each_worker_has_its_own_copy_of_an_object() -> None:
    """Its state stays in the worker, and begins as it was when the executor was made."""
    counter = tools.Counter(0)
    async with _pool() as pool:
        executor = ProcessExecutor([counter.count_up], pool=pool)
        assert [content(await answered(executor, a_call("count_up"))) for _ in range(2)] == ["1", "2"]
        assert counter.count == 0


def test_tools_that_cannot_run_elsewhere() -> None:
    """All of them are told of when the executor is made, with the reasons."""

    @tool
    async def inner() -> str:
        """A closure."""
        return "never"

    counter = tools.Counter(0)
    counter.count = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(UsageError) as raised:
        ProcessExecutor([inner, tools.double, counter.count_up], pool=ProcessPool(1), pools={"nobody": None})
    told = str(raised.value)
    assert "inner is made inside a function" in told
    assert "count_up cannot be sent to another process: its Counter cannot be pickled" in told
    assert "'nobody', which is no tool" in told
    assert "double" not in told
    with pytest.raises(UsageError, match="inner is made inside a function"):
        ProcessPool(1, preload=[inner])


@rows("options", [{"workers": 0}, {"calls_per_worker": True}, {"cancel_grace_s": 0}])
def test_numbers_out_of_range(options: dict[str, Any]) -> None:
    """Named with what they may be."""
    with pytest.raises(UsageError, match=next(iter(options))):
        ProcessPool(**options)
    with pytest.raises(UsageError, match="retries"):
        ProcessExecutor([], retries=-1)
    with pytest.raises(UsageError, match="cancel_grace_s"):
        ProcessExecutor([], cancel_grace_s=0)


@pytest.mark.slow
async def test_a_worker_that_cannot_start() -> None:
    """Entering the pool says why; nothing is left over."""
    with pytest.raises(WorkerLost, match="No module named 'not_there_at_all'"):
        async with ProcessPool(2, preload=["not_there_at_all"]):
            pass


@pytest.mark.slow
async def test_workers_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that wait are answered, and none hangs; when workers can start again, calls run again."""
    (tmp_path / "starts_once.py").write_text(
        "from pathlib import Path\nassert not (Path(__file__).parent / 'broken').exists()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    async with ProcessPool(1, preload=["starts_once"]) as pool:
        executor = ProcessExecutor([tools.double], pool=pool)
        (tmp_path / "broken").touch()
        os.kill(pool.pids[0], signal.SIGKILL)
        call = await answered(executor, a_call("double", n=1))
        assert "no worker can be started" in content(call)
        (tmp_path / "broken").unlink()
        await until(lambda: pool.stats.workers)
        assert content(await answered(executor, a_call("double", n=1))) == "2"


# --- programs of their own --------------------------------------------------------------------------------------------

_SCRIPT = """
    import sys
    import anyio
    from eagerstream import tool
    from eagerstream_durable.workers import ProcessExecutor, ProcessPool
    from packages.durable.tests.workers.calls import a_call, answered, content, executing, lines_of

    class Answer:
        def __init__(self, n):
            self.n = n

    @tool
    def of_the_script(n: int) -> str:
        '''Say where it runs.'''
        return f"{__name__} {Answer(n).n}"

    @tool
    async def spin(log: str) -> str:
        '''Keep the event loop.'''
        import os
        from pathlib import Path
        Path(log).write_text(f"{os.getpid()}\\n")
        while True:
            pass

    async def main():
        async with ProcessPool(1, cancel_grace_s=0.5) as pool:
            executor = ProcessExecutor([of_the_script, spin], pool=pool)
            print(content(await answered(executor, a_call("of_the_script", n=3))), flush=True)
            if len(sys.argv) > 1:
                await answered(executor, a_call("spin", log=sys.argv[1]))
"""


_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}


def _program(folder: Path, *, is_guarded: bool = True) -> list[str]:
    """Return the command of the script."""
    script, start = folder / "script.py", "if __name__ == '__main__':\n    " if is_guarded else ""
    script.write_text(f"{textwrap.dedent(_SCRIPT)}\n{start}anyio.run(main)\n")
    return [sys.executable, str(script)]


def _done(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.slow
def test_tools_of_a_script(tmp_path: Path) -> None:
    """Tools that stand in the program itself run in its workers."""
    done = _done(_program(tmp_path))
    assert (done.stdout.splitlines(), done.returncode) == (["__mp_main__ 3"], 0), done.stderr


@pytest.mark.slow
def test_a_script_without_its_guard(tmp_path: Path) -> None:
    """It is told what is missing, instead of starting itself again and again."""
    done = _done(_program(tmp_path, is_guarded=False))
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="kills as on Linux")
@pytest.mark.slow
def test_a_program_that_is_killed(tmp_path: Path) -> None:
    """Its workers end, also in the middle of a tool that never awaits anything."""
    log = tmp_path / "log"
    with subprocess.Popen([*_program(tmp_path), str(log)], env=_ENVIRONMENT, stdout=subprocess.DEVNULL) as program:

        async def watch() -> int:
            (pid,) = await lines_of(log, 1)
            program.kill()
            await until(lambda: not _lives(int(pid)))
            return int(pid)

        assert not _lives(anyio.run(watch))


@pytest.mark.slow
def test_a_program_that_is_no_file() -> None:
    """Its own tools are refused before anything runs: a worker could not import them."""
    program = """
        from eagerstream import tool
        from eagerstream_durable.workers import ProcessExecutor, ProcessPool

        @tool
        def here() -> str:
            "Stand in no file."
            return ""

        ProcessExecutor([here], pool=ProcessPool(1))
    """
    done = _done([sys.executable, "-c", textwrap.dedent(program)])
    assert "UsageError: here is made in a program that is no file" in done.stderr


async def test_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool starts as many as it is told to, and is entered when all of them are ready."""
    started: list[WorkerProcess] = []

    async def run(worker: WorkerProcess, on_ready: Callable[[WorkerProcess], object]) -> None:
        started.append(worker)
        await anyio.lowlevel.checkpoint()
        on_ready(worker)
        await anyio.sleep_forever()

    monkeypatch.setattr(WorkerProcess, "run", run)
    async with ProcessPool(3) as pool:
        assert pool.stats.workers == len(started) == 3


async def test_a_call_that_is_left_while_its_tool_runs() -> None:
    """Its worker takes no further call, and is killed when the others are over; a call that has not begun is just left."""
    killed: list[bool] = []
    setup = Setup(main={}, backend="asyncio", preload=(), max_message_bytes=1000, cancel_grace_s=1)
    worker = WorkerProcess(setup, start_timeout_s=1)
    worker._process = SimpleNamespace(kill=lambda: killed.append(True))  # type: ignore[assignment]
    assert worker.close(worker.open(b""))
    left, other = worker.open(b""), worker.open(b"")
    with anyio.move_on_after(0):  # it is written all the same
        await left.send(Cancel())
    assert left.is_at_work
    assert (worker.close(left), killed) == (False, [])
    assert (worker.close(other), killed) == (False, [True])


async def test_a_worker_that_is_ready_as_the_pool_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that comes after that is answered: it does not wait for a worker that is gone."""
    pool = ProcessPool(1)

    async def run(worker: WorkerProcess, on_ready: Callable[[WorkerProcess], object]) -> None:
        try:
            on_ready(worker)
            await anyio.sleep_forever()
        finally:
            on_ready(worker)

    monkeypatch.setattr(WorkerProcess, "run", run)
    async with pool:
        pass
    call = await answered(ProcessExecutor([tools.double], pool=pool), a_call("double", n=1))
    assert content(call) == "WorkerLost: the pool was left"
