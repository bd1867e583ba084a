"""The option `repair` of a tool: an invalid input that a function of the user mends, and that nobody takes for valid."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

import eagerstream
from eagerstream import ItemStream, Outcome, ParseFault, Reject, Tool, UsageError, tool
from eagerstream.tools import CircuitBreaker, InProcessExecutor, ToolCall
from eagerstream_testing import ReplayServer, Scenario, reply, text, tool_use
from tests.streams import REQUEST
from tests.support import anthropic_client
from tests.tables import rows
from tests.tools.calls import a_call

BROKEN = '{"path": "a", "lines": ["one", "two",]}'
NOTE = "(The input of this call was not a JSON object. It was repaired, and the tool got: "


def mend(raw: str, error: ParseFault) -> Mapping[str, Any] | None:
    """Take commas out that are too many."""
    assert error.offset_chars == raw.index("]")
    return dict(json.loads(raw.replace(",]", "]")))


def made(**options: Any) -> Tool:
    @tool(**{"repair": mend, **options})
    async def write(path: str, lines: list[str]) -> str:
        """Write."""
        return f"wrote {len(lines)} lines to {path}"

    return write


async def ran(tool: Tool, raw: str = BROKEN, **options: Any) -> ToolCall:
    call = a_call("write", raw)
    with anyio.fail_after(20):
        await InProcessExecutor([tool], **options).execute(call)
    return call


@pytest.mark.anyio
async def test_it_is_never_silent() -> None:
    """The model reads that it was repaired, and to what; the history and the call keep what it wrote."""
    with ReplayServer(Scenario(reply(tool_use("write", BROKEN)), reply(text("Done.")))) as server:
        async with anthropic_client(server.base_url) as client:
            result = await eagerstream.run(client, **REQUEST, tools=[made()])
        sent = server.requests[1].body["messages"]
    [call] = result.calls
    assert call.repaired == {"path": "a", "lines": ["one", "two"]}
    assert (call.input.outcome, call.input.value, call.ran, call.is_error) == (Outcome.INVALID, None, True, False)
    assert sent[-2]["content"][0]["input"] == {"INVALID_JSON": BROKEN}
    assert sent[-1]["content"][0]["content"] == f"{NOTE}{json.dumps(call.repaired)})\nwrote 2 lines to a"
    assert ToolCall.from_dict(call.to_dict()).repaired == call.repaired


@pytest.mark.anyio
async def test_off_by_default() -> None:
    """A call with such an input is answered with it, and does not run."""
    call = await ran(made(repair=None))
    assert (call.ran, call.is_error, call.repaired) == (False, True, None)
    assert json.loads(call.text) == {"INVALID_JSON": BROKEN}


@pytest.mark.anyio
async def test_a_repaired_input_is_checked() -> None:
    """As any other: if it does not fit, the model learns why, and what became of its input."""
    call = await ran(made(repair=lambda raw, error: {"path": 5, "lines": []}))
    assert not call.ran
    assert call.is_error
    assert call.text.startswith(NOTE)
    assert "Invalid parameter 'path'" in call.text


@pytest.mark.anyio
@pytest.mark.parametrize("chars", [10, 100_000])
async def test_guards_and_approval_are_about_what_runs(chars: int) -> None:
    """A guard has seen the input until its fault only, and whoever approves must know what is approved."""
    asked: list[Any] = []

    def guard(partial: Any) -> Reject | None:
        return Reject("outside") if str(partial.get("path")).startswith("/") else None

    def approve(call: ToolCall) -> bool:
        asked.append(call.repaired)
        return True

    broken = f'{{"path" "{"a" * chars}"}}'
    outside = made(guard=guard, repair=lambda raw, error: {"path": "/etc", "lines": []})
    call = await ran(outside, broken)
    assert (call.ran, call.is_error) == (False, True)
    assert call.text.endswith("outside")
    inside = made(guard=guard, approve=approve, repair=lambda raw, error: {"path": "a", "lines": [raw]})
    call = await ran(inside, broken)
    assert (call.ran, asked) == (True, [{"path": "a", "lines": [broken]}])
    assert len(call.text) < 2_000


def _none(raw: str, error: ParseFault) -> None:
    return None


def _list(raw: str, error: ParseFault) -> Any:
    return [raw]


def _raises(raw: str, error: ParseFault) -> Any:
    raise KeyError("secret")


@pytest.mark.anyio
@pytest.mark.parametrize("repair", [_none, _list, _raises])
async def test_functions_that_repair_nothing(repair: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """None, something else, an exception: the call is answered as without one. A bug is logged, without its text."""
    caplog.set_level(logging.ERROR)
    call = await ran(made(repair=repair))
    assert (call.ran, call.repaired) == (False, None)
    assert json.loads(call.text) == {"INVALID_JSON": BROKEN}
    assert ["secret" in record.getMessage() for record in caplog.records] == [False] * len(caplog.records)


@pytest.mark.anyio
async def test_what_is_not_repaired() -> None:
    """An input that was cut off, one that lost a part, and one whose tool runs already."""

    def never(raw: str, error: ParseFault) -> Any:
        raise AssertionError

    cut = await ran(made(repair=never), '{"path": "a"')
    assert "cut off" in cut.text

    @tool(repair=never)
    async def read(lines: ItemStream[str]) -> str:
        """Read."""
        return str([line async for line in lines])

    broken = reply(tool_use("read", '{"lines": ["one", 2x]}'))
    with ReplayServer(Scenario(broken, reply(text("Done.")))) as server:
        async with anthropic_client(server.base_url) as client:
            result = await eagerstream.run(client, **REQUEST, tools=[read])
    assert result.calls[0].repaired is None


@pytest.mark.anyio
async def test_it_counts_as_the_models_mistake() -> None:
    """The circuit breaker does not see it as one of the tool, whatever the tool answers."""
    breaker = CircuitBreaker(failure_threshold=1)

    @tool(name="write", repair=mend)
    async def fails(path: str, lines: list[str]) -> str:
        """Fail."""
        raise eagerstream.ToolError("no")

    assert (await ran(fails, circuit_breaker=breaker)).ran
    assert (await ran(fails, circuit_breaker=breaker)).ran


async def _waits(raw: str, error: ParseFault) -> Any:
    return {}


@rows(
    "options, fault",
    [
        ({"repair": _waits}, "repair must be a plain function"),
        ({"repair": 3}, "repair: Input should be callable"),
    ],
)
def test_options(options: Any, fault: str) -> None:
    """A coroutine function would give an object that is no input."""
    with pytest.raises(UsageError, match=fault):
        made(**options)
