"""`Interpreter`: one process of Monty. Its methods block: call them in a thread."""

from __future__ import annotations

import json
import operator
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from eagerstream import JSON
from eagerstream._support.watchdog import watchdog

from .monty_calls import CANCELLED, InterruptedCodeError, MontyCalls, Outcome
from .monty_errors import Sources
from .monty_prelude import ASYNCIO, RESET, START, WAIT, prelude_for
from .sandbox import CodeFunction, CodeValue, StatementEnd, StatementResult
from .statements import Statement

if TYPE_CHECKING:
    from pydantic_monty import (
        ExternalResult,
        FunctionSnapshot,
        Monty,
        MontyComplete,
        MontyRuntimeError,
        MontySession,
        SyncSnapshot,
    )

_MAX_VALUE_CHARS: Final = 100_000
_MAX_DATA_CHARS: Final = 1_000_000
_MAX_SUSPENSIONS: Final = 10**12
"""Monty counts calls, waits and sleeps of a session, and ends it after 1,000 by default. Here, `CodeTool` bounds the
number of calls, and the time."""
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class MontyLimits:
    """The bounds of an interpreter, as `MontySandbox` documents them."""

    max_memory_bytes: int
    max_statement_s: float
    max_depth: int


class _ClosedError(RuntimeError):
    """The interpreter was closed before this use."""


class Interpreter:
    """A process of Monty with the variables of one session. One thread may use it at a time."""

    def __init__(self, functions: Sequence[CodeFunction], limits: MontyLimits) -> None:
        self._prelude = prelude_for(functions)
        self._limits = limits
        self._sources = Sources()
        self._owner = os.getpid()
        self._pool: Monty | None = None
        self._session: MontySession | None = None
        self._pid: int | None = None
        self._asyncio: Any = None
        self._complete: MontyComplete | None = None
        self._lock = threading.Lock()
        self._is_busy = False
        self.is_closed = False

    def start(self) -> None:
        """Start the process, in about 5 ms. If `close` is called meanwhile, nothing is left.

        Raises:
            OSError, RuntimeError, MontyError: It could not be started.
        """
        import pydantic_monty as monty

        with self._busy():
            self._pool = monty.Monty(max_processes=1)
            self._pool.__enter__()
            session = self._pool.checkout(
                limits={
                    "max_memory": self._limits.max_memory_bytes,
                    "max_feed_duration_secs": self._limits.max_statement_s,
                    "max_recursion_depth": self._limits.max_depth,
                    "max_suspensions": _MAX_SUSPENSIONS,
                },
                os_policy={"sleep": "call_host"},  # in Monty's own process, a pause could not be cancelled
            )
            session.__enter__()
            with self._lock:
                self._session = session
                self._pid = session.worker_pid
            if self._pid is not None:
                watchdog.watch(self._pid, leads=False)
            for source in (self._prelude, ASYNCIO):
                self._sources.add(None)
                self._asyncio = session.feed_run(source)

    def begin_part(self) -> None:
        """Begin the code of another call of `run_code`."""
        self._sources.begin_part()

    def run(self, statement: Statement, host: MontyCalls) -> StatementResult:
        """Run a statement. An interpreter that is lost is closed."""
        self._complete = None
        try:
            with self._busy():
                self._sources.add(statement)
                # The name is bound again each time, as `import asyncio` gives code Monty's own module, which has less.
                complete = self._fed(statement.source, {"asyncio": self._asyncio}, host)
        except _ClosedError:
            return self._lost("")
        if isinstance(complete, StatementResult):
            return complete
        self._complete = complete
        return StatementResult(StatementEnd.DONE)

    def value(self, host: MontyCalls) -> CodeValue:
        """Return the value of the last statement, if that is an expression and the statement ran to its end."""
        complete, self._complete = self._complete, None
        if complete is None:
            return CodeValue()
        try:
            with self._busy():
                value = complete.output
                if value is None:
                    return CodeValue()
                data = _data_of(value)
                if isinstance(value, str):
                    text = value
                elif data is not None:
                    text = repr(value)
                else:
                    # An object of the code's classes arrives as a mere description.
                    self._sources.add(None)
                    shown = self._fed("repr(_eager_value)", {"_eager_value": value}, host)
                    # Nothing keeps the object of a mere expression: then its description has to do.
                    text = repr(value) if isinstance(shown, StatementResult) else str(shown.output)
        except _ClosedError:
            return CodeValue()
        except (RecursionError, TypeError, ValueError):  # nested too deeply; an object of the code as a key
            return CodeValue("a value that cannot be shown")
        if len(text) > _MAX_VALUE_CHARS:
            text = f"{text[:_MAX_VALUE_CHARS]}... ({len(text)} characters)"
        return CodeValue(text, data)

    def close(self) -> None:
        """Kill the process, from any thread. Returns at once. A second call does nothing."""
        if os.getpid() != self._owner:
            return  # this process was forked from the one that has the interpreter
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
            if self._pid is not None:
                # Its number is not free: only the thread that uses the process waits for it, and says so at once.
                with suppress(ProcessLookupError):
                    os.kill(self._pid, _KILL)
            if not self._is_busy and self._pool is not None:
                # In a thread, as the end of a process with 200 MB takes 0.1 s. At the end of the program there are no
                # new threads, and nobody waits for the process.
                with suppress(RuntimeError):
                    threading.Thread(target=self._release, name="eagerstream monty", daemon=True).start()

    def _forget(self) -> None:
        """Forget the process: its number is free, or about to be."""
        with self._lock:
            pid, self._pid = self._pid, None
        if pid is not None:
            watchdog.forget(pid)

    def _release(self) -> None:
        """Wait for the killed process, and free what belongs to it."""
        self._forget()
        for each in (self._session, self._pool):
            if each is not None:
                with suppress(Exception):  # it says that the process is gone
                    each.__exit__(None, None, None)
        self._session = self._pool = self._asyncio = self._complete = None

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Keep `close` from freeing what is in use: it is freed when the block is left.

        Raises:
            _ClosedError: The interpreter is closed.
        """
        with self._lock:
            if self.is_closed:
                raise _ClosedError
            self._is_busy = True
        try:
            yield
        finally:
            with self._lock:
                self._is_busy = False
                is_closed = self.is_closed
            if is_closed:
                self._release()

    # --- the code ---

    def _fed(self, source: str, inputs: dict[str, Any], host: MontyCalls) -> MontyComplete | StatementResult:
        """Run source, and return its end, or the reason why it did not get there."""
        import pydantic_monty as monty

        assert self._session is not None
        waits: dict[int, int] = {}
        """The ids of calls, by the numbers that Monty gives to its futures."""
        try:
            now: SyncSnapshot = self._session.feed_start(
                source, inputs=inputs, print_callback=lambda _stream, text: host.print(text)
            )
            while not isinstance(now, monty.MontyComplete):
                if isinstance(now, monty.FunctionSnapshot):
                    answer = _answer(now, host, waits)
                    now = now.resume_not_handled() if answer is None else now.resume(answer)
                elif isinstance(now, monty.FutureSnapshot):
                    now = now.resume(_ended(now.pending_call_ids, host, waits))
                else:
                    now = now.resume()  # there is no such name
        except monty.MontyCrashedError as error:
            self._forget()
            return self._lost(self._too_slow if error.timed_out else "The interpreter crashed.")
        except monty.MontyRuntimeError as error:
            return self._failed(error)
        except monty.MontyError as error:
            return self._sources.result(error)
        except RuntimeError:  # a session that is gone, or an event loop that has ended
            return self._lost("The interpreter failed.")
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust: it is no Exception, and in no module
                raise
            return self._lost("The interpreter failed.")
        return now

    def _failed(self, error: MontyRuntimeError) -> StatementResult:
        """Return the end of a statement that raised. If a limit ended it, the interpreter may be of no more use."""
        import pydantic_monty as monty

        assert self._session is not None
        cause = error.exception()
        if isinstance(cause, TimeoutError) and str(cause).startswith("feed time limit exceeded"):
            return self._lost(self._too_slow)  # its variables may be inconsistent, says Monty
        if isinstance(cause, MemoryError):
            reason = f"MemoryError: the variables need more than {self._limits.max_memory_bytes // 2**20} MiB."
            if self._session.worker_pid is None:
                self._forget()
                return self._lost(reason)
            self._sources.add(None)
            try:
                self._session.feed_run("None")  # can anything still run?
            except monty.MontyError:
                return self._lost(reason)
        return self._sources.result(error)

    @property
    def _too_slow(self) -> str:
        return f"TimeoutError: the statement computed for more than {self._limits.max_statement_s:g} seconds."

    def _lost(self, reason: str) -> StatementResult:
        if self.is_closed:
            reason = "The interpreter was closed."
        self.close()
        return StatementResult(StatementEnd.LOST, reason)


def _answer(call: FunctionSnapshot, host: MontyCalls, waits: dict[int, int]) -> ExternalResult | None:
    """Return the answer to a call of a function that Monty does not have; None to let Monty refuse it."""
    name = call.function_name
    try:
        if call.is_os_function and name == "asyncio.sleep":
            waits[call.call_id] = host.sleep(call.args[0])
            return {"future": ...}
        if call.is_os_function and name == "time.sleep":
            id = host.sleep(call.args[0])
            return host.wait([id])[id]
        if call.is_os_function:
            return None
        if name == START:
            tool, values, named = call.args
            return {"return_value": host.start(tool, values, named)}
        if name == WAIT:
            (waits[call.call_id],) = map(operator.index, call.args)
            return {"future": ...}
        if name == RESET:
            host.reset()
            return {"return_value": None}
    except InterruptedCodeError:
        return CANCELLED
    except (TypeError, ValueError, RecursionError) as error:
        return {"exc_type": "TypeError", "message": str(error)}
    return {"exc_type": "NameError", "message": f"name '{name}' is not defined"}


def _ended(numbers: Sequence[int], host: MontyCalls, waits: dict[int, int]) -> dict[int, Outcome]:
    """Wait for the first of some futures. Monty itself reports those that no call can end: there are no numbers."""
    if not numbers:
        return {}
    outcomes = host.wait([waits[each] for each in numbers])
    return {each: outcomes[waits[each]] for each in numbers if waits[each] in outcomes}


def _data_of(value: object) -> JSON:
    """Return a value if it has a JSON form within the bound, otherwise None."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    data: JSON = json.loads(text) if len(text) <= _MAX_DATA_CHARS else None
    return data
