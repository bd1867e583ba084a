"""Request, run tools, send results, until a stop reason ends it."""

from __future__ import annotations

from .loop import Run, RunEvent, RunResult, RunStatus, ToolStart, ToolStop, TurnStart, TurnStop, run

__all__ = ["Run", "RunEvent", "RunResult", "RunStatus", "ToolStart", "ToolStop", "TurnStart", "TurnStop", "run"]
