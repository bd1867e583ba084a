"""`ProcessSandbox`: statements in a process of their own."""

from __future__ import annotations

import pytest

from eagerstream.builtin._code.process import ProcessSandbox
from eagerstream.builtin._code.sandbox import StatementEnd
from tests.builtin._code.sessions import Host, opened, ran, run

pytestmark = pytest.mark.anyio


async def test_statements_share_their_variables() -> None:
    """Also across calls of `run_code`, with tools, output and the last value."""
    async with opened(ProcessSandbox()) as session:
        host = Host()
        async with session.serve(host):
            assert (
                await run(session, "import math; a = 2\nprint('a', a)\nb = await echo(a, more=[None])\n")
            ).text == ""
            assert (await session.finish()).text == ""
        async with session.serve(host):
            assert (await run(session, "print(b)\n{'b': b, 'pi': math.floor(math.pi)}")).end is StatementEnd.DONE
            value = await session.finish()
    assert host.output == "a 2\n{'value': 2, 'more': [None]}\n"
    assert value.data == {"b": {"value": 2, "more": [None]}, "pi": 3}
    assert value.text == str(value.data)


async def test_calls_that_the_code_starts_together_run_together() -> None:
    """`asyncio` is there without an import."""
    _, value, host = await ran(ProcessSandbox(), "len(await asyncio.gather(*(echo(n) for n in range(50))))")
    assert value.data == 50
    assert host.most == 50
