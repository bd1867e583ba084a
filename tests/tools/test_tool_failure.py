"""Exceptions that a tool did not mean for the model: they are logged where they happened, without any value."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from eagerstream.errors import InputInterrupted, ToolError
from eagerstream.tools import InProcessExecutor, ToolCall, ToolFailure, report_failure, tool, watch_failures
from tests.tools.calls import a_call


class _NotFound(ToolError):
    """A tool's own kind of answer."""


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def _line(failure: ToolFailure | None) -> str:
    assert failure is not None
    return f"{failure.error} {[frame.rpartition(' ')[2] for frame in failure.frames]}"


def _lookup(secret: str) -> str:
    return {"a": "b"}[secret]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_a_bug_in_a_tool(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the tool, the class and each place in the code; not the argument that the exception quotes."""
    if kind == "async def":

        @tool
        async def find(secret: str) -> str:
            """Find."""
            return _lookup(secret)
    else:

        @tool
        def find(secret: str) -> str:
            """Find."""
            return _lookup(secret)

    call = a_call("find", '{"secret": "hunter2"}')
    await InProcessExecutor([find]).execute(call)
    assert isinstance(call.error, KeyError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    first, *frames = record.getMessage().splitlines()
    assert first == "the tool 'find' raised KeyError"
    assert re.fullmatch(rf"  {re.escape(__file__)}:\d+ in .*find", frames[-2])
    assert re.fullmatch(rf"  {re.escape(__file__)}:\d+ in _lookup", frames[-1])
    assert "hunter2" not in caplog.text
    assert "/eagerstream/tools/" not in record.getMessage()


async def _execute(kind: str) -> ToolCall:
    @tool(timeout_s=0.01 if kind == "late" else None)
    async def find() -> str:
        """Find."""
        match kind:
            case "ToolError":
                raise ToolError("no such thing")
            case "a subclass":
                raise _NotFound("no such thing")
            case "another library's":
                raise type("ToolError", (Exception,), {})("no such thing")  # as the anthropic package has one
            case _:
                await anyio.sleep_forever()
        return ""

    call = a_call("find", '{"more": 1}' if kind == "bad arguments" else "{}")
    with anyio.move_on_after(0.01 if kind == "cancelled" else 10):
        await InProcessExecutor([find]).execute(call)
    return call


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["ToolError", "a subclass", "another library's", "late", "bad arguments", "cancelled"])
async def test_what_is_no_bug(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """An answer that a tool makes for the model, its time limit, arguments that do not fit, a cancellation."""
    await _execute(kind)
    assert not caplog.records


def test_groups() -> None:
    """The classes of the members are listed, with the places of the first; those made for the model are left out."""
    members: list[Any] = [ToolError("words"), _raised(KeyError("k")), ExceptionGroup("inner", [_raised(OSError(5))])]
    failure = ToolFailure.of("t", _raised(ExceptionGroup("outer", members)))
    assert _line(failure) == "KeyError, OSError ['_raised', '_raised']"
    assert ToolFailure.of("t", ExceptionGroup("outer", [ToolError("words"), InputInterrupted((), "cut")])) is None
    many = ToolFailure.of("t", ExceptionGroup("outer", [KeyError(n) for n in range(9)]))
    assert many is not None
    assert many.error == ", ".join([*["KeyError"] * 5, "4 more"])


def test_a_deep_stack() -> None:
    """The innermost places are kept."""

    def deep(levels: int) -> None:
        if not levels:
            _lookup("x")
        deep(levels - 1)

    with pytest.raises(KeyError) as raised:
        deep(100)
    failure = ToolFailure.of("t", raised.value)
    assert failure is not None
    assert len(failure.frames) == 20
    assert failure.frames[-1].endswith("in _lookup")


def test_what_another_process_writes() -> None:
    """Only texts are taken."""
    with pytest.raises(TypeError):
        ToolFailure.bring(KeyError(), {"error": "KeyError", "frames": [1]})
    with pytest.raises(TypeError):
        ToolFailure.bring(KeyError(), {"error": 1, "frames": []})


def test_only_our_own_code() -> None:
    """Then its places are shown."""
    failure = ToolFailure.of("t", _raised_by_us())
    assert failure is not None
    assert all(str(Path("eagerstream", "tools")) in frame for frame in failure.frames[-1:])


def _raised_by_us() -> BaseException:
    try:
        ToolFailure.bring(None, None)  # type: ignore[arg-type]
    except TypeError as error:
        own = error.__traceback__
        assert own is not None
        return error.with_traceback(own.tb_next)
    raise AssertionError


def test_watchers() -> None:
    """They get each failure until they are stopped, which may be done twice."""
    seen: list[ToolFailure] = []
    stop = watch_failures(seen.append)
    report_failure("t", KeyError())
    report_failure("t", ToolError("words"))
    report_failure("t", None)
    for _ in range(2):
        stop()
    report_failure("t", KeyError())
    assert seen == [ToolFailure("t", "KeyError", ())]
