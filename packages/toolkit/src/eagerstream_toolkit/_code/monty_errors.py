"""`Sources`: errors of Monty in terms of the model's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .sandbox import StatementEnd, StatementResult
from .statements import Statement

if TYPE_CHECKING:
    from pydantic_monty import Frame, MontyError

_MAX_ERROR_CHARS: Final = 2_000
_MAX_LINE_CHARS: Final = 200
_MAX_FRAMES: Final = 5
"""Frames to show at each end of a traceback."""


class Sources:
    """The places of the statements of a session. Monty counts the lines of each from 1."""

    def __init__(self) -> None:
        self._feeds = 0
        self._part = 0
        self._places: dict[str, tuple[int, int]] = {}
        """The part and the first line of each statement, by the name that Monty gives to it."""

    def begin_part(self) -> None:
        """Begin the code of another call of `run_code`."""
        self._part += 1

    def add(self, statement: Statement | None) -> None:
        """Count what is fed to Monty: a statement, or code of ours."""
        if statement is not None:
            self._places[f"<python-input-{self._feeds}>"] = self._part, statement.line
        self._feeds += 1

    def result(self, error: MontyError) -> StatementResult:
        """Return the end of the statement that failed with an error."""
        import pydantic_monty as monty

        frames: list[Frame] = []
        if isinstance(error, monty.MontySyntaxError | monty.MontyRuntimeError):
            frames = error.traceback()
        text = message_of(error)
        # Only what Monty does not compile has no frame of a function or module: Python's errors, and its own gaps.
        is_invalid = frames[-1].function_name is None if frames else isinstance(error, monty.MontySyntaxError)
        if is_invalid:
            for frame in frames:
                if (place := self._places.get(frame.filename)) is not None:
                    text += f" (line {place[1] - 1 + frame.line}){_source_of(frame)}"
                    break
            return StatementResult(StatementEnd.INVALID, text)
        shown = self._shown(frames)
        return StatementResult(StatementEnd.RAISED, "\n".join([*(["Traceback:"] if shown else []), *shown, text]))

    def _shown(self, frames: Sequence[Frame]) -> list[str]:
        found = [frame for frame in frames if frame.filename in self._places or frame.filename == "<string>"]
        shown = [self._frame(frame) for frame in found]
        if (left_out := len(found) - 2 * _MAX_FRAMES) > 0:
            shown[_MAX_FRAMES:-_MAX_FRAMES] = [f"  ... {left_out} more"]
        return shown

    def _frame(self, frame: Frame) -> str:
        part, first = self._places.get(frame.filename, (None, 1))
        where = f"line {first - 1 + frame.line}"
        if part is None:
            where += " of the code in a string"  # of `exec` or `eval`
        elif part != self._part:
            where += " of an earlier call"
        if frame.function_name not in (None, "<module>"):
            where += f", in {frame.function_name:.{_MAX_LINE_CHARS}}"
        return f"  {where}{_source_of(frame)}"


def message_of(error: MontyError) -> str:
    """Return `Class: message`, within a bound."""
    display = getattr(error, "display", None)
    text: str = display("type-msg") if display is not None else str(error)
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}... ({len(text)} characters)"


def _source_of(frame: Frame) -> str:
    line = (frame.source_line or "").strip().partition("\n")[0]
    return f"\n    {line[:_MAX_LINE_CHARS]}" if line else ""
