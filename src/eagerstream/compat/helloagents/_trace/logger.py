"""`TraceLogger`: a trace of a session, one line of JSON for each event."""

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
"""Maximum wait for earlier events, if a disk does not answer."""

_log = logging.getLogger(__name__)


class TraceLogger:
    """Writer of a session's trace to `output_dir/trace-{session_id}.jsonl`, flushed after each event.

    A line is `{"ts", "session_id", "step", "event", "payload"}`, with `ts` in UTC. You may use it from any thread, and
    from forked processes: one thread of each process writes.

    After construction, no method raises. If a file can no longer be written, one warning is logged, and `stats`
    continues.

        with TraceLogger() as logger:
            async with logger.watch(eagerstream.run(...)) as run:
                await run.finish()

    Args:
        output_dir: Folder of the files. If missing, it is made for its owner only.
        sanitize: Whether to mask keys, tokens, passwords and user names in paths. A payload is always bounded: see
            `payload.plain`.
        html_include_raw_response: Whether the page shows the `raw_response` of a payload.
        html: Whether to write a page as well, `trace-{session_id}.html`. You can read it while it grows.

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
        self.output_dir: Path = Path(output_dir)
        self.sanitize = sanitize
        self.html_include_raw = html_include_raw_response
        self.output_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.session_id: str
        self.session_id, self._lines = _new_session(self.output_dir)
        self.jsonl_path: Path = self._lines.path
        """Path of the lines."""
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
        """Write an event. On return, its line is in the file, after all earlier events.

        It waits for the file at most 5 s.

        Args:
            event: Name of the event, for example `tool_call`.
            payload: Data of the event. See `payload.plain` for values without a JSON form.
            step: Step of the loop, from 1.
        """
        self._background.run(partial(self._write, datetime.now(UTC), event, payload, step), _DRAIN_S)

    def log_soon(self, event: str, payload: Mapping[str, Any], step: int | None = None) -> None:
        """Write an event as `log_event` does, without waiting for the file. The payload must not change afterwards."""
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
        """Trace a run from now to its end. The run never waits for the trace. See `RunWatcher` for the events.

        Args:
            run: Usually a run that has not been entered.
            agent_name, agent_type: Data of `session_start`.
            config: Data of `session_start`. `None` uses the model.
            cost: Function that returns the cost of a response with this `usage`. Without it, the trace has 0.0, because
                its readers expect a number.

        Returns:
            `run` itself.
        """
        known = {"model": run.model} if config is None else config
        session = {"agent_name": agent_name, "agent_type": agent_type, "config": known}
        run.observe(RunWatcher(run, self.log_soon, session, cost))
        return run

    def stats(self) -> TraceStats:
        """Return the statistics of the events so far. It waits for earlier events at most 5 s."""
        self._background.drain(_DRAIN_S)
        return self._statistics.stats()

    _compute_stats = stats  # programs for HelloAgents call it, because it had no public name

    @property
    def _events(self) -> list[dict[str, Any]]:
        """Records so far, read from the file. Programs for HelloAgents read this list."""
        self._background.drain(_DRAIN_S)
        return [json.loads(line) for line in self.jsonl_path.read_text("utf-8").split("\n") if line]

    @property
    def is_final(self) -> bool:
        """`True` when no event can be logged any more."""
        return self._is_final

    def finalize(self) -> None:
        """Write the waiting events, finish the page, and close the files. Further calls do nothing.

        It waits for the files at most 5 s, and usually not at all. Later events are lost, and one warning is logged.
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
        """Log an exception of the block as an `error`, and finalize. The exception is raised further."""
        if exc_type is not None:
            said = {"error_type": exc_type.__name__, "message": exc, "stacktrace": _stack(exc)}
            self.log_event("error", said)
        self.finalize()

    def _write(self, at: datetime, event: str, payload: Mapping[str, Any], step: int | None) -> None:
        if self._is_final:
            if not self._has_told_late:
                self._has_told_late = True
                _log.warning("%s is final: events logged now are lost", self.jsonl_path.name)
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
    except Exception as error:  # formatting can run any code of the exception
        return f"<{type(error).__name__}>"


def _new_session(folder: Path) -> tuple[str, GrowingLog]:
    """Return an id that is unique in this folder, and its file."""
    while True:
        session_id = f"s-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        try:
            return session_id, GrowingLog(folder / f"trace-{session_id}.jsonl")
        except FileExistsError:  # each second has 65,536 ids
            continue
