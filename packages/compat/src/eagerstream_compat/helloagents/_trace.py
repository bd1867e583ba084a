"""`TraceLogger`: a trace of a session, one line of JSON for each event."""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from eagerstream import JSON
from eagerstream._support.files import open_private
from eagerstream._support.json_values import encodable
from eagerstream._support.logs import logger_of
from eagerstream._support.redaction import REDACTED, redact, redact_excerpt
from eagerstream.loop import Run
from eagerstream.tools import ToolResponse

from ._trace_runs import RunWatcher

MAX_TEXT_CHARS: Final = 64 * 1024
"""Maximum number of characters of one text in a trace. A longer one ends with the number of omitted characters."""
MAX_WAITING: Final = 10_000
"""Maximum number of events that wait for the file. Further events of `log_soon` are dropped."""
_MAX_NAME_CHARS: Final = 200
_MAX_STEP: Final = 2**53
_WAIT_S: Final = 5.0
"""Maximum wait for earlier events, if a disk does not answer."""

_log = logger_of(__name__)


class TraceLogger:
    """Writer of a session's trace to `output_dir/trace-{session_id}.jsonl`, with each event in the file at once.

    A line is `{"ts", "session_id", "step", "event", "payload"}`, with `ts` in UTC. You may use it from any thread, and
    from forked processes: one thread of each process writes. The end of the program waits for that thread.

    After construction, no method raises. If the file can no longer be written, one warning is logged.

        with TraceLogger() as logger:
            async with logger.watch(eagerstream.run(...)) as run:
                await run.finish()

    Args:
        output_dir: Folder of the file. If missing, it is made for its owner only.
        sanitize: Whether to mask keys, tokens, passwords and user names in paths.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, output_dir: str | Path = "memory/traces", sanitize: bool = True) -> None:
        self.output_dir: Path = Path(output_dir)
        self.sanitize = sanitize
        self.output_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.session_id: str
        self.jsonl_path: Path
        """Path of the lines."""
        while True:
            self.session_id = f"s-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
            self.jsonl_path = self.output_dir / f"trace-{self.session_id}.jsonl"
            try:
                # Without a buffer. A buffer has a lock, and a forked process could find this lock held.
                self._file = FileIO(self.jsonl_path, "x", opener=open_private)
                break
            except FileExistsError:  # each second has 65,536 ids
                continue
        self._is_final = False
        self._warned: set[str] = set()
        self._start_writer()

    def log_event(self, event: str, payload: Mapping[str, Any], step: int | None = None) -> None:
        """Write an event. On return, its line is in the file, after all earlier events.

        It waits for the file at most 5 s.

        Args:
            event: Name of the event, for example `tool_call`.
            payload: Data of the event. A value without a JSON form becomes its `str`.
            step: Step of the loop, from 1.
        """
        if written := self._submit(partial(self._write, datetime.now(UTC), event, payload, step)):
            wait([written], _WAIT_S)

    def log_soon(self, event: str, payload: Mapping[str, Any], step: int | None = None) -> None:
        """Write an event as `log_event` does, without waiting for the file. The payload must not change afterwards."""
        self._submit(partial(self._write, datetime.now(UTC), event, payload, step))

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

    def finalize(self) -> None:
        """Write the waiting events and close the file. Further calls do nothing.

        It waits for the file at most 5 s, and usually not at all. Later events are lost, and one warning is logged.
        """
        if self._is_final:
            return
        closed = self._submit(self._file.close)
        self._is_final = True
        if closed is not None and wait([closed], _WAIT_S).not_done:
            self._warn("%s stays unfinished: it cannot be written", self.jsonl_path.name)
        self._writer.shutdown(wait=False)

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

    def _start_writer(self) -> None:
        self._process = os.getpid()
        self._writer = ThreadPoolExecutor(1, "eagerstream-trace")
        self._places = threading.Semaphore(MAX_WAITING)

    def _submit(self, work: Callable[[], object]) -> Future[object] | None:
        """Let the thread do some work after all earlier work, or drop it. Never wait, unless there can be no thread."""
        if self._is_final:
            self._warn("%s is final: events logged now are lost", self.jsonl_path.name)
            return None
        if self._process != os.getpid():  # a forked process has no thread, but copies of its held locks
            self._start_writer()
        if not self._places.acquire(blocking=False):
            self._warn("a trace is written too slowly: some of its events are dropped")
            return None
        places = self._places
        try:
            future: Future[object] = self._writer.submit(work)
        except RuntimeError:  # no more threads, or the program is ending: then nothing else writes
            self._start_writer()  # the older one may have queued the work, and must not do it, too
            work()
            return None
        future.add_done_callback(lambda _: places.release())
        return future

    def _write(self, at: datetime, event: str, payload: Mapping[str, Any], step: int | None) -> None:
        record = {
            "ts": at.isoformat(timespec="microseconds"),
            "session_id": self.session_id,
            "step": int(step) if isinstance(step, int) and abs(step) < _MAX_STEP else None,
            "event": str(plain(event, masks=self.sanitize))[:_MAX_NAME_CHARS],
            "payload": plain(payload, masks=self.sanitize),
        }
        if self._file.closed:
            return
        left = memoryview(f"{dump(record)}\n".encode())
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._warn("%s cannot be written any more: %s", self.jsonl_path.name, error.strerror)
            self._file.close()

    def _warn(self, message: str, *args: object) -> None:
        """Log a warning, each one once. It never quotes an event."""
        if message not in self._warned:
            self._warned.add(message)
            _log.warning(message, *args)


def _stack(exc: BaseException | None) -> str:
    try:
        return "".join(traceback.format_exception(exc))
    except Exception as error:  # formatting can run any code of the exception
        return f"<{type(error).__name__}>"


# --- payloads ---------------------------------------------------------------------------------------------------------


def plain(value: Any, *, masks: bool) -> JSON:
    """Return a copy of `value` as JSON. Other threads may change the value meanwhile.

    Values without a JSON form become their `str`, including NaN and the infinities. If a value cannot be copied, for
    example because it contains itself, it becomes its class in angle brackets. Texts are cut at `MAX_TEXT_CHARS`. If
    `masks`, secrets and user names in paths are masked.
    """
    try:
        # A round trip: what comes back has no subclasses, whose code could fail, and no cycles.
        copied = json.loads(json.dumps(value, default=_plain_form, skipkeys=True), parse_constant=str)
        copied = _shown(copied, masks=masks)
        masked: JSON = redact(copied) if masks else copied
        return masked
    except Exception:  # another thread may change the value, and numbers may be too long for Python
        return f"<{type(value).__name__:.80}>"


def dump(value: JSON) -> str:
    """Return a value of `plain` as one line, also for `str.splitlines`."""
    return str(encodable(json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS)))


_LINE_ENDS: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def _plain_form(value: Any) -> Any:
    try:
        if isinstance(value, ToolResponse):
            return value.to_dict()
        if isinstance(value, Mapping):
            return dict(value)
        return list(value) if isinstance(value, set | frozenset) else str(value)
    except (Exception, SystemExit):  # the value can run any code
        return f"<{type(value).__name__:.80}>"


def _shown(value: Any, *, masks: bool) -> Any:
    if isinstance(value, dict):
        return {_text(key, masks=masks): _shown(item, masks=masks) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item, masks=masks) for item in value]
    return _text(value, masks=masks) if isinstance(value, str) else value


_HOMES: Final = re.compile(
    r"""
      ( / (?: Users | home ) / ) [^\s/\\"'<>:|]++
    | ( (?i: [a-z]:\\++users\\++ ) )  # several backslashes: JSON in a text
      (?: [^/\\\r\n"<>:|]{1,64}+ (?=\\) | [^\s/\\"'<>:|]++ )  # a name may have spaces if its end is visible
    """,
    re.VERBOSE,
)
_WORDS: Final = re.compile(r"(?<![A-Za-z0-9])(?:(Bearer\s++)[A-Za-z0-9._~+/=-]++|sk-[A-Za-z0-9][A-Za-z0-9_-]*+)")
"""Secrets that HelloAgents masks in any length or form, so that a trace shows no more than there."""


def without_homes(text: str) -> str:
    """Return `text` with `***` for the user names in paths, in time linear in its length."""
    return _HOMES.sub(lambda found: f"{found[1] or found[2]}***", text)


def _text(text: str, *, masks: bool) -> str:
    if (left_out := len(text) - MAX_TEXT_CHARS) > 0:
        cut = f"{text[:MAX_TEXT_CHARS]}... ({left_out:,} characters left out)"
        text = redact_excerpt(text, MAX_TEXT_CHARS) if masks else cut
    return without_homes(_WORDS.sub(lambda found: f"{found[1] or ''}{REDACTED}", text)) if masks else text
