"""`TraceLogger`: what happens in a session, one line of JSON for each event."""

from __future__ import annotations

import json
import logging
import secrets
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ....loop import Run
from . import page
from .payload import dump, plain, sanitized
from .statistics import TraceStatistics, TraceStats
from .watching import RunWatcher
from .writing import Background, GrowingLog

_MAX_NAME_CHARS: Final = 200
_MAX_STEP: Final = 2**53
_DRAIN_S: Final = 5.0
"""So long those wait who have to: for what was logged before, behind a disk that does not answer."""

_log = logging.getLogger(__name__)


class TraceLogger:
    """Writes a session's trace to `output_dir/trace-{session_id}.jsonl`, flushed after each event.

    A line is `{"ts", "session_id", "step", "event", "payload"}`, with `ts` in UTC. It may be used from any thread, and
    from processes that are forked: one thread of each process writes.
    Nothing in it raises once it is made: where a file cannot be written any more, the log tells so once, and `stats`
    goes on.

        with TraceLogger() as logger:
            async with logger.watch(eagerstream.run(...)) as run:
                await run.finish()

    Args:
        output_dir: Is made if it is missing, for its owner only.
        sanitize: Keys, tokens, passwords and names of users in paths are masked before anything is written. A payload
            is bounded in any case: see `payload.plain`.
        html_include_raw_response: Show the `raw_response` of a payload in the page.
        html: Write a page for people next to the lines, `trace-{session_id}.html`. It can be read while it grows.

    Raises:
        OSError: The files cannot be made.
    """

    def __init__(
        self,
        output_dir: str | Path = "memory/traces",
        sanitize: bool = True,
        html_include_raw_response: bool = False,
        *,
        html: bool = True,
    ) -> None:
        self.output_dir = Path(output_dir)
        self.sanitize = sanitize
        self.html_include_raw = html_include_raw_response
        self.output_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.session_id, self._lines = _new_session(self.output_dir)
        self.jsonl_path = self._lines.path
        """Where the lines are."""
        self.html_path: Path | None = None
        """Path of the page; `None` without one."""
        self._page: GrowingLog | None = None
        if html:
            self.html_path = self.jsonl_path.with_suffix(".html")
            try:
                self._page = GrowingLog(self.html_path)
            except OSError:
                self._lines.close()
                raise
            self._page.write(page.head(self.session_id, datetime.now(UTC)))
        self._statistics = TraceStatistics()
        self._background = Background()
        self._count = 0
        self._is_final = False
        self._has_told_late = False

    def log_event(self, event: str, payload: Mapping[str, Any], step: int | None = None) -> None:
        """Write an event; on return its line is in the file, behind all that was logged before.

        Args:
            event: What happened, as `tool_call`.
            payload: What is to be said of it; see `payload.plain` for what becomes of things without a JSON form.
            step: Of the loop, from 1.
        """
        self._background.run(partial(self._write, datetime.now(UTC), event, payload, step), _DRAIN_S)

    def log_soon(self, event: str, payload: Mapping[str, Any], step: int | None = None) -> None:
        """As `log_event`, without waiting for the file: for event loops. The payload must stay what it is."""
        self._background.submit(partial(self._write, datetime.now(UTC), event, payload, step))

    def watch(
        self,
        run: Run,
        *,
        agent_name: str = "agent",
        agent_type: str = "eagerstream.run",
        config: Mapping[str, Any] | None = None,
        cost: Callable[[Mapping[str, Any]], float] | None = None,
    ) -> Run:
        """Trace a run, from now to its end, without ever making it wait; see `RunWatcher` for the events.

        Args:
            run: Usually one that has not been entered.
            agent_name, agent_type: What `session_start` says.
            config: That, too; the model where it is None.
            cost: What a reply with this `usage` costs. Without it the trace says 0.0, as its readers expect a number.

        Returns:
            `run` itself.
        """
        known = {"model": run.model} if config is None else config
        session = {"agent_name": agent_name, "agent_type": agent_type, "config": known}
        run.observe(RunWatcher(run, self.log_soon, session, cost))
        return run

    def stats(self) -> TraceStats:
        """What the events so far sum up to."""
        self._background.drain(_DRAIN_S)
        return self._statistics.stats()

    _compute_stats = stats  # programs for HelloAgents call it, for want of a public name

    @property
    def _events(self) -> list[dict[str, Any]]:
        """The records so far, read from the file: programs for HelloAgents look at this list."""
        self._background.drain(_DRAIN_S)
        return [json.loads(line) for line in self.jsonl_path.read_text("utf-8").split("\n") if line]

    @property
    def is_final(self) -> bool:
        """Nothing can be logged any more."""
        return self._is_final

    def finalize(self) -> None:
        """Write what is under way, finish the page, and close the files; once, however often it is called.

        It waits for the files at most 5 s, usually not at all. What is logged afterwards is lost, and the log tells so
        once.
        """
        if not self._background.run(self._finalize, _DRAIN_S):
            _log.warning("%s stays unfinished: it cannot be written", self.jsonl_path.name)

    def _finalize(self) -> None:
        if not self._is_final:
            self._is_final = True
            if self._page is not None:
                self._page.write(page.foot(self._statistics.stats(), self._count))
                self._page.close()
            self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback_: TracebackType | None
    ) -> None:
        """Log an exception of the block as an `error`, and finalize; the exception goes on."""
        if exc_type is not None:
            said = {"error_type": exc_type.__name__, "message": exc, "stacktrace": _stack(exc)}
            self.log_event("error", said)
        self.finalize()

    def _write(self, at: datetime, event: str, payload: Mapping[str, Any], step: int | None) -> None:
        if self._is_final:
            if not self._has_told_late:
                self._has_told_late = True
                _log.warning("%s is final: what is logged now is lost", self.jsonl_path.name)
            return
        shaped = sanitized if self.sanitize else plain
        record = {
            "ts": at.isoformat(timespec="microseconds"),
            "session_id": self.session_id,
            "step": int(step) if isinstance(step, int) and abs(step) < _MAX_STEP else None,
            "event": str(shaped(event))[:_MAX_NAME_CHARS],
            "payload": shaped(payload),
        }
        self._statistics.add(record)
        self._count += 1
        self._lines.write(dump(record) + "\n")
        if self._page is not None and self._count <= page.MAX_EVENTS:
            self._page.write(page.event(record, include_raw=self.html_include_raw))


def _stack(exc: BaseException | None) -> str:
    try:
        return "".join(traceback.format_exception(exc))
    except Exception as error:  # any code of the exception may run in there
        return f"<{type(error).__name__}>"


def _new_session(folder: Path) -> tuple[str, GrowingLog]:
    """An id that no other session has in this folder, and its file."""
    while True:
        session_id = f"s-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        try:
            return session_id, GrowingLog(folder / f"trace-{session_id}.jsonl")
        except FileExistsError:  # there are 65,536 for each second
            continue
