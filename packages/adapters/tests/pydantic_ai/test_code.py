"""`CodeTool` under pydantic-ai: code runs while it is written, and keeps its variables for the run of the agent."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from packages.adapters.tests.notes import Notes
from packages.adapters.tests.pydantic_ai.test_early import answers, call, model_of
from pydantic_ai import Agent

from eagerstream.tools import ToolCall
from eagerstream_adapters.pydantic_ai import EagerToolset, EarlyStart
from eagerstream_toolkit import CodeTool

pytestmark = pytest.mark.anyio

SLOWLY_S = 20


def written(*code: Any, id: str = "call_0") -> list[Any]:
    """Return the pieces of a call with this code, and the events between them."""
    pieces = [each if isinstance(each, anyio.Event) else call(0, None, json.dumps(each)[1:-1]) for each in code]
    return [call(0, "run_code", '{"code": "', id=id), *pieces, call(0, None, '"}')]


async def test_code_runs_while_the_model_writes() -> None:
    """The model waits for the effect of a statement before it writes the next one."""
    notes = Notes()
    told: list[Any] = []

    def on_progress(_: ToolCall, value: Any) -> None:
        told.append((value["line"], value["state"], list(notes.notes)))

    model = model_of(written("await note('a')\n", notes.noted, "await note('b')"), ["Done."])
    with anyio.fail_after(SLOWLY_S):
        async with CodeTool([notes.tool]) as tool:
            agent = Agent(model, capabilities=[EarlyStart([tool], on_progress=on_progress)])
            result = await agent.run("Go.")
    assert answers(result.all_messages()) == {"call_0": "2"}
    assert (1, "running", []) in told
    assert (2, "done", ["a", "b"]) in told


def early(tool: Any, model: Any) -> Agent[Any, Any]:
    return Agent(model, capabilities=[EarlyStart([tool])])


def late(tool: Any, model: Any) -> Agent[Any, Any]:
    # The capability starts nothing: it makes pydantic-ai ask for a stream.
    return Agent(model, toolsets=[EagerToolset([tool])], capabilities=[EarlyStart()])


async def test_variables_of_a_run() -> None:
    """No other run sees them, and none that continues its messages, whether code starts early or late."""
    keep = "n = globals().get('n', 0) + 1\nn"
    responses = [written(keep, id="call_0"), written(keep, id="call_1"), ["Done."]]
    with anyio.fail_after(SLOWLY_S):
        async with CodeTool([Notes().tool]) as tool:
            agent = early(tool, model_of(*responses, *responses))
            first = await agent.run("Go.")
            assert answers(first.new_messages()) == {"call_0": "1", "call_1": "2"}
            second = await agent.run("Go.", message_history=first.all_messages())
            assert answers(second.new_messages()) == {"call_0": "1", "call_1": "2"}
            third = await late(tool, model_of(*responses)).run("Go.")
            assert answers(third.new_messages()) == {"call_0": "1", "call_1": "2"}


async def test_code_that_fails() -> None:
    """The model learns what ran, and pydantic-ai counts no retry: the statements that ran must not run again."""
    notes = Notes()
    model = model_of(written("await note('a')\n1 / 0\n"), ["Done."])
    async with CodeTool([notes.tool]) as tool:
        result = await Agent(model, capabilities=[EarlyStart([tool])], retries=0).run("Go.")
    [told] = answers(result.all_messages()).values()
    assert "Line 1 ran" in told
    assert notes.notes == ["a"]
