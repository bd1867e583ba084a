"""Prototype of speculation across turns: calls of read-only tools that are made before the model asks for them.

It was measured and left out: see `docs/inside/left-out.md`. It stays here so that the measurement can be repeated.

- A result is used at most once, and only if the model makes the same call within the lifetime.
- A tool that is not read-only discards all results when it starts, and again when it ends. Nothing is tried meanwhile.
- If a tried call fails, the call of the model runs as usual.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Self

import anyio

from eagerstream._support.hosted_tasks import HostedTasks
from eagerstream.errors import UsageError
from eagerstream.tools import RunningCall, Tool


@dataclass(frozen=True)
class Rule:
    """A pattern that a program expects: after a call of one tool, the model calls another one.

    Attributes:
        after, tool: The tool whose result suggests the calls, and the tool to try.
        inputs: Function that returns the inputs to try from a result.

    Raises:
        UsageError: The tool to try is not read-only, or it asks for approval, streams, has a group, or takes a context.
    """

    after: Tool
    tool: Tool
    inputs: Callable[[Any], Iterable[Mapping[str, Any]]]

    def __post_init__(self) -> None:
        tool = self.tool
        needs_more = tool.approve is not None or tool.is_streaming or tool.group is not None or tool.takes_context
        if needs_more or not tool.read_only:
            raise UsageError(f"{tool.name} cannot be tried")


@dataclass
class Report:
    """Counts and seconds of the tried calls.

    Attributes:
        started, hits, wasted: Tried calls, those whose result was used, and the others.
        wasted_s: Seconds for which the wasted ones ran.
    """

    started: int = 0
    hits: int = 0
    wasted: int = 0
    wasted_s: float = 0.0


@dataclass(eq=False)
class _Try:
    """A tried call. `results` is empty until it has returned."""

    started_s: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    ended_s: float | None = None
    results: list[Any] = field(default_factory=list)


class Speculation:
    """Tried calls of one run. `report` has the counts so far.

    Args:
        rules: Patterns that the program expects.
        lifetime_s: Seconds from the start of a tried call for which its result may be used.
        max_calls, max_running: Maximum number of tried calls in all, and at the same time.
    """

    def __init__(self, *rules: Rule, lifetime_s: float = 30.0, max_calls: int = 32, max_running: int = 4) -> None:
        self._rules, self._lifetime_s = rules, lifetime_s
        self._left, self._max_running = max_calls, max_running
        self._running = self._writes = 0
        self._store: dict[str, _Try] = {}
        self._tasks = HostedTasks("speculation")
        self.report = Report()

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Self]:
        """Allow tried calls. When the context is left, those that still run are cancelled."""
        async with self._tasks:
            try:
                yield self
            finally:
                self._discard_all()

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return tools with the same definitions, which use the results of tried calls and start them."""
        return [self._wrapped(tool) for tool in tools]

    def _wrapped(self, tool: Tool) -> Tool:
        async def run(input: dict[str, Any], call: RunningCall) -> Any:
            invoke = partial(tool.invoke, tool.check(input), call)
            if tool.read_only:
                found = await self._take(_key(tool, input))
                returned = found[0] if found else await invoke()
            else:
                self._discard_all()
                self._writes += 1
                try:
                    returned = await invoke()
                except Exception:
                    self._end_write()
                    raise
                self._end_write()  # not after a cancellation: a thread of the call may still write
            self._start(tool, returned)
            return returned

        return Tool(run, definition=tool.to_dict(), read_only=tool.read_only)

    def _end_write(self) -> None:
        self._discard_all()
        self._writes -= 1

    async def _take(self, key: str) -> list[Any]:
        """Return the result of a tried call in a list, which is empty if there is none. Wait if it still runs."""
        tried = self._store.pop(key, None)
        if tried is None:
            return []
        is_hit = False
        try:
            if not self._writes and anyio.current_time() - tried.started_s <= self._lifetime_s:
                await tried.ended.wait()
                is_hit = bool(tried.results)
        finally:
            self.report.hits += is_hit
            if not is_hit:
                self._discard(tried)
        return tried.results if is_hit else []

    def _start(self, tool: Tool, returned: Any) -> None:
        """Try the calls that the rules name after this call."""
        for rule in self._rules:
            if rule.after.name != tool.name or self._writes:
                continue
            room = max(0, min(self._left, self._max_running - self._running))
            with suppress(Exception):  # a rule that fails must not fail the call
                for input in islice(rule.inputs(returned), room):
                    self._try(rule.tool, dict(input))

    def _try(self, tool: Tool, input: dict[str, Any]) -> None:
        arguments, key = tool.check(input), _key(tool, input)
        if key in self._store or tool.rejects(input) is not None:
            return
        tried = self._store[key] = _Try(anyio.current_time())
        self._left -= 1
        self._running += 1
        self.report.started += 1
        self._tasks.group.start_soon(self._run, tool, arguments, tried)

    async def _run(self, tool: Tool, arguments: dict[str, Any], tried: _Try) -> None:
        try:
            with suppress(Exception), tried.scope, anyio.move_on_after(tool.timeout_s or self._lifetime_s):
                tried.results.append(await tool.invoke(arguments))
        finally:
            tried.ended_s = anyio.current_time()
            self._running -= 1
            tried.ended.set()

    def _discard_all(self) -> None:
        while self._store:
            self._discard(self._store.popitem()[1])

    def _discard(self, tried: _Try) -> None:
        tried.scope.cancel()
        self.report.wasted += 1
        self.report.wasted_s += (tried.ended_s or anyio.current_time()) - tried.started_s


def _key(tool: Tool, input: Mapping[str, Any]) -> str:
    """Return the same key for inputs that differ only in defaults or in the order of their members."""
    properties: Any = tool.input_schema.get("properties") or {}
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return f"{tool.name} {json.dumps({**defaults, **input}, sort_keys=True)}"
