"""Helpers for the framework adapters: options of `EarlyCalls`, single calls, and unreadable responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from eagerstream._support.logs import logger_of
from eagerstream.calls import EarlyCalls, callable_tools
from eagerstream.limits import DEFAULT_LIMITS, Limits
from eagerstream.tools import CircuitBreaker, Executor, ForeignTool, Tool, ToolCall, as_tool

from .tool_call_chunks import ToolCallChunks

_log = logger_of(__name__)


class ExecutorOptions(TypedDict, total=False):
    """Options of `EarlyCalls` for the executor and its bounds."""

    executor: Executor | None
    max_concurrency: int
    circuit_breaker: CircuitBreaker | None
    limits: Limits


class Listeners(TypedDict, total=False):
    """Options of `EarlyCalls` for callbacks about calls."""

    on_start: Callable[[ToolCall], object] | None
    on_progress: Callable[[ToolCall, Any], object] | None
    on_stop: Callable[[ToolCall], object] | None


class RunOptions(TypedDict, total=False):
    """Options of `EarlyCalls` for the framework's run."""

    run_id: str | None
    when_over: Callable[[Callable[[], object]], object] | None


class CallOptions(ExecutorOptions, Listeners, total=False):
    """Executor options and listeners together."""


def sharing_executor(
    tools: Sequence[ForeignTool | Mapping[str, Any]],
    *,
    executor: Executor | None = None,
    max_concurrency: int = 16,
    circuit_breaker: CircuitBreaker | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[list[Tool], ExecutorOptions]:
    """Return the tools that can be called, and options that share one executor among any number of `EarlyCalls`.

    Raises:
        UsageError: A tool cannot be run, two tools share a name, or `executor` conflicts with another option.
    """
    _, executor = callable_tools(
        tools, executor, limits=limits, max_concurrency=max_concurrency, circuit_breaker=circuit_breaker
    )
    # The framework sends the definition of a server tool, which has no function.
    found = [found for tool in tools if (found := as_tool(tool, runs_elsewhere=True)) is not None]
    return found, {"executor": executor, "limits": limits}


def feed_call(feed: Callable[[Mapping[str, Any]], Any], id: str | None, name: str, arguments: object) -> None:
    """Feed a response that consists of one complete call. Its arguments are JSON text or an object."""
    chunks = ToolCallChunks(feed)
    chunks.piece(id=id, name=name, arguments=arguments)
    chunks.end("tool_use")


async def run_call(calls: EarlyCalls, id: str | None, name: str, arguments: object) -> ToolCall:
    """Run one complete call, and return it with its result. Cancelling this cancels the tool."""
    async with calls:
        feed_call(calls.feed, id, name, arguments)
        [call] = await calls.finish()
    return call


def void_reply(calls: EarlyCalls, error: Exception) -> None:
    """Cancel the calls of an unreadable response, and log the error. Otherwise their tools would wait forever."""
    _log.warning("no further tools of this response start early: %s", error)
    calls.feed({"type": "message_start", "message": {"role": "assistant", "content": []}})
