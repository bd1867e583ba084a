"""`CircuitBreaker`: the library's own breaker with the names, the counting and the texts of HelloAgents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

from eagerstream import tools
from eagerstream.tools import NOT_THE_TOOLS_FAULT, CircuitStatus, ToolErrorCode, ToolResponse


@dataclass(repr=False, eq=False)
class CountedResponse(ToolResponse):
    """Response that a breaker has counted. A run that shares the breaker does not count it again."""

    by: tools.CircuitBreaker | None = None

    @classmethod
    def of(cls, response: ToolResponse, by: tools.CircuitBreaker) -> CountedResponse:
        """Return a response as one that has been counted."""
        return cls(**{each.name: getattr(response, each.name) for each in fields(ToolResponse)}, by=by)


class CircuitBreaker(tools.CircuitBreaker):
    """Counter of the failures of each tool. It refuses tools that fail too often, also in `run(circuit_breaker=...)`.

    Args:
        failure_threshold: Number of consecutive failures that open a tool's circuit.
        recovery_timeout: Seconds that the circuit stays open. Then it is closed, with count 0.
        enabled: `False` counts nothing and opens no circuit.
        count_codes: Errors that count: `"all"`, including mistakes of the model, or `"tool"`, only the tool's own.
        clock: Function that returns a time in seconds that never decreases.

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
        """Seconds that an open circuit stays open."""
        return self.recovery_timeout_s

    @recovery_timeout.setter
    def recovery_timeout(self, seconds: float) -> None:
        self.recovery_timeout_s = seconds

    def record(self, name: str, response: ToolResponse) -> None:
        """Count the result of a call, unless this breaker has already counted the response."""
        if not (isinstance(response, CountedResponse) and response.by is self):
            super().record(name, response)

    def record_result(self, tool_name: str, response: ToolResponse) -> None:
        """Count the result of a call, as `record`."""
        self.record(tool_name, response)

    def get_status(self, tool_name: str) -> CircuitStatus:
        """Return the state of a tool's circuit. This changes nothing."""
        return self.status(tool_name)

    def get_all_status(self) -> dict[str, CircuitStatus]:
        """Return the states of all tools that have been called, by name."""
        return self.statuses()

    def refusal(self, name: str) -> ToolResponse | None:
        """Return the answer to calls of a tool with an open circuit, or `None` if the circuit is closed."""
        status = self.status(name)
        if status["state"] == "closed":
            return None
        return ToolResponse.error(
            ToolErrorCode.CIRCUIT_OPEN,
            f"工具 '{name}' 当前被禁用，由于连续失败。{status['recover_in_seconds']} 秒后可用。",
            context={"tool_name": name, "circuit_status": status},
        )
