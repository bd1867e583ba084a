"""Logs of runs made by hand: a test decides what a page, or whoever else watches, gets to see."""

from __future__ import annotations

from typing import Any

from tests.patches import Patches

from eagerstream_progress import Hub, RunLog


def made_log(id: str = "run_1", *, name: str | None = "made", texts: int = 3, **options: Any) -> RunLog:
    """A run that is under way: its text comes in so many pieces, numbered from 5 on."""
    log = RunLog(id, name=name, **options)
    records: list[Any] = [
        {"type": "run_start", "run": id, "started_at": "2026-11-22T10:00:00Z", "name": name, "model": "m"},
        {"type": "turn_start", "turn": 1},
        {"type": "message_start", "id": "msg_1", "model": "m", "restarted": False},
        {"type": "block_start", "block": 1, "index": 0, "kind": "text"},
    ]
    add(log, *records)
    for number in range(texts):
        add(log, {"type": "text_delta", "block": 1, "text": f"{number} "})
    return log


def add(log: RunLog, *records: Any) -> None:
    """Add records, numbered and timed."""
    record: Any
    for record in records:
        record = {"v": 1, "seq": log.seq + 1, "at_s": 0.1 * log.seq, **record}
        log.append([record])


def hub_of(*logs: RunLog) -> Hub:
    """A hub that shows them."""
    hub = Hub()
    for log in logs:
        hub.add(log)
    return hub


class MadeCall:
    """A tool call that is written into a log piece by piece."""

    def __init__(self, log: RunLog, block: int, name: str, *, input: dict[str, Any] | None = None) -> None:
        self._log = log
        self._block = block
        self._patches = Patches()
        self.raw = ""
        start = {"index": block, "id": f"toolu_{block}", "name": name, "kind": "tool_use", "input": input}
        self.add("input_start", **start)

    def add(self, type: str, **fields: Any) -> None:
        """A record about this call."""
        add(self._log, {"type": type, "block": self._block, **fields})

    def write(self, fragment: str) -> None:
        """More of its input."""
        self.raw += fragment
        patch = self._patches.feed(fragment)
        self.add("input_delta", fragment=fragment, patch=patch, finished=self._patches.finished)

    def stop(self, outcome: str = "valid", error: str | None = None) -> None:
        """The end of its input."""
        self.add("input_stop", outcome=outcome, error=error)

    def run(self, content: Any = "ok", *, is_error: bool = False) -> None:
        """The tool runs, and has a result."""
        self.add("tool_start")
        self.add("tool_stop", ran=True, is_error=is_error, content=content)
