"""`RunningCall`: what a tool sees of its call."""

from __future__ import annotations

from typing import Any

import pytest

from eagerstream import RunningCall, UsageError, tool
from eagerstream.tools import InProcessExecutor, ToolCall
from tests.support import Heard
from tests.tools.calls import a_call


def test_a_tool_sees_little() -> None:
    """A tool cannot answer its call, and need not know how an executor does: 13 members, not 48."""
    assert {name for name in dir(RunningCall) if not name.startswith("_")} == {
        *("id", "name", "input", "turn", "block", "is_programmatic", "run_id", "idempotency_key"),
        *("progress", "report", "done_so_far", "is_over", "when_over"),
    }


def test_the_other_type() -> None:
    """A function that wants the record of its call is told what it gets."""
    with pytest.raises(UsageError, match="parameter 'call': a tool gets its call as a RunningCall"):

        @tool
        async def f(n: int, call: ToolCall) -> str:
            """Answer."""
            return ""


@pytest.mark.anyio
async def test_a_tool_hands_its_call_on() -> None:
    """A tool that runs another one: the inner one sees the same call, and its progress is that of the call."""
    seen: list[RunningCall] = []

    @tool
    async def inner(call: RunningCall) -> str:
        """Work."""
        seen.append(call)
        call.done_so_far = "half"
        await call.progress(1)
        return "done"

    @tool
    async def outer(call: RunningCall) -> Any:
        """Let the other one work."""
        seen.append(call)
        return await inner.invoke({}, call)

    call = a_call("outer", "{}")
    call.run_id = "run"
    told: list[Any] = []
    call.listeners = (Heard(on_progress=lambda told_of, value: told.append((told_of, value))),)
    await InProcessExecutor([outer]).execute(call)
    assert told == [(call, 1)]
    assert (call.text, call.done_so_far) == ("done", "half")
    for each in seen:
        assert (each.id, each.name, each.input, each.turn) == (call.id, "outer", call.input, call.turn)
        assert (each.block, each.is_programmatic, each.run_id) == (call.block, False, "run")
        assert each.idempotency_key == f"run:{call.turn}:{call.id}"
        assert each.is_over()
        assert repr(each) == f"RunningCall('outer', id={call.id!r}, turn={call.turn})"
