"""`CircuitBreaker`: stops the calls of a tool that fails repeatedly, for a while.

Each call of a broken tool costs a turn, and often a time-out. With a breaker, the model learns at once that the tool is
out of order, and for how long. The protocol is that of HelloAgents: closed, open, closed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from eagerstream_wire._checks import check_count, check_seconds

from ..errors import UsageError
from ._response import ToolErrorCode, ToolResponse, ToolStatus

NOT_THE_TOOLS_FAULT: Final = frozenset(
    {
        ToolErrorCode.INVALID_PARAM,
        ToolErrorCode.INVALID_FORMAT,
        ToolErrorCode.NOT_FOUND,
        ToolErrorCode.ALREADY_EXISTS,
        ToolErrorCode.PERMISSION_DENIED,
        ToolErrorCode.ACCESS_DENIED,
        ToolErrorCode.CONFLICT,
        ToolErrorCode.IS_DIRECTORY,
        ToolErrorCode.BINARY_FILE,
        ToolErrorCode.CIRCUIT_OPEN,
    }
)
"""Codes of errors caused by a call, not by the tool: a healthy tool returns them too."""


class CircuitStatus(TypedDict):
    """The status of a tool's circuit.

    Attributes:
        state: `"open"`: the tool is not called.
        failure_count: Number of consecutive failures.
        open_since: Time when it opened, in seconds since 1970. Only if it is open.
        recover_in_seconds: Seconds until it closes by itself, rounded up. Only if it is open.
    """

    state: Literal["closed", "open"]
    failure_count: int
    open_since: NotRequired[float]
    recover_in_seconds: NotRequired[int]


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    opened_s: float | None = None  # by the breaker's clock
    open_since: float = 0.0


class CircuitBreaker:
    """Counts the failures of each tool, and stops the calls of tools that fail repeatedly.

    Pass it to `run(circuit_breaker=...)`. If several runs share one breaker, it counts over all of them. It is
    thread-safe.

    A failure is an error of a tool that was called: an exception, a time-out, or an error response. A success, even a
    partial one, resets the count. A call that never reached its tool does not count: its input was not JSON or did not
    fit, or it was rejected, refused or cancelled. Errors with one of `ignored_codes` do not count either.

    Args:
        failure_threshold: Number of consecutive failures that open a tool's circuit.
        recovery_timeout_s: Seconds for which it then stays open. After that it is closed, with a count of 0.
        enabled: False counts no failures and opens no circuit. If it is switched off later, every circuit is closed.
        ignored_codes: Codes of errors that neither count nor reset the count. If it is empty, every error counts.
        clock: Returns the time in seconds. It must never decrease.

    Raises:
        UsageError: A number is out of range, or `ignored_codes` is a single text.
    """

    def __init__(
        self,
        failure_threshold: int = 3,
        recovery_timeout_s: float = 300.0,
        *,
        enabled: bool = True,
        ignored_codes: Collection[str] = NOT_THE_TOOLS_FAULT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_count("failure_threshold", failure_threshold)
        check_seconds("recovery_timeout_s", recovery_timeout_s)
        if isinstance(ignored_codes, str):  # its letters would become the codes
            raise UsageError(f"ignored_codes must be a collection of codes, not {ignored_codes!r}")
        self.failure_threshold = failure_threshold
        self.recovery_timeout_s = recovery_timeout_s
        self.enabled = enabled
        self._ignored_codes = frozenset(ignored_codes)
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        open_ones = [name for name, status in self.statuses().items() if status["state"] == "open"]
        return f"<CircuitBreaker, open: {', '.join(open_ones) or 'none'}>"

    def is_open(self, name: str) -> bool:
        """Return True if calls of this tool are stopped."""
        return self.status(name)["state"] == "open"

    def status(self, name: str) -> CircuitStatus:
        """Return the status of a tool's circuit, without changing it. An unknown tool has a closed one."""
        with self._lock:
            return self._status(self._circuits.get(name) or _Circuit())

    def statuses(self) -> dict[str, CircuitStatus]:
        """Return the status of all tools that have been called, by name."""
        with self._lock:
            return {name: self._status(circuit) for name, circuit in self._circuits.items()}

    def record(self, name: str, response: ToolResponse) -> None:
        """Record the response of a call."""
        if not self.enabled:
            return
        with self._lock:
            circuit = self._circuits.setdefault(name, _Circuit())
            if self._has_recovered(circuit):
                self._circuits[name] = circuit = _Circuit()
            if circuit.opened_s is not None:
                return  # the call was already running when the circuit opened
            if response.status is not ToolStatus.ERROR:
                circuit.failures = 0
            elif response.code not in self._ignored_codes:
                circuit.failures += 1
                if circuit.failures >= self.failure_threshold:
                    self._open(circuit)

    def open(self, name: str) -> None:
        """Stop the calls of a tool for `recovery_timeout_s`. If the breaker is not enabled, do nothing."""
        if self.enabled:
            with self._lock:
                self._open(self._circuits.setdefault(name, _Circuit()))

    def close(self, name: str) -> None:
        """Allow calls of a tool again, and reset its count."""
        with self._lock:
            self._circuits[name] = _Circuit()

    def refusal(self, name: str) -> ToolResponse | None:
        """Return the answer to calls of a tool while its circuit is open; None while it is closed."""
        status = self.status(name)
        if status["state"] == "closed":
            return None
        text = (
            f"The tool {name} is out of order: it failed {status['failure_count']} times in a row. "
            if status["failure_count"]
            else f"The tool {name} has been switched off. "
        )
        return ToolResponse.error(
            ToolErrorCode.CIRCUIT_OPEN,
            f"{text}It can be used again in {status['recover_in_seconds']} seconds.",
            context={"tool_name": name, "circuit_status": status},
        )

    def _open(self, circuit: _Circuit) -> None:
        circuit.opened_s = self._clock()
        circuit.open_since = time.time()

    def _has_recovered(self, circuit: _Circuit) -> bool:
        return circuit.opened_s is not None and self._clock() - circuit.opened_s > self.recovery_timeout_s

    def _status(self, circuit: _Circuit) -> CircuitStatus:
        if circuit.opened_s is None or not self.enabled:
            return {"state": "closed", "failure_count": circuit.failures}
        if self._has_recovered(circuit):
            return {"state": "closed", "failure_count": 0}
        left_s = circuit.opened_s + self.recovery_timeout_s - self._clock()
        return {
            "state": "open",
            "failure_count": circuit.failures,
            "open_since": circuit.open_since,
            "recover_in_seconds": max(0, -int(-left_s // 1)),
        }
