"""`MontySandbox`: statements in an interpreter that has a part of Python, and no access to the machine."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.toolkit.tests._code.sessions import FUNCTIONS, SLOWLY_S, Host, cancelled, opened, ran, ran_in, run
from packages.toolkit.tests._code.test_tool import DONE as DONE_REPLY, ENDED, pieces, run_of
from packages.toolkit.tests.cases import case
from tests.killing import await_true, killed, program
from tests.streams import input_delta
from tests.support import Gate, until
from tests.tables import rows

import eagerstream
from eagerstream._support.sessions import is_alive
from eagerstream._support.watchdog import watchdog
from eagerstream.errors import MissingExtraError, ToolError, UsageError
from eagerstream_toolkit import CodeTool
from eagerstream_toolkit._code import monty_calls
from eagerstream_toolkit._code.monty import MontySandbox, MontySession
from eagerstream_toolkit._code.monty_interpreter import Interpreter
from eagerstream_toolkit._code.sandbox import CodeFunction, CodeSandbox, CodeSession, CodeValue, StatementEnd
from eagerstream_toolkit._code.statements import Statement
from eagerstream_wire import JSON

pytestmark = pytest.mark.anyio

DONE, INVALID, RAISED, LOST = StatementEnd.DONE, StatementEnd.INVALID, StatementEnd.RAISED, StatementEnd.LOST
MIB = 1024 * 1024


def pid_of(session: CodeSession) -> int:
    assert isinstance(session, MontySession)
    pid = session._interpreter._pid
    assert pid is not None
    return pid


# --- statements -------------------------------------------------------------------------------------------------------


_VALUES: dict[str, tuple[str, str | None, object]] = {
    "a string as it is": ("'a\\nb'", "a\nb", "a\nb"),
    "a tuple": ("(1, 'é')", "(1, 'é')", [1, "é"]),
    "keys that are no strings": ("{1: None}", "{1: None}", {"1": None}),
    "no JSON form": ("{1}", "{1}", None),
    "not a number": ("float('nan')", "nan", None),
    "no expression at the end": ("1; x = 2", "", None),
    "None": ("None", "", None),
    "an object of the code": ("class P:\n    def __repr__(self): return '<P>'\nx = [P()]\nx\n", "[<P>]", None),
    "an object as a key": ("class P: pass\n{P(): 1}", "a value that cannot be shown", None),
    "nested deeply": ("x = []\nfor i in range(100_000): x = [x]\nlen(str([x])) > 99\nx", None, None),
}


async def test_the_value_of_the_last_expression() -> None:
    """A string as it is, anything else as its `repr`, with its JSON form if it has one."""
    async with opened(MontySandbox()) as session:
        for name, (code, text, data) in _VALUES.items():
            with case(name):
                result, value, _ = await ran_in(session, code)
                assert result.end is DONE
                assert value.data == data
                assert value.text == text if text is not None else value.text


async def test_output_comes_in_order_also_of_stderr() -> None:
    """And while the statement still runs: it would be too late at its end."""
    host = Host()
    async with opened(MontySandbox()) as session, session.serve(host), anyio.create_task_group() as tasks:
        tasks.start_soon(
            run, session, "import sys\nfor i in range(3): print(i, file=sys.stderr, end=';'); await wait()"
        )
        await host.printed.wait()
        await host.waits.wait()
        assert host.output == "0;"
        tasks.cancel_scope.cancel()


# --- tools ------------------------------------------------------------------------------------------------------------


_TOGETHER = {
    "gather": "len(await asyncio.gather(*[meet() for n in range(50)]))",
    "imported, and a map": "import asyncio\nlen(await asyncio.gather(*map(lambda n: meet(), range(50))))",
    "functions": "async def f(n): return await meet()\nlen(await asyncio.gather(*[f(n) for n in range(50)]))",
    "tasks": "tasks = [asyncio.create_task(meet()) for n in range(50)]\nlen([await t for t in tasks])",
}


async def test_calls_that_the_code_starts_together_run_together() -> None:
    """`asyncio` is there without an import, and an import of Monty's own does not hide it."""
    async with opened(MontySandbox()) as session:
        for name, code in _TOGETHER.items():
            with case(name):
                result, value, _ = await ran_in(session, code, Host(expected=50))
                assert result.text == ""
                assert value.data == 50


async def test_tasks_go_on_in_later_statements() -> None:
    """The scenario of a prototype: two tasks, which the last statement awaits."""
    code = "a = asyncio.create_task(echo('a'))\nb = asyncio.create_task(echo('b'))\nprint('on')\n"
    host = Host()
    async with opened(MontySandbox()) as session, session.serve(host):
        await run(session, code)
        await until(lambda: len(host.calls) == 2)  # before anything awaits them
        assert (await run(session, "[each['value'] for each in [await b, await a]]")).text == ""
        assert (await session.finish()).data == ["b", "a"]


async def test_a_call_that_is_not_awaited_is_not_made() -> None:
    """As in Python: calling an async function only makes a coroutine."""
    _, _, host = await ran(MontySandbox(), "x = echo(1)\n'end'")
    assert host.calls == []


async def test_the_end_cancels_tasks() -> None:
    """And says how many. What awaits one later learns that there is no result."""
    host = Host()
    async with opened(MontySandbox()) as session:
        async with session.serve(host):
            await run(session, "x = asyncio.create_task(wait())\ny = asyncio.create_task(wait())\n'end'")
            assert await session.finish() == CodeValue("end", "end", cancelled_tasks=2)
            assert host.cancelled == ["wait", "wait"]
        async with session.serve(host):
            assert "cancelled" in (await run(session, "await x")).text


async def test_a_tool_that_fails() -> None:
    """Code can catch it by any of these names; a later gather gets the error of the first."""
    async with opened(MontySandbox()) as session:
        for caught in ("ToolError", "Exception", "RuntimeError"):
            with case(caught):
                code = f"try:\n    await fail()\nexcept {caught} as error:\n    print(error)\n"
                result, _, host = await ran_in(session, f"{code}await asyncio.gather(fail(), echo(1))")
                assert host.output == "it failed\n"
                assert result.text.splitlines() == [
                    *("Traceback:", "  line 5", "    await asyncio.gather(fail(), echo(1))", "RuntimeError: it failed")
                ]


async def test_gather_can_return_exceptions() -> None:
    """Monty's own cannot."""
    _, value, _ = await ran(MontySandbox(), "str(await asyncio.gather(fail(), echo(1), return_exceptions=True))")
    assert value.text == "[RuntimeError('it failed'), {'value': 1}]"


_REFUSED = {
    "echo(1, 2, 3)": "TypeError: echo() takes 2 arguments but 3 were given",
    "echo(1, value=2)": "TypeError: echo() got multiple values for argument 'value'",
    "echo({1})": "TypeError: the arguments of echo() must have a JSON form",
    "echo(float('inf'))": "TypeError: the arguments of echo() must have a JSON form",
    "echo('a' * 11_000_000)": "TypeError: the arguments of echo() are longer",
    "ech()": "NameError: name 'ech' is not defined",
}


async def test_calls_that_cannot_be_made() -> None:
    """The code gets an exception, and the tool gets nothing."""
    async with opened(MontySandbox()) as session:
        for call, error in _REFUSED.items():
            with case(call):
                result, _, host = await ran_in(session, f"\nawait {call}")
                assert result.end is RAISED
                assert result.text.splitlines()[1] == "  line 2"
                assert result.text.splitlines()[-1].startswith(error)
                assert host.calls == []


async def test_arguments_and_results_that_monty_does_not_have() -> None:
    """Tuples become lists, and half a character a question mark. The code gets an exception for what is too deep."""
    host = Host()
    deep: JSON = None
    for _ in range(100_000):
        deep = [deep]

    async def call(name: str, arguments: Mapping[str, JSON]) -> JSON:
        return {**arguments, "half": "\ud83d"} if name == "echo" else deep

    host.call = call  # type: ignore[method-assign]
    async with opened(MontySandbox()) as session, session.serve(host):
        assert (await run(session, "await echo((1, {2: 'ü'}))")).text == ""
        assert (await session.finish()).data == {"value": [1, {"2": "ü"}], "half": "?"}
        told = (await run(session, "await wait()")).text
        assert told.endswith("RuntimeError: the result of the call cannot be handed to the code")


async def test_calls_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code cannot make the program keep more and more results."""
    assert monty_calls._MAX_AT_ONCE == 1_000
    monkeypatch.setattr(monty_calls, "_MAX_AT_ONCE", 50)
    result, _, host = await ran(MontySandbox(), "while True: asyncio.create_task(echo(1))")
    assert "more than 50 calls were started" in result.text
    assert len(host.calls) == 50


# --- errors -----------------------------------------------------------------------------------------------------------


_ERRORS = [
    ("a = 1\nprint(1); b = (", INVALID, "SyntaxError: unexpected EOF while parsing (line 2)"),  # syntax
    ("a = 1\n\nif a:\n    print(1)\n    del x", INVALID, "NotImplementedError: The monty syntax parser"),  # not supported
    ("print(1); x = '\ud83d'", INVALID, "SyntaxError: source code is not valid UTF-8"),  # half a character
    ("exec('(')", RAISED, "Traceback:\n  line 1\n    exec('(')\nSyntaxError"),  # syntax in a string
    ("raise NotImplementedError('The monty')", RAISED, "Traceback:\n  line 1"),  # it only looks so
    ("x = 1\nasync def f():\n    assert x == 2\n\n\nawait f()", RAISED, "Traceback:\n  line 6\n    await f()\n  line 3, in f\n    assert x == 2\nAssertionError"),  # frames
    ("import numpy", RAISED, "Traceback:\n  line 1\n    import numpy\nModuleNotFoundError"),  # no module
    ("def f(): f()\nf()", RAISED, "Traceback:\n  line 2"),  # recursion
    ("x = 'a' * 10**12", RAISED, "Traceback:\n  line 1\n    x = 'a' * 10**12\nMemoryError"),  # one large value
    ("await asyncio.create_task(asyncio.sleep(1))", RAISED, "Traceback:\n  line 1"),  # a task of its own
    ("await _eager_wait('x')", RAISED, "Traceback:"),  # our own functions, misused
    ("_eager = asyncio = 1\n1", RAISED, "RuntimeError"),  # our own names, overwritten
]  # fmt: skip
"""Each has a session of its own, as the last one spoils it."""


async def test_errors() -> None:
    """In terms of the code. Nothing of an invalid statement has run, and the session can go on."""
    for code, end, text in _ERRORS:
        host = Host()
        with case(code):
            async with opened(MontySandbox(max_depth=100)) as session, session.serve(host):
                result = await run(session, code)
                assert result.end is end
                assert result.text.startswith(text)
                assert len(result.text) < 2_000
                assert host.output == ""
                assert not session.has_ended
                assert await session.finish() == CodeValue()


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param("x = []\nwhile True: x.append('a' * 1_000)", "MemoryError", id="memory"),
        pytest.param("('a' * 10**6).join(['a'] * 10**6)", "MemoryError", id="memory at once"),
        pytest.param("while True:\n  try:\n    while True: pass\n  except BaseException: pass", "TimeoutError", id="time"),
        pytest.param("x = 3\nfor i in range(100): x = x * x", "TimeoutError", id="time in one step", marks=pytest.mark.slow),
    ],
)  # fmt: skip
async def test_bounds(code: str, error: str) -> None:
    """Code cannot catch them, and the session is lost."""
    most_s = 0.05 if error == "TimeoutError" else SLOWLY_S
    async with opened(MontySandbox(max_memory_bytes=50 * MIB, max_statement_s=most_s)) as session:
        pid = pid_of(session)
        async with session.serve(Host()):
            result = await run(session, code)
            assert result.end is LOST
            assert result.text.startswith(error)
            assert session.has_ended
            assert (await session.run(statement())).end is LOST
            assert await session.finish() == CodeValue()
        assert not is_alive(pid)


async def test_the_time_in_which_code_waits_does_not_count() -> None:
    """Only the tool's own time limit bounds it. More than Monty's 1,000 calls of a session are fine, too."""
    code = "import time\ntime.sleep(0.31)\nawait asyncio.sleep(0.31)\nfor i in range(340): await echo(i)\n"
    result, _, host = await ran(MontySandbox(max_statement_s=0.3), code)
    assert result.text == ""
    assert len(host.calls) == 340


def statement() -> Statement:
    return Statement("1", 1, 1)


async def test_a_process_that_is_killed() -> None:
    """By whatever: the system, or a person."""
    host = Host()
    async with opened(MontySandbox()) as session, session.serve(host), anyio.create_task_group() as tasks:
        results: list[Any] = []

        async def keep() -> None:
            results.append(await run(session, "print(1); await echo(1)\nwhile True: pass"))

        tasks.start_soon(keep)
        await until(lambda: host.calls)
        pid = pid_of(session)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: results)
        assert pid not in watchdog._sessions  # its number may be another's by now
        assert results[0].end is LOST
        assert results[0].text == "The interpreter crashed."


# --- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param("await wait()", id="a call"),
        pytest.param("await asyncio.gather(wait(), echo(2))", id="several calls"),
        pytest.param("asyncio.create_task(echo(1)); await asyncio.sleep(1_000)", id="a pause"),
        pytest.param("import time; asyncio.create_task(wait()); time.sleep(1_000)", id="a pause of everything"),
    ],
)
async def test_cancelling_a_statement_runs_its_finally_blocks(waits: str) -> None:
    """No `except Exception` stops it, the blocks may call tools, and the variables stay."""
    code = f"x = 1\ntry:\n    print('begins')\n    {waits}\nexcept Exception:\n    print('no')\nfinally:\n    print(await echo(x))"
    host = Host()
    async with opened(MontySandbox(grace_s=SLOWLY_S)) as session, session.serve(host):

        async def when() -> None:
            await host.printed.wait()
            if "wait()" in waits:
                await host.waits.wait()

        await cancelled(session, code, when)
        assert host.output == "begins\n{'value': 1}\n"
        assert not session.has_ended
        assert (await run(session, "x")).end is DONE
        assert (await session.finish()).data == 1


async def test_cancelling_functions_that_run_together() -> None:
    """All of them run their blocks, where Monty's own gather drops those behind the first."""
    code = "async def f(n):\n    try: await wait()\n    finally: print(n)\nawait asyncio.gather(f(1), f(2), wait())"
    host = Host()
    async with opened(MontySandbox(grace_s=SLOWLY_S)) as session, session.serve(host):
        await cancelled(session, code, lambda: until(lambda: len(host.calls) == 3))
        assert sorted(host.output.split()) == ["1", "2"]
        assert host.cancelled == ["wait"] * 3


async def test_cancelled_code_starts_nothing_more() -> None:
    """Its next call gets the interruption, even if it did not wait for anything."""
    host = Host()
    async with opened(MontySandbox(grace_s=SLOWLY_S)) as session, session.serve(host):
        with anyio.CancelScope() as scope:
            host.print = lambda text: scope.cancel()  # type: ignore[method-assign]
            await run(session, "print(1); await echo(1)")
        assert scope.cancelled_caught
        assert host.calls == []
        assert not session.has_ended


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("if True:\n    print('begins')\n    while True: pass", id="busy"),
        pytest.param("while True:\n    try: print('begins'); await echo(1)\n    except: pass", id="stubborn"),
        pytest.param("while True: print('begins')", id="printing"),
    ],
)
async def test_cancelling_code_that_runs_on(code: str) -> None:
    """The process is killed."""
    host = Host()
    async with opened(MontySandbox(grace_s=0.05)) as session:
        pid = pid_of(session)
        async with session.serve(host):
            await cancelled(session, code, host.printed.wait)
            assert session.has_ended
        assert not is_alive(pid)


async def test_closing_while_code_runs() -> None:
    """From elsewhere in the program: at once, and the statement is lost."""
    host = Host()
    async with opened(MontySandbox()) as session, session.serve(host), anyio.create_task_group() as tasks:

        async def keep() -> None:
            result = await run(session, "print(1)\nwhile True: pass")
            assert (result.end, result.text) == (LOST, "The interpreter was closed.")

        pid = pid_of(session)
        tasks.start_soon(keep)
        await host.printed.wait()
        session.close()
        session.close()
        assert session.has_ended
        await until(lambda: not is_alive(pid))


def test_cancelling_a_task_of_asyncio() -> None:
    """`Task.cancel` passes the shields of anyio: it must not leave a thread and a process behind."""

    async def main() -> None:
        host = Host()
        session = await MontySandbox(grace_s=0.05).open(FUNCTIONS)
        pid = pid_of(session)

        async def use() -> None:
            async with session.serve(host):
                await run(session, "try: await wait()\nfinally: print('fin')\nwhile True: pass")

        task = asyncio.create_task(use())
        await host.waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.output == "fin\n"
        assert not session.has_ended
        session.close()
        await until(lambda: not is_alive(pid))

    asyncio.run(main())


# --- processes --------------------------------------------------------------------------------------------------------


async def test_sessions_know_nothing_of_each_other() -> None:
    """Each has a process, which ends with it; one that is dropped is closed."""
    sandbox: CodeSandbox = MontySandbox()
    async with opened(sandbox) as one, opened(sandbox) as other:
        pids = {pid_of(one), pid_of(other)}
        assert len(pids) == 2
        async with one.serve(Host()):
            await run(one, "x = 1")
        async with other.serve(Host()):
            assert "NameError" in (await run(other, "x")).text
    await until(lambda: not any(map(is_alive, pids)))
    dropped = await sandbox.open([CodeFunction("a", ())])
    pid = pid_of(dropped)
    del dropped
    gc.collect()
    await until(lambda: not is_alive(pid))


async def test_cancelling_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is left."""
    made: list[Interpreter] = []
    start = Interpreter.start

    def noted(self: Interpreter) -> None:
        made.append(self)
        start(self)

    monkeypatch.setattr(Interpreter, "start", noted)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await MontySandbox().open(FUNCTIONS)
        await anyio.lowlevel.checkpoint()
    assert all(each.is_closed for each in made)


async def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model reads that the tool does not work, and nothing of this machine."""
    monkeypatch.setenv("MONTY_BIN", "/nowhere/monty")
    with pytest.raises(ToolError, match=r"^The interpreter could not be started\.$"):
        await MontySandbox().open(FUNCTIONS)


_PROGRAM = """
    import anyio
    from eagerstream_toolkit._code.monty import MontySandbox
    from packages.toolkit.tests._code.sessions import FUNCTIONS, Host, run

    async def main():
        session = await MontySandbox().open(FUNCTIONS)
        with open("pids", "w") as file:
            print(session._interpreter._pid, file=file)
        async with session.serve(Host()):
            await run(session, "{code}")
        {end}

    anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("code", ["while True: pass", "await wait()"])
@pytest.mark.slow
def test_a_program_that_is_killed(tmp_path: Path, code: str) -> None:
    """It leaves no process, even one that computes."""
    with program(tmp_path, _PROGRAM.format(code=code, end=""), awaits=1) as (started, pids):
        killed(started)
        await_true(lambda: not any(map(is_alive, pids)))


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("end", ["", "raise SystemExit", "import os; os._exit(1)"])
@pytest.mark.slow
def test_a_program_that_ends(tmp_path: Path, end: str) -> None:
    """It leaves no process, though it closes no session."""
    with program(tmp_path, _PROGRAM.format(code="1", end=end), awaits=1) as (started, pids):
        started.wait()
        await_true(lambda: not any(map(is_alive, pids)))


# --- in the tool ---------------------------------------------------------------------------------------------------------


async def test_the_tool() -> None:
    """`CodeTool` works with it: a task starts while a later statement has not been written, and the model knows Monty."""
    echoed: list[str] = []

    @eagerstream.tool
    async def echo(text: str) -> str:
        """Echo."""
        echoed.append(text)
        return text

    gate = Gate()
    code = (
        "import asyncio\na = asyncio.create_task(echo('a'))\nb = asyncio.create_task(echo('b'))\nfrom math import pi\n"
    )
    async with CodeTool([echo], sandbox=MontySandbox()) as tool:
        assert "yield" in tool.description
        written = [*pieces(code), gate, input_delta(0, json.dumps("print(await b)\nawait a")[1:-1]), *ENDED]
        async with run_of(tool, written, [DONE_REPLY]) as run:
            await until(lambda: echoed == ["a", "b"])
            gate.opened.set()
            await run.finish()
        assert run.result.calls[0].text == "b\na"


# --- settings ---------------------------------------------------------------------------------------------------------


@rows("setting", [{"max_memory_bytes": 1}, {"max_statement_s": 0}, {"max_depth": 0}, {"grace_s": -1}])
def test_settings_that_make_no_sense(setting: Any) -> None:
    """They are refused at once, by name."""
    with pytest.raises(UsageError, match=next(iter(setting))):
        MontySandbox(**setting)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, when the sandbox is made and not when a model first writes code."""
    monkeypatch.setattr("eagerstream_toolkit._code.monty.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"eagerstream-toolkit\[monty\]"):
        MontySandbox()
    assert util.find_spec("pydantic_monty") is not None
