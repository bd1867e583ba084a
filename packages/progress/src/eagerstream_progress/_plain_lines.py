"""A run as plain lines, one for each change, for a pipe, a file or a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from eagerstream._support.wording import clean, value_text, visible

from ._fold import CallPhase
from ._frame import status_line
from ._lines import LineProgress, LineState
from ._record import Record
from ._view import CallView, RunView, TextView, sub_run_text, thinking_text

_PROGRESS_S: Final = 1.0
"""Minimum time between two lines about the progress of a tool."""
_OUTPUT_CHARS: Final = 240


class PlainLines:
    """Writes a line for each change that the records of a run make.

    Args:
        write: Receives a line without its line end.
        title: Added to each line, to distinguish several runs.
    """

    def __init__(self, write: Callable[[str], object], title: str = "") -> None:
        self._write = write
        self._title = f"{clean(title)}  " if title else ""
        self._told: dict[int, tuple[CallPhase | None, int]] = {}  # by block: reported phase, number of finished fields
        self._progress_s: dict[int, float] = {}  # by block: time of the next progress report
        self._text: list[str] = []  # the unfinished line

    def feed(self, record: Record, view: RunView, call: CallView | None) -> None:
        """Report a record. `view` has read it already.

        Args:
            record: The record.
            view: The state of the run after the record.
            call: The call that the record is about, if any.
        """
        at_s = record["at_s"]
        match record["type"]:
            case "run_resumed":
                self._end_line(at_s)
                self._say(at_s, view.gaps[-1])
            case "turn_start":
                self._say(at_s, f"turn {record['turn']}")
            case "text_delta":
                *lines, rest = record["text"].split("\n")
                for line in lines:
                    self._text.append(line)
                    self._end_line(at_s)
                self._text.append(rest)
            case "block_stop" | "message_stop":
                self._end_line(at_s)
                item = view.items[-1] if view.items else None
                if record["type"] == "block_stop" and isinstance(item, TextView) and item.kind == "thinking":
                    self._say(at_s, thinking_text(item))
                if call is not None:  # the result of a call that the API ran
                    self._tell(call, at_s)
            case "restarted":
                self._end_line(at_s)
                self._say(at_s, f"turn {record['turn']} restarts: {record['reason']}")
            case "message_start" if record["restarted"]:
                self._end_line(at_s)
                self._say(at_s, "the response restarts")
            case "run_stop":
                self._end_line(at_s)
                if view.error is not None:
                    self._say(at_s, f"error: {clean(view.error)}")
                if violations := record.get("violations"):
                    self._say(at_s, f"violations of the protocol by the peer: {violations}")
                self._say(at_s, status_line(view, at_s).plain)
            case _:
                if call is not None:
                    self._tell(call, at_s)
                    if record["type"] == "tool_progress":
                        self._tell_progress(call, at_s)
                    elif record["type"] in ("sub_run_start", "sub_run_stop"):
                        run = cast("dict[str, Any]", record)["run"]
                        self._say_of(call, f"↳ {sub_run_text(call.sub_runs[run])}", at_s)

    def _tell(self, call: CallView, at_s: float) -> None:
        phase, fields = self._told.get(call.block, (None, 0))
        self._told[call.block] = call.phase, len(call.finished)
        for name in call.finished[fields:]:
            self._say_of(call, f"✓ {clean(name)}", at_s)
        if call.phase is not phase:
            result = f": {clean(call.result_text)}" if call.phase.is_final and call.result_text else ""
            counts = f" {call.diff.counts}" if call.diff is not None else ""
            self._say_of(call, f"{call.phase.value}{counts}{result}", at_s)

    def _tell_progress(self, call: CallView, at_s: float) -> None:
        lines = LineProgress.of(call.progress, call.partial)
        if lines is not None and lines.line == 0:
            return  # nothing has started
        has_failed = lines is not None and lines.line_state is LineState.FAILED
        if at_s < self._progress_s.get(call.block, 0.0) and not has_failed:
            return
        self._progress_s[call.block] = at_s + _PROGRESS_S
        told = [f"{'✗' if has_failed else '▸'} {value_text(call.progress) if lines is None else lines.summary}"]
        if lines is not None:
            told += (f"“{clean(each)}”" for each in lines.output_lines(1, _OUTPUT_CHARS))
        self._say_of(call, " · ".join(told), at_s)

    def _say_of(self, call: CallView, what: str, at_s: float) -> None:
        self._say(at_s, f"{clean(call.name):<12} {call.bytes:>6,} bytes  {what}")

    def _end_line(self, at_s: float) -> None:
        text = visible("".join(self._text)).strip()
        self._text.clear()
        if text:
            self._say(at_s, f"“{clean(text)}”")

    def _say(self, at_s: float, what: str) -> None:
        self._write(f"{at_s:6.2f} s  {self._title}{what}")
