"""`Toolbox`: which tool a call is for."""

from __future__ import annotations

import pytest

from eagerstream.errors import UsageError
from eagerstream.tools import InProcessExecutor, tool
from tests.tools.calls import a_call, a_toolset, answer_to, contents, double, execute_all

pytestmark = pytest.mark.anyio


async def test_unknown_tool() -> None:
    """The model is told which there are."""
    executor = InProcessExecutor([double, tool(name="a")(double.__wrapped__)])
    call = a_call("nope", "{}")
    await executor.execute(call)
    assert call.result is not None
    assert call.result["content"] == "Error: Tool 'nope' not found. Available tools: a, double"
    assert call.is_error
    assert await answer_to(None) == ("Error: Tool 'nope' not found. Available tools: none", True)


async def test_members_of_a_toolset() -> None:
    """By the name of their toolset, not by their own; a tool of the same name is another one."""

    @tool
    async def screenshot() -> str:
        """Shoot."""
        return "my own"

    executor = InProcessExecutor([a_toolset(), a_toolset("browser_toolset_20260801"), screenshot])
    calls = [
        a_call("screenshot", "{}", index=0, toolset_name="computer"),
        a_call("screenshot", "{}", index=1, toolset_name="browser"),
        a_call("screenshot", "{}", index=2),
        a_call("screenshot", "{}", index=3, toolset_name="phone"),
    ]
    await execute_all(executor, calls)
    assert contents(calls)[:3] == [
        "computer_toolset_20260801 screenshot {}",
        "browser_toolset_20260801 screenshot {}",
        "my own",
    ]
    assert contents(calls)[3].startswith("Error: Tool 'screenshot' not found.")
    assert [call.result.get("toolset_name") for call in calls if call.result] == ["computer", "browser", None, "phone"]
    with pytest.raises(UsageError, match="computer"):
        InProcessExecutor([a_toolset(), a_toolset()])


async def test_a_toolset_name_that_is_no_text() -> None:
    """What a peer sends never ends a run with an exception from inside."""
    call = a_call("f", "{}", toolset_name=["computer"])
    await execute_all(InProcessExecutor([double]), [call])
    assert call.is_error


def test_executors_that_cannot_be() -> None:
    """Two tools of a name, or no slot at all, are mistakes of whoever makes one."""
    with pytest.raises(UsageError, match="'double'"):
        InProcessExecutor([double, double])
    with pytest.raises(UsageError, match="max_concurrency"):
        InProcessExecutor([double], max_concurrency=0)
