"""`SplitExecutor`: tools that have to run here, beside those that an executor of the user's own runs."""

from __future__ import annotations

from collections.abc import Iterable

from ...limits import Limits
from ...tools import Executor, InProcessExecutor, Tool, ToolCall


class SplitExecutor:
    """Has some tools run in this process, and all others by an executor.

    Args:
        here: The tools that run in this process: they need what only the graph under way has.
        elsewhere: Runs all others.
        limits, max_concurrency: For those that run here.
    """

    def __init__(self, here: Iterable[Tool], elsewhere: Executor, *, limits: Limits, max_concurrency: int) -> None:
        tools = list(here)
        self.asks_approval = getattr(elsewhere, "asks_approval", False)
        self._names = {tool.name for tool in tools}
        self._here = InProcessExecutor(tools, limits=limits, max_concurrency=max_concurrency)
        self._elsewhere = elsewhere

    def admit(self, call: ToolCall) -> None:
        """See `Executor.admit`."""
        self._of(call).admit(call)

    async def execute(self, call: ToolCall) -> None:
        """See `Executor.execute`."""
        await self._of(call).execute(call)

    def _of(self, call: ToolCall) -> Executor:
        return self._here if call.name in self._names else self._elsewhere
