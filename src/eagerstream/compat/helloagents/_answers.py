"""What a call came to: a `ToolResponse` with its time and its context, and the line that people read of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy
from functools import partial
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from time import perf_counter
from typing import Any, Literal, assert_never

from ...errors import ToolError, UsageError
from ...tools import InputError, Kind, ToolErrorCode, ToolResponse, ToolStatus, error_response, invoke
from ...wire import check_choice
from .._sync import SyncLoop, in_event_loop


def as_tool_response(answer: object) -> ToolResponse:
    """What a tool returned as a response: itself where it is one, else a success with its text.

    `data` then is `{"output": answer}`.
    """
    if isinstance(answer, ToolResponse):
        return answer
    return ToolResponse.success(str(answer), {"output": answer})


def failure(error: BaseException, said: str, code: str) -> ToolResponse:
    """What a tool raised as an error response: `said: message`.

    An exception that was made for the model (`ToolError`) speaks for itself, with its own code.

    Args:
        error: The exception.
        said: What went wrong in general.
        code: Of an exception that stands for no code of its own, as `FileNotFoundError` does for `NOT_FOUND`.
    """
    response = error_response(error)
    if isinstance(error, ToolError) or response.content:
        return response
    own = "Error" if isinstance(error, InputError) else type(error).__name__
    found = response.code if response.code not in (None, ToolErrorCode.EXECUTION_ERROR) else None
    return ToolResponse.error(found or code, f"{said}: {response.text.removeprefix(f'{own}: ')}")


def stamped(response: ToolResponse, started_s: float, context: Mapping[str, Any]) -> ToolResponse:
    """Return a response with the time since `started_s` (of `perf_counter`), in milliseconds, and its context.

    The time is `stats["time_ms"]`, or `stats["wall_ms"]` if the tool has taken a time itself.
    """
    stats = dict(response.stats or {})
    stats["wall_ms" if "time_ms" in stats else "time_ms"] = int((perf_counter() - started_s) * 1000)
    copied = copy(response)  # of a subclass, too, whatever its constructor takes
    text: object = response.text  # a number or nothing, of programs without types
    copied.text = "" if text is None else str(text)
    copied.stats = stats
    copied.context = {**(response.context or {}), **context}
    ToolResponse.__post_init__(copied)  # what was set afterwards is checked, too
    return copied


class AsyncToolInLoopError(UsageError):
    """A tool that is asynchronous was called by a plain call inside an event loop, which cannot wait for it."""


def finished(returned: object, name: str) -> object:
    """What a tool returned, after it has been awaited where it has to be.

    That is done on the event loop of all synchronous calls: a client that the tool keeps can be used by the next one.

    Of a generator the last value counts.

    Raises:
        AsyncToolInLoopError: An event loop runs in this thread already.
    """
    if isgenerator(returned) and not isawaitable(returned):
        last = deque(returned, maxlen=1)
        return last[0] if last else None
    if not (isawaitable(returned) or isasyncgen(returned)):
        return returned
    if in_event_loop():
        if iscoroutine(returned):
            returned.close()
        raise AsyncToolInLoopError(
            f"the tool {name} is asynchronous, and this is inside an event loop: "
            "await registry.aexecute_tool(...), or the tool's arun_with_timing(...)"
        )
    return SyncLoop.shared().call(partial(_result_of, returned))


async def _result_of(returned: Any) -> object:
    if isasyncgen(returned):
        return await invoke(lambda: returned, None, kind=Kind.GENERATOR)
    return await returned


def render(response: ToolResponse, style: Literal["doc", "agent"] = "doc") -> str:
    """A response as text, its status first.

    Args:
        response: What a tool answered.
        style: `"doc"` as in the document of the protocol, `"agent"` as agents of HelloAgents hand it to their model: a
            success is its text alone there, and a partial one says what it is.

    Raises:
        UsageError: There is no such style.
    """
    check_choice("style", style, ("doc", "agent"))
    match response.status:
        case ToolStatus.SUCCESS:
            return response.text if style == "agent" else f"✅ {response.text}"
        case ToolStatus.PARTIAL:
            return f"⚠️ 部分成功: {response.text}" if style == "agent" else f"⚠️ {response.text}"
        case ToolStatus.ERROR:
            return f"❌ 错误 [{response.code}]: {response.text}"
        case _:
            assert_never(response.status)
