"""`ProcessPool` and `ProcessExecutor`: tools in worker processes on this machine, for CPU-bound work."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from eagerstream._support.checks import check_count, check_positive
from eagerstream.errors import UsageError
from eagerstream.tools import Tool

from ._executor import RemoteExecutor
from ._frames import Setup
from ._pool import Pool
from ._process import WorkerProcess
from ._references import reference_to
from ._worker import check_not_preparing


class ProcessPool(Pool[WorkerProcess]):
    """Worker processes, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready. Each worker is a new interpreter that imports the program's main
    module, as `multiprocessing` does. Put the code that runs the program under `if __name__ == "__main__":`. A worker
    that dies is replaced. Leaving the pool cancels the calls that still run, and ends every worker. Leave it in the
    task that entered it.

    Each worker leads its own session. When the worker ends, every process that its tools started in that session is
    killed. If the program is killed, even by SIGKILL, its workers and their sessions are killed after `cancel_grace_s`
    seconds at most. A small process of the program does that. A process with its own session (`setsid`, a daemon) lives
    on. Sessions exist on Linux; on macOS the same applies to the worker's process group. On Windows only the worker
    ends, and not while a tool holds the interpreter's lock.

    A worker is no sandbox: tools have the rights of the program's user. But the program runs nothing that a worker
    writes. Results, progress and exceptions cross as data, so objects arrive in their JSON form. See
    `workers._crossing` for the types that keep their type.

    Args:
        workers: Number of workers. Default: the number of processors.
        calls_per_worker: Maximum number of calls that a worker runs at once. Use 1 for CPU-bound work, more for `async`
            tools that wait.
        preload: Modules (or their names) and tools that each worker imports before it takes calls. Any other tool is
            imported at its first call.
        max_waiting: Maximum number of calls that wait for a worker. A further call gets an error.
        max_message_bytes: Maximum size of a message to or from a worker: an input, a result. A worker that announces a
            larger message is ended before the message is read.
        start_timeout_s: Seconds until a worker must be ready.
        cancel_grace_s: Seconds that tools have for their cleanup when you leave the pool, or when the program is
            killed.

    Raises:
        UsageError: A number is out of range, or a tool of `preload` cannot run in another process.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        calls_per_worker: int = 1,
        preload: Iterable[str | ModuleType | Tool] = (),
        max_waiting: int = 10_000,
        max_message_bytes: int = 128 * 1024 * 1024,
        start_timeout_s: float = 60.0,
        cancel_grace_s: float = 5.0,
    ) -> None:
        super().__init__(
            workers=workers if workers is not None else os.cpu_count() or 1,
            calls_per_worker=calls_per_worker,
            max_waiting=max_waiting,
            start_timeout_s=start_timeout_s,
        )
        check_count("max_message_bytes", max_message_bytes)
        check_positive("cancel_grace_s", cancel_grace_s)
        self._preload = tuple(_preloaded(each) for each in preload)
        self._max_message_bytes = max_message_bytes
        self._cancel_grace_s = cancel_grace_s
        self._setup: Setup

    async def __aenter__(self) -> Self:
        """Start the workers. Cancelling this ends those that have started.

        Raises:
            WorkerLost: A worker could not start. The text gives the reason.
            UsageError: The pool was entered before, or a worker imports the program.
        """
        check_not_preparing()
        return await super().__aenter__()

    async def _prepare(self) -> None:
        self._setup = Setup(_main(), _backend(), self._preload, self._max_message_bytes, self._cancel_grace_s)

    def _make(self) -> WorkerProcess:
        return WorkerProcess(self._setup, start_timeout_s=self._start_timeout_s)

    def _refer_to(self, tool: Tool) -> bytes:
        return reference_to(tool)

    def fault_of(self, tool: Tool) -> str | None:
        """See `Workers.fault_of`."""
        fault = super().fault_of(tool)
        if fault is None and getattr(tool.__wrapped__, "__module__", None) == "__main__":
            main = sys.modules["__main__"]
            # An interactive session has neither, nor has `python -c`.
            if getattr(main, "__spec__", None) is None and getattr(main, "__file__", None) is None:
                return "is made in a program that is no file: another process cannot import it"
        return fault


class ProcessExecutor(RemoteExecutor):
    """Executor that runs tools in the worker processes of a `ProcessPool`; see `RemoteExecutor`.

    Use it for CPU-bound tools. In this process, they would share one processor with the reading of every response.
    `ProcessExecutor(tools, pools={"render": pool})` runs one tool in the pool, and the others in this process.

    A tool can run there if another process can import it by module and name; the main script's tools count, too. A
    method can run there if its object can be pickled. Each worker then has its own copy of the object.
    """


def _backend() -> str:
    """Return the name of the current event loop for `anyio.run`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return "trio"
    return "asyncio"


def _preloaded(each: str | ModuleType | Tool) -> str | bytes:
    if isinstance(each, Tool):
        try:
            return reference_to(each)
        except ValueError as error:
            raise UsageError(f"{each.name} {error}") from None
    return each.__name__ if isinstance(each, ModuleType) else each


def _main() -> dict[str, Any]:
    """Return the facts about the program that `multiprocessing.spawn.prepare` needs in a worker.

    `multiprocessing.spawn.get_preparation_data` gives the same, but also fixes a start method for the entire program
    and sends the program's secret.
    """
    found: dict[str, Any] = {
        "sys_path": list(sys.path),
        "sys_argv": sys.argv,
        "dir": str(Path.cwd()),
    }
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    path = getattr(main, "__file__", None)
    if name is not None:
        found["init_main_from_name"] = name
    elif path is not None:
        found["init_main_from_path"] = str(Path(path).absolute())
    return found
