"""The sandboxes of `CodeTool`: what is the same in each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from packages.toolkit.tests._code.sessions import FUNCTIONS, SLOWLY_S, Host, cancelled, opened, ran_in, run

from eagerstream_toolkit import MontySandbox, ProcessSandbox
from eagerstream_toolkit._code.sandbox import CodeSession, CodeValue, StatementEnd

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[ProcessSandbox, MontySandbox])
async def session(anyio_backend: str, request: pytest.FixtureRequest) -> AsyncIterator[CodeSession]:
    """One session of each sandbox for all tests that do not end it."""
    opened: CodeSession = await request.param(grace_s=SLOWLY_S).open(FUNCTIONS)
    yield opened
    opened.close()


async def test_statements_share_their_variables(session: CodeSession) -> None:
    """Also across calls of `run_code`, with tools, output and the last value."""
    code = "import math; a = 2\nprint('a', a)\nb = await echo(a, more=[None])\n"
    result, value, host = await ran_in(session, code)
    assert (result.text, value) == ("", CodeValue())
    result, value, _ = await ran_in(session, "print(b)\n{'b': b, 'pi': math.floor(math.pi)}", host)
    assert result.end is StatementEnd.DONE
    assert host.output == "a 2\n{'value': 2, 'more': [None]}\n"
    assert value.data == {"b": {"value": 2, "more": [None]}, "pi": 3}
    assert value.text == str(value.data)


async def test_calls_run_together(session: CodeSession) -> None:
    """`asyncio` is there without an import."""
    _, value, _ = await ran_in(session, "len(await asyncio.gather(*(meet() for _ in range(99))))", Host(99))
    assert value.data == 99


async def test_lines_of_an_earlier_call(session: CodeSession) -> None:
    """Each call of `run_code` has its own lines 1, 2, 3: a number alone would be one of the wrong code."""
    await ran_in(session, "\ndef f():\n    return 1 / 0\n")
    result, _, _ = await ran_in(session, "x = 1\ny = 2\nf()")
    assert result.text == (
        "Traceback:\n  line 3\n    f()\n  line 3 of an earlier call, in f\n    return 1 / 0\n"
        "ZeroDivisionError: division by zero"
    )


async def test_resets(session: CodeSession) -> None:
    """The host has heard of it when the statement ends, whether it is awaited or not."""
    for code in ("reset_session()", "await reset_session()", "def f():\n    reset_session()\nf()"):
        host = Host()
        async with session.serve(host):
            assert (await run(session, code)).end is StatementEnd.DONE
            assert host.calls == [("reset_session", {})]
            assert (await session.finish()).cancelled_tasks == 0


async def test_leaving_cancels_calls(session: CodeSession) -> None:
    """If the code is left without `finish`, no call goes on. An exception passes as it is, in no group."""
    host = Host()
    with pytest.raises(ZeroDivisionError):
        async with session.serve(host):
            await run(session, "async def f(): await wait()\nx = asyncio.create_task(wait())\n")
            await host.waits.wait()
            raise ZeroDivisionError
    assert host.cancelled == ["wait"]
    assert not session.has_ended


@pytest.mark.parametrize(
    ("sandbox", "reason"), [(ProcessSandbox, "did not react to its cancellation"), (MontySandbox, "was closed")]
)
async def test_code_that_does_not_end(sandbox: Any, reason: str) -> None:
    """After the grace, its process is killed."""
    code = "while True:\n    try:\n        print('begun')\n        while True: await echo(1)\n    except BaseException: pass"
    host = Host()
    async with opened(sandbox(grace_s=0.05)) as session, session.serve(host):
        await cancelled(session, code, host.printed.wait)
        assert session.has_ended
        result = await run(session, "1")
        assert result.end is StatementEnd.LOST
        assert reason in result.text
        assert await session.finish() == CodeValue()
