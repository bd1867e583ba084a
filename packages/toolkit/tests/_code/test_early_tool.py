"""`CodeTool(early_calls=True)` in a run: reads start ahead of the code, and the model learns of those that were not needed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from packages.toolkit.tests.support import conversation
from tests.continuing import CutModel
from tests.streams import REQUEST
from tests.support import LocalAPI

import eagerstream
from eagerstream.tools import Tool, ToolCall
from eagerstream_testing import reply, tool_use
from eagerstream_toolkit import CodeTool

pytestmark = pytest.mark.anyio


class Store:
    """A store, and the calls that it has got."""

    def __init__(self) -> None:
        self.values = {"a": "0", "b": "0"}
        self.asked: list[str] = []
        self.cancelled: list[str] = []
        self.has_been_asked = anyio.Event()

    @eagerstream.tool(read_only=True)
    async def get(self, key: str) -> str:
        """Get a value."""
        self.asked.append(key)
        self.has_been_asked.set()
        try:
            if key == "never":
                await anyio.sleep_forever()
            return self.values[key]
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(key)
            raise

    @eagerstream.tool(read_only=True)
    async def wait(self, seconds: float) -> float:
        """Wait until somebody asks for a value."""
        with anyio.fail_after(seconds):
            await self.has_been_asked.wait()
        return seconds

    @eagerstream.tool
    async def put(self, key: str, value: str) -> None:
        """Put a value."""
        self.values[key] = value

    def tools(self) -> list[Tool]:
        """The tools of this store."""
        return [self.get, self.wait, self.put]


async def ran(store: Store, *codes: str, **options: Any) -> list[ToolCall]:
    """The calls of a run whose model writes these codes, one call for each."""
    with anyio.fail_after(30):
        async with CodeTool(store.tools(), **{"early_calls": True, **options}) as tool:
            result = await conversation(tool, *({"code": code} for code in codes))
    return result.calls


async def test_a_read_starts_while_an_earlier_statement_runs() -> None:
    """The first statement ends only because the second one has started its call."""
    store = Store()
    [call] = await ran(store, "s = 20\nawait wait(s)\nawait get('a')")
    assert (call.text, call.is_error) == ("0", False)
    assert store.asked == ["a"]
    assert call.response is not None
    assert call.response.data == {"output": "", "value": "0", "statements": 3, "calls": 2, "unreached": {}}


@pytest.mark.slow
async def test_nothing_starts_early_unless_requested() -> None:
    """Without `early_calls`, a call starts when the code reaches it."""
    store = Store()
    [call] = await ran(store, "s = 0.2\nawait wait(s)\nawait get('a')", early_calls=False)
    assert "TimeoutError" in call.text
    assert store.asked == []
    assert call.response is not None
    assert "unreached" not in call.response.data


@pytest.mark.parametrize("end", ["", *(pytest.param(end, marks=pytest.mark.slow) for end in ("\n1 / 0", "\nx = = 1"))])
async def test_a_read_that_is_never_reached(end: str) -> None:
    """It is cancelled, and the model learns of it, however the code ends."""
    store = Store()
    [call] = await ran(store, f"s = 20\nawait wait(s)\nif s < 0:\n    await get('never')\ns{end}")
    assert "The code did not reach these calls, which had started early and were cancelled: get." in call.text
    assert call.is_error == bool(end)
    assert store.cancelled == ["never"]
    assert call.response is not None
    assert call.response.data["unreached"] == {"get": 1}
    assert call.response.data["calls"] == 1


async def test_a_run_that_is_cancelled() -> None:
    """The early call ends with the code, and is reported, too."""
    store = Store()
    code = "s = 20\nawait asyncio.sleep(s)\nawait get('never')"
    api = LocalAPI([reply(tool_use("run_code", {"code": code}))])
    with anyio.fail_after(30):
        async with (
            CodeTool(store.tools(), early_calls=True) as tool,
            eagerstream.run(api.transport(), **REQUEST, tools=[tool]) as run,
        ):
            await store.has_been_asked.wait()
            run.cancel()
            await run.finish()
    assert store.cancelled == ["never"]
    [answer] = run.result.messages[-1]["content"]
    assert "which had started early and were cancelled: get." in answer["content"]


async def test_a_write_in_between() -> None:
    """The code sees its own write, although its second read had started before."""
    store = Store()
    code = "async def save(value):\n    await put('a', value)\nfirst = await get('a')\nawait save('1')\n[first, await get('a')]"
    [call] = await ran(store, code)
    assert call.text == "['0', '1']"


@pytest.mark.slow
async def test_names_that_an_earlier_call_has_bound() -> None:
    """They do not start a tool, until the session is reset."""
    store = Store()
    again = "if s < 0: await get('a')\ns"
    calls = await ran(store, "async def get(key): return key\ns = 1", again, "reset_session()\ns = 1", again)
    assert [call.is_error for call in calls] == [False] * 4
    assert store.asked == ["a"]
    assert [call.response and call.response.data["unreached"] for call in calls] == [{}, {}, {}, {"get": 1}]


@pytest.mark.slow
async def test_early_calls_take_none_of_the_calls_of_the_code() -> None:
    """A program that makes as many calls as it may runs with and without them."""
    store = Store()
    code = "if 0:\n    await get('b')\n    await get('b')\nprint([await get('a') for _ in range(3)])"
    for early in (False, True):
        [call] = await ran(store, code, early_calls=early, max_calls=3)
        assert call.text.startswith("['0', '0', '0']")


async def test_code_that_is_cut_off() -> None:
    """The code goes on where `max_tokens` has cut it, in the middle of a statement. Nothing runs twice."""
    store = Store()
    code = "await put('a', '1')\nfirst = await get('a')\nawait put('b', first + '2')\nawait get('b')"
    async with CodeTool(store.tools(), early_calls=True) as code_tool:
        model = CutModel({"code": code}, (50, False), name=code_tool.name)
        given = {**REQUEST, "on_truncated": "continue_input"}
        with anyio.fail_after(30):
            result = await eagerstream.run(model.transport(), **given, tools=[code_tool])
    assert [call.text for call in result.calls] == ["12"]
    assert (len(model.asked), store.asked) == (1, ["a", "b"])
