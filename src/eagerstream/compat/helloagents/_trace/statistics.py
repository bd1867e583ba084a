"""Statistics of the records of a trace."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypedDict

_MAX_ERRORS: Final = 1_000
_MAX_TOOLS: Final = 1_000
_MAX_NAME_CHARS: Final = 200
_OTHERS: Final = "(others)"


class TraceError(TypedDict):
    """Summary of an `error` event: its step, and the type and message of its payload."""

    step: int | None
    type: Any
    message: Any


class TraceStats(TypedDict):
    """Statistics of a session.

    Attributes:
        total_steps: The highest step.
        total_tokens, total_cost: Sums over the `usage` of all model outputs.
        model_calls: Number of model outputs.
        tool_calls: Number of calls by tool name, for the first thousand names. The others count as `(others)`.
        errors: The first thousand errors.
        duration_seconds: Time from the last `session_start` to the last `session_end`, or 0 if one is missing.
    """

    total_steps: int
    total_tokens: int
    total_cost: float
    model_calls: int
    tool_calls: dict[str, int]
    errors: list[TraceError]
    duration_seconds: float


class TraceStatistics:
    """Accumulator of the statistics, which keeps no records.

    You can also use it for a trace in a file: `for line in file: statistics.add(json.loads(line))`. Fields that are
    missing or have another form do not count.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._tokens = 0
        self._cost = 0.0
        self._model_calls = 0
        self._tool_calls: dict[str, int] = {}
        self._errors: list[TraceError] = []
        self._moments: dict[str, datetime] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a record: `{"ts", "session_id", "step", "event", "payload"}`."""
        step = record.get("step")
        step = step if type(step) is int else None
        payload = record.get("payload")
        payload = payload if isinstance(payload, Mapping) else {}
        self._steps = max(self._steps, step or 0)
        match record.get("event"):
            case "session_start" | "session_end" as event:
                moment = _moment(record.get("ts"))
                if moment is not None:
                    self._moments[event] = moment
            case "model_output":
                usage = payload.get("usage")
                usage = usage if isinstance(usage, Mapping) else {}
                self._tokens += int(_count(usage.get("total_tokens")))
                self._cost += _count(usage.get("cost"))
                self._model_calls += 1
            case "tool_call":
                name = str(payload.get("tool_name", "unknown"))[:_MAX_NAME_CHARS]
                if name not in self._tool_calls and len(self._tool_calls) >= _MAX_TOOLS:
                    name = _OTHERS
                self._tool_calls[name] = self._tool_calls.get(name, 0) + 1
            case "error" if len(self._errors) < _MAX_ERRORS:
                told = TraceError(step=step, type=payload.get("error_type"), message=payload.get("message"))
                self._errors.append(told)

    def stats(self) -> TraceStats:
        """Return a copy of the current statistics."""
        start, end = self._moments.get("session_start"), self._moments.get("session_end")
        return {
            "total_steps": self._steps,
            "total_tokens": self._tokens,
            "total_cost": self._cost,
            "model_calls": self._model_calls,
            "tool_calls": dict(self._tool_calls),
            "errors": [error.copy() for error in self._errors],
            "duration_seconds": (end - start).total_seconds() if start and end else 0.0,
        }


def _count(value: object) -> float:
    """Return a finite number, or 0 for any other value."""
    return value if type(value) in (int, float) and isinstance(value, int | float) and math.isfinite(value) else 0


def _moment(ts: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(ts) if isinstance(ts, str) else None
    except ValueError:
        return None
    return moment.astimezone() if moment is not None else None  # without an offset: local
