"""`ProcessSandbox`: statements in a process of their own."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from packages.toolkit.tests._code.sessions import FUNCTIONS, SLOWLY_S, Host, cancelled, opened, ran, ran_in, run
from packages.toolkit.tests.bash_support import descriptors
from tests.killing import await_true, killed, program
from tests.source_tree import ROOT
from tests.support import until
from tests.tables import rows

from eagerstream._support.sessions import _marked, is_alive
from eagerstream.errors import ToolError, UsageError
from eagerstream_toolkit._code.process import ProcessSandbox
from eagerstream_toolkit._code.sandbox import CodeSession, StatementEnd, StatementResult

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(anyio_backend: str) -> AsyncIterator[CodeSession]:
    """One process for all tests that do not end it: starting one takes as long as ten tests."""
    opened = await ProcessSandbox(grace_s=SLOWLY_S).open(FUNCTIONS)
    yield opened
    opened.close()


# --- what code can do -------------------------------------------------------------------------------------------------


async def test_tasks_continue_between_statements_and_end_with_the_call(session: CodeSession) -> None:
    """A task calls tools while the program waits for the next statement. At the end its `finally` runs."""
    code = """\
async def forever():
    try:
        await echo(1)
        await wait()
    finally:
        print("over")
task = asyncio.create_task(forever())
"""
    host = Host()
    async with session.serve(host):
        await run(session, code)
        await host.waits.wait()
        value = await session.finish()
    assert value.cancelled_tasks == 1
    assert host.calls == [("echo", {"value": 1}), ("wait", {})]
    assert host.cancelled == ["wait"]
    assert host.output == "over\n"


_VALUES: Final[list[tuple[str, str, Any]]] = [
    ("x = 1", "", None),
    ("None", "", None),
    ("'as it is'", "as it is", "as it is"),
    ("(1, 'a')", "(1, 'a')", [1, "a"]),
    ("1; 2", "2", 2),
    ("{1}", "{1}", None),
    ("float('nan')", "nan", None),
    (r"'\ud800'", "?", "?"),
    ("x = []; x.append(x); x", "[[...]]", None),
    ("import sys\nsys.stdout.buffer.write(b'x')", "1", 1),
    (
        "class A:\n    def __repr__(self): return 1 / 0\nA()",
        "<A whose text cannot be made: ZeroDivisionError>",
        None,
    ),
    ("'é' * 100_001", "é" * 100_000 + "... (100001 characters)", "é" * 100_001),
    ("type(__name__), __name__", "(<class 'str'>, '__main__')", None),
    ("from __future__ import annotations\ndef f(a: b): ...\nf.__annotations__", "{'a': 'b'}", {"a": "b"}),
    ("5\n  \\\n\n", "5", 5),
    ("import contextvars\nv = contextvars.ContextVar('v')\nt = v.set(3)\nv.get()", "3", 3),
    ("import pickle\nclass A: ...\npickle.loads(pickle.dumps(A)) is A", "True", True),
    ("import inspect\n\ndef f():\n    return 1\n\ninspect.getsource(f)", "def f():\n    return 1\n", ...),
    ("try:\n    await fail()\nexcept ToolError as error:\n    x = str(error)\nx", "it failed", "it failed"),
]
_ERRORS: Final = [
    ("x = 1\n\nx x", "invalid", "SyntaxError: invalid syntax (line 3)\n    x x"),
    ("x = 1\n\nx = (1,\n 2]", "invalid", "does not match opening parenthesis '(' on line 3 (line 4)"),
    ("return 1", "invalid", "SyntaxError: 'return' outside function (line 1)\n    return 1"),
    ("x = '\0'", "invalid", "source code string cannot contain null bytes"),
    (
        "def f(x):\n    return 1 / x\n\n\nasync def g():\n    return f(0)\nawait g()",
        "raised",
        "line 7\n    await g()\n  line 6, in g\n    return f(0)\n  line 2, in f\n    return 1 / x\nZeroDivisionError",
    ),
    (
        "import json\njson.loads('{')",
        "raised",
        "Traceback:\n  line 2\n    json.loads('{')\njson.decoder.JSONDecodeError",
    ),
    ("\n\nawait fail()", "raised", "Traceback:\n  line 3\n    await fail()\nToolError: it failed"),
    ("import sys\nsys.exit('done')", "raised", "SystemExit: done"),
    ("exit('done')", "raised", "SystemExit: done"),
    ("raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
    ("raise asyncio.CancelledError", "raised", "CancelledError"),
    ("def f(): f()\nf()", "raised", "... 9"),
    ("await echo({1})", "raised", "TypeError: the arguments of echo() must have a JSON form"),
    ("await echo(1, 2, 3)", "raised", "TypeError: echo() takes 2 arguments but 3 were given"),
    ("await echo(1, value=2)", "raised", "TypeError: echo() got multiple values for argument 'value'"),
    ("await echo('x' * 5_000_000)", "raised", "ValueError: the arguments of echo() are longer than"),
    ("input()", "raised", "EOFError"),
    ("raise ValueError('x' * 9_000)", "raised", "xxx... (9000 characters)"),
    (
        "class E(Exception):\n    def __str__(self): return self.x\nraise E",
        "raised",
        "E: <E whose text cannot be made",
    ),
    (
        "async with asyncio.timeout(0):\n    await wait()",
        "raised",
        "Traceback:\n  line 1\n    async with asyncio.timeout(0):\nTimeoutError",
    ),
    (
        "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('bad') from error",
        "raised",
        "ZeroDivisionError: division by zero\nThe exception above was the cause of:\nTraceback:\n  line 4\n",
    ),
    (
        "async with asyncio.TaskGroup() as group:\n    t = group.create_task(fail())",
        "raised",
        "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  1 of 1:\n    ToolError: it failed",
    ),
]


async def test_the_value_of_the_last_expression(session: CodeSession) -> None:
    """A string as it is, anything else as its `repr`, with its JSON form if it has one."""
    for code, text, data in _VALUES:
        async with session.serve(Host()):
            assert await run(session, code) == StatementResult(StatementEnd.DONE)
            value = await session.finish()
        assert (code, value.text, value.data) == (code, text, text if data is ... else data)


async def test_errors_in_terms_of_the_code(session: CodeSession) -> None:
    """Lines, source and functions are those of the code, without those of the worker and of libraries."""
    for code, end, text in _ERRORS:
        async with session.serve(Host()):
            result = await run(session, code)
        assert (code, result.end) == (code, StatementEnd(end))
        assert text in result.text
        assert 'File "' not in result.text
        assert len(result.text) < 3_000


async def test_all_output_comes_in_its_order_before_the_end(session: CodeSession) -> None:
    """Also that of other programs, of a line without an end, and of a warning."""
    code = """\
import subprocess, sys
print("a", end="")
print("b", file=sys.stderr)
x = subprocess.run(["sh", "-c", "echo c; echo d >&2"])
echo()
print("e", end="")
"""
    _, _, host = await ran_in(session, code)
    assert host.output.replace("ab\n", "", 1).startswith("c\nd\n")
    assert "RuntimeWarning: coroutine 'echo' was never awaited" in host.output
    assert host.output.endswith("e")


@pytest.mark.slow
async def test_finalizers_that_print() -> None:
    """They may run while a line is being written."""
    code = """\
class A:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("over")
for _ in range(1000):
    a = A()
    print("x" * 1000)
del a
import gc; x = gc.collect()
"""
    _, _, host = await ran(ProcessSandbox(), code)
    assert host.output.count("over\n") == 1000
    assert host.output.count("x" * 1000 + "\n") == 1000


# --- its end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("while True:\n        n += 1", id="spins"),
        pytest.param("time.sleep(1000)", id="sleeps"),
        pytest.param("await wait()", id="waits for a tool"),
        pytest.param("await asyncio.gather(wait(), asyncio.sleep(1000))", id="waits for several things"),
        pytest.param("while True:\n        print('x' * 5000, end='')", id="prints"),
        pytest.param("subprocess.run(['sleep', '1000'])", id="waits for a program"),
    ],
)
async def test_cancelled_code(session: CodeSession, body: str) -> None:
    """Its `finally` runs, also if it awaits. Nothing is lost, and the next statement runs."""
    code = f"""\
import subprocess, time; n = 0
try:
    print("begun")
    {body}
finally:
    print()
    await asyncio.sleep(0.001)
    print("cleaned", await echo("up"))
"""
    host = Host()
    async with session.serve(host):
        await cancelled(session, code, host.printed.wait)
        assert not session.has_ended
        assert host.output.endswith("\ncleaned {'value': 'up'}\n")
        assert (await run(session, "n = 7\nn")).end is StatementEnd.DONE
        assert (await session.finish()).data == 7


@pytest.mark.slow
async def test_a_task_that_keeps_the_loop_busy() -> None:
    """It is interrupted, too: the statement behind it could never start."""
    code = """\
async def spin():
    print("begun")
    while True:
        pass
task = asyncio.create_task(spin())
x = 1
"""
    host = Host()
    async with opened(ProcessSandbox(grace_s=20)) as session:
        async with session.serve(host):
            await cancelled(session, code, host.printed.wait)
            assert not session.has_ended
            assert (await session.finish()).cancelled_tasks == 0


async def test_a_call_of_run_code_that_is_cancelled(session: CodeSession) -> None:
    """When `serve` is left by a cancellation, no task and no tool runs any more, and the variables are kept."""
    host = Host()
    with anyio.CancelScope() as scope:
        async with session.serve(host):
            await run(session, "n = 3\nasync def f():\n    await wait()\ntask = asyncio.create_task(f())\n")
            await host.waits.wait()
            scope.cancel()
            await run(session, "await wait()")
    assert host.cancelled.count("wait") == len([name for name, _ in host.calls if name == "wait"])
    async with session.serve(host):
        assert (await run(session, "task.cancelled(), n")).end is StatementEnd.DONE
        assert (await session.finish()).data == [True, 3]


@pytest.mark.slow
async def test_asyncio_itself_cancels(session: CodeSession, anyio_backend: str) -> None:
    """A cancellation that anyio does not know of runs `finally` blocks, too."""
    if anyio_backend != "asyncio":
        pytest.skip("trio has no other means")
    host = Host()
    async with session.serve(host):
        task = asyncio.ensure_future(run(session, "try:\n    await wait()\nfinally:\n    print('over')"))
        await host.waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.output == "over\n"
        assert not session.has_ended


_WRITES = """\
import contextlib, os
for fd in range(3, 20):
    with contextlib.suppress(OSError):
        x = os.write(fd, {!r} + b"\\n")
"""
"""Writes a line into each descriptor, the pipe of the messages among them."""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os._exit(3)", "it exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by SIGKILL, perhaps because memory ran out"),
        ("import os; os.abort()", "it was ended by SIGABRT"),
        ("import os; os.closerange(3, 100)", "lost, with all variables"),
        *(
            (_WRITES.format(line), "it sent what is no message")
            for line in (
                b"{}",
                b"x",
                b"[]",
                b"\xff",
                b"[" * 100_000,
                b"9" * 5_000,
                b'{"print": 1}',
                b'{"print": "\\ud800"}',
                b'{"print": NaN}',
                b'{"end": 1, "kind": "done"}',  # the first statement has ended
                b'{"end": 1e999, "kind": "done"}',
                b'{"call": "1", "name": "echo", "arguments": {}}',
                b'{"call": 1, "name": "echo", "arguments": []}',
            )
        ),
        (_WRITES.replace("in range(3, 20)", "in [*range(3, 20)] * 100").format(b"x" * 60_000)[:-9] + ")", "no message"),
    ],
    ids=itertools.count(),
)
@pytest.mark.sample(3)
async def test_a_worker_that_is_lost(code: str, text: str) -> None:
    """The reason is in the result, and the output until then is there."""
    result, _, host = await ran(ProcessSandbox(), f"print('before')\n{code}")
    assert result.end is StatementEnd.LOST
    assert text in result.text
    assert host.output.startswith("before\n")


@pytest.mark.slow
async def test_a_forged_end() -> None:
    """It lies about its own code only: the next statement is sent when the forged one says so, and runs once."""
    code = _WRITES.format(b'{"end": 2, "kind": "done"}') + "await wait()"
    host = Host()
    async with opened(ProcessSandbox()) as session, session.serve(host):
        result = await run(session, "x = 1\n" + code)
        assert result.end is StatementEnd.LOST  # the real end came behind it
        assert session.has_ended


@pytest.mark.slow
async def test_too_many_calls_at_once() -> None:
    """The worker lets them wait. If it does not, its messages wait."""
    code = "await asyncio.gather(*(echo(n) for n in range(3000)))\n"
    _, value, host = await ran(ProcessSandbox(), code)
    assert value.data == [{"value": n} for n in range(3000)]
    assert len(host.calls) == 3000
    lines = b"\n".join(b'{"call": %d, "name": "wait", "arguments": {}}' % n for n in range(10_000))
    host = Host()
    async with opened(ProcessSandbox(grace_s=0.05)) as session, session.serve(host):
        await cancelled(session, _WRITES.format(lines), host.waits.wait)
        assert session.has_ended
    assert len(host.cancelled) == len(host.calls) <= 4000


@pytest.mark.slow
async def test_results_that_the_code_does_not_read() -> None:
    """If they do not fit into the pipe, the calls wait, and so does the output. Then everything arrives."""
    code = """\
import time
async def f(n):
    return len((await echo("x" * 1_000_000))["value"])
tasks = [asyncio.create_task(f(n)) for n in range(20)]
await asyncio.sleep(0)
time.sleep(0.1)
sum(await asyncio.gather(*tasks))
"""
    _, value, _ = await ran(ProcessSandbox(), code)
    assert value.data == 20_000_000


# --- the process ------------------------------------------------------------------------------------------------------


async def test_the_surroundings_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder that is removed, an environment without secrets, no input, and no modules of the program."""
    monkeypatch.setenv("SOME_TOKEN", "secret")
    code = """\
import os, sys
open("file", "w").write("x")
{
    "cwd": os.getcwd(), "home": os.path.expanduser("~"), "files": os.listdir(), "path": sys.path,
    "environment": dict(os.environ), "pid": os.getpid(),
}
"""
    _, value, _ = await ran(ProcessSandbox(env={"OWN": "1", "KEY": "sk-ant-1"}), code)
    data: Any = value.data
    assert data["cwd"] == data["home"]
    assert data["files"] == ["file"]
    assert not [path for path in data["path"] if "site-packages" in path or not path.startswith("/")]
    assert data["environment"]["OWN"] == "1"
    assert not {"SOME_TOKEN", "KEY"} & {*data["environment"]}
    await until(lambda: not Path(data["cwd"]).exists())
    await until(lambda: not is_alive(data["pid"]))


@pytest.mark.slow
async def test_packages_and_a_folder_of_the_program(tmp_path: Path) -> None:
    """If the program wants it so."""
    (tmp_path / "data.txt").write_text("mine")
    _, value, _ = await ran(ProcessSandbox(packages=True, cwd=tmp_path), "import anyio\nopen('data.txt').read()")
    assert value.data == "mine"
    assert (tmp_path / "data.txt").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the limits that Linux has")
async def test_limits() -> None:
    """They hold from the first statement on, and the smallest memory is enough for one."""
    code = """\
import resource
[resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("AS", "CORE", "FSIZE", "NOFILE", "NPROC")]
"""
    async with opened(ProcessSandbox(max_memory_bytes=64 << 20, max_file_bytes=1000)) as session:
        _, value, _ = await ran_in(session, code)
        limits: Any = value.data
        assert limits[:4] == [[64 << 20] * 2, [0, 0], [1000, 1000], [256, 256]]
        assert 0 < limits[4][0] < 100_000
        result, value, _ = await ran_in(session, "x = bytearray(64 << 20)")
    assert result.text.endswith("MemoryError")


@pytest.mark.slow
async def test_another_interpreter() -> None:
    """With `argv`, as in a container: `env` is for the wrapper, and the rest is the same."""
    sandbox = ProcessSandbox(argv=("env", "A=1", sys.executable, "-I"), env={"B": "2"})
    result, value, host = await ran(sandbox, "import os\nprint('out')\nos.environ['A'] + os.environ['B']")
    assert result.text == ""
    assert value.text == "12"
    assert host.output == "out\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="setsid is a program of Linux")
async def test_an_interpreter_that_outlives_its_wrapper() -> None:
    """As in a container: it ends when its stdin is closed, also if the code ignores everything."""
    code = """\
import os; n = 0
while True:
    try:
        if not n:
            print(os.getpid())
        while True:
            n += 1  # an empty loop belongs to no `try`, as CPython compiles it
    except BaseException:
        pass
"""
    host = Host()
    sandbox = ProcessSandbox(argv=("setsid", "--wait", sys.executable, "-I"), grace_s=0.05)
    async with opened(sandbox) as session:
        async with session.serve(host):
            await cancelled(session, code, host.printed.wait)
        assert session.has_ended
        await until(lambda: not is_alive(int(host.output)))


@pytest.mark.parametrize(
    "argv", [("/does/not/exist",), ("false",), ("echo", "hello"), ("cat",), ("sh", "-c", "echo no such container >&2")]
)
@pytest.mark.sample(1)
async def test_an_interpreter_that_does_not_start(argv: tuple[str, ...]) -> None:
    """It is an error for the model, with the reason as its cause. No descriptor stays open."""
    with pytest.raises(ToolError, match="could not be started") as caught:
        await ProcessSandbox(argv=argv).open([])
    assert caught.value.__cause__ is not None
    if "sh" in argv:
        assert "no such container" in str(caught.value.__cause__)


@pytest.mark.slow
async def test_descriptors() -> None:
    """None stays open after a session, one that ended by itself, and one that never began."""

    async def sessions() -> None:
        await ran(ProcessSandbox(), "1")
        await ran(ProcessSandbox(), "import os; os._exit(0)")
        with pytest.raises(ToolError):
            await ProcessSandbox(argv=("false",)).open([])

    await sessions()  # what stays: the watchdog, and the event loop's own
    gc.collect()
    before = descriptors()
    await sessions()
    await until(lambda: descriptors() <= before)


@pytest.mark.slow
async def test_starts_that_are_cancelled() -> None:
    """At any time: no process is left, and no folder."""
    mark = f"SOME_MARK={os.getpid()}"
    sandbox = ProcessSandbox(env=dict([mark.split("=")]))
    for delay_s in (0, 0.001, 0.01, 0.05):
        with anyio.move_on_after(delay_s):
            (await sandbox.open([])).close()
    await until(lambda: not [*_marked(mark.encode())])


async def test_sessions_that_are_closed() -> None:
    """While code runs, twice, and not at all: the process ends, and the code is lost."""
    sandbox = ProcessSandbox()
    host = Host()
    async with opened(sandbox) as session, anyio.create_task_group() as tasks:

        async def close() -> None:
            await host.waits.wait()
            session.close()
            session.close()

        tasks.start_soon(close)
        async with session.serve(host):
            assert (await run(session, "await wait()")).end is StatementEnd.LOST
        assert session.has_ended
    forgotten = await sandbox.open([])
    async with forgotten.serve(Host()):
        await run(forgotten, "import os\nos.getpid()")
        pid: Any = (await forgotten.finish()).data
    del forgotten
    gc.collect()
    await until(lambda: not is_alive(pid))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_program_that_is_killed(tmp_path: Path) -> None:
    """By SIGKILL: its worker ends, also one that spins, with the children of the code."""
    source = """
        import anyio
        from packages.toolkit.tests._code.sessions import Host, run
        from eagerstream_toolkit._code.process import ProcessSandbox

        async def main():
            session = await ProcessSandbox().open([])
            async with session.serve(Host()):
                await run(session, "import os, subprocess; n = 0; folder = {folder!r}")
                await run(session, "p = subprocess.Popen(['sleep', '1000'], process_group=0)")
                await run(session, "x = open(folder, 'a').write(f'{{os.getpid()}}\\\\n{{p.pid}}\\\\n')")
                await run(session, "while True: n += 1")

        anyio.run(main)
    """
    with program(tmp_path, source.format(folder=str(tmp_path / "pids")), awaits=2) as (started, pids):
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))


@pytest.mark.slow
def test_the_end_of_a_program(tmp_path: Path) -> None:
    """The folder of a session that nobody has closed is removed."""
    source = """
        import anyio, os
        from packages.toolkit.tests._code.sessions import Host, run
        from eagerstream_toolkit._code.process import ProcessSandbox

        async def main():
            session = await ProcessSandbox().open([])
            async with session.serve(Host()):
                await run(session, "import os; os.getcwd()")
                print((await session.finish()).text)

        anyio.run(main)
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(source))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run([sys.executable, str(script)], env=env, check=True, capture_output=True, text=True)
    assert done.stdout
    assert not Path(done.stdout.strip()).exists()


@rows(
    "settings",
    [
        {"argv": "python3"},
        {"argv": ()},
        {"argv": (1,)},
        {"argv": ("python3",), "packages": True},
        {"cwd": "/does/not/exist"},
        {"cwd": 1},
        {"env": {"A": 1}},
        {"max_memory_bytes": 1000},
        {"max_processes": -1},
        {"max_file_bytes": 1.5},
        {"grace_s": 0},
    ],
)
def test_invalid_settings(settings: dict[str, Any]) -> None:
    """They are refused at once."""
    with pytest.raises(UsageError):
        ProcessSandbox(**settings)


async def test_output_after_a_redirection() -> None:
    """Code that puts `sys.__stdout__` back prints on."""
    code = "import io, sys\nsys.stdout = io.StringIO()\nprint('hidden')\nsys.stdout = sys.__stdout__\nprint('shown')"
    _, _, host = await ran(ProcessSandbox(), code)
    assert host.output == "shown\n"


async def test_a_forked_process_does_not_continue() -> None:
    """It ends with its statement, and says so."""
    code = "import os\npid = os.fork()\nprint('parent' if pid else 'child')\nx = os.waitpid(pid, 0)"
    _, _, host = await ran(ProcessSandbox(), code)
    assert sorted(host.output.splitlines()) == ["A forked process ends with the statement that forked it.", "parent"]


async def test_output_that_the_code_closes() -> None:
    """Its statements still end, and warnings have no path of this machine."""
    _, _, host = await ran(ProcessSandbox(), "import sys\nsys.stdout.close()\nprint('x')\necho(1)\nNone\n")
    assert "x\n" in host.output
    assert "RuntimeWarning: coroutine 'echo' was never awaited" in host.output
    assert "/" not in host.output
