"""`CircuitBreaker`: the library's own, by the names, the counting and the words of HelloAgents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal

from ... import tools
from ...tools import NOT_THE_TOOLS_FAULT, CircuitStatus, ToolErrorCode, ToolResponse


@dataclass(repr=False, eq=False)
class CountedResponse(ToolResponse):
    """A response that a breaker has counted: a run that shares the breaker does not count it again."""

    by: tools.CircuitBreaker | None = field(default=None)

    @classmethod
    def of(cls, response: ToolResponse, by: tools.CircuitBreaker) -> CountedResponse:
        """A response, as one that has been counted."""
        return cls(**{each.name: getattr(response, each.name) for each in fields(ToolResponse)}, by=by)


class CircuitBreaker(tools.CircuitBreaker):
    """Counts the failures of each tool, and says which are to be left alone; one for `run(circuit_breaker=...)`, too.

    Args:
        failure_threshold: Failures in a row that open a tool's circuit.
        recovery_timeout: Seconds for which it then stays open; after more than these it is closed, its count 0.
        enabled: False counts nothing and opens nothing.
        count_codes: Which errors count: `"all"`, also those that the model made, or `"tool"`, the tool's own.
        clock: Tells the time in seconds; never falling.

    Raises:
        UsageError: A number is out of range.
    """

    def __init__(
        self,
        failure_threshold: int = 3,
        recovery_timeout: float = 300,
        enabled: bool = True,
        *,
        count_codes: Literal["all", "tool"] = "all",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        ignored = () if count_codes == "all" else NOT_THE_TOOLS_FAULT
        super().__init__(failure_threshold, recovery_timeout, enabled=enabled, ignored_codes=ignored, clock=clock)

    @property
    def recovery_timeout(self) -> float:
        """Seconds for which an open circuit stays open."""
        return self.recovery_timeout_s

    @recovery_timeout.setter
    def recovery_timeout(self, seconds: float) -> None:
        self.recovery_timeout_s = seconds

    def record(self, name: str, response: ToolResponse) -> None:
        """What a call of a tool came to; nothing for a response that this breaker has counted already."""
        if not (isinstance(response, CountedResponse) and response.by is self):
            super().record(name, response)

    def record_result(self, tool_name: str, response: ToolResponse) -> None:
        """What a call of a tool came to."""
        self.record(tool_name, response)

    def get_status(self, tool_name: str) -> CircuitStatus:
        """How the circuit of a tool is. Asking changes nothing."""
        return self.status(tool_name)

    def get_all_status(self) -> dict[str, CircuitStatus]:
        """The same for all tools that have been called, by name."""
        return self.statuses()

    def refusal(self, name: str) -> ToolResponse | None:
        """What a call of a tool is answered with while its circuit is open; None while it is closed."""
        status = self.status(name)
        if status["state"] == "closed":
            return None
        return ToolResponse.error(
            ToolErrorCode.CIRCUIT_OPEN,
            f"工具 '{name}' 当前被禁用，由于连续失败。{status['recover_in_seconds']} 秒后可用。",
            context={"tool_name": name, "circuit_status": status},
        )
