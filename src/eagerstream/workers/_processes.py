"""`ProcessPool` and `ProcessExecutor`: tools in worker processes on this machine, for what keeps a processor busy."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from ..errors import UsageError
from ..tools import Tool
from ..wire import check_count, check_positive
from ._executor import RemoteExecutor
from ._frames import Setup
from ._pool import Pool
from ._process import WorkerProcess
from ._references import reference_to
from ._worker import check_not_preparing


class ProcessPool(Pool[WorkerProcess]):
    """Worker processes, shared by any number of executors and runs; an async context manager.

    Entering it returns when every worker is ready. Each is a fresh interpreter that imports the program's main module
    as `multiprocessing` does: what the program does must stand under `if __name__ == "__main__":`. A worker that dies
    is replaced. On exit, calls that still run are cancelled, and every worker has ended. To be left by the task that
    entered it.

    Each worker leads a session of its own. When it ends, everything that its tools have started in that session is
    killed. If the program is killed, even by SIGKILL, its workers and their sessions are killed after `cancel_grace_s`
    seconds at most; a small process of the program's own does that. A process that makes a session of its own
    (`setsid`, a daemon) lives on. Sessions are Linux's; on macOS the same holds for the worker's process group. On
    Windows nothing but the worker ends, and not while a tool keeps the interpreter's lock.

    A worker is no sandbox: tools have the rights of the user that the program runs as. But nothing that a worker writes
    is run in the program. Results, progress and exceptions cross as data, so that objects come back in their JSON form;
    see `workers._crossing` for the types that stay as they are.

    Args:
        workers: How many; the number of processors by default.
        calls_per_worker: Calls that a worker runs at once: 1 for work that keeps a processor busy, more for `async`
            tools that wait.
        preload: Modules (or their names) and tools that each worker imports before it takes calls. A tool that is not
            among them is imported at its first call.
        max_waiting: Calls that may wait for a worker; one more is answered with an error.
        max_message_bytes: One message to or from a worker: an input, a result. A worker that announces more is ended
            before any of it is read.
        start_timeout_s: Seconds that a worker has until it is ready.
        cancel_grace_s: Seconds that tools have for their cleanup when the pool is left, or the program is killed.

    Raises:
        UsageError: A number is out of its range, or a tool of `preload` cannot run in another process.
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
        """Start the workers.

        Raises:
            WorkerLost: One could not start: the text says why.
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
        if fault is None and not _is_main_importable() and getattr(tool.__wrapped__, "__module__", None) == "__main__":
            return "is made in a program that is no file: another process cannot import it"
        return fault


class ProcessExecutor(RemoteExecutor):
    """Runs tools in the worker processes of a `ProcessPool`; see `RemoteExecutor`.

    For tools that keep a processor busy: in this process they would share one processor with the reading of every
    reply. `ProcessExecutor(tools, pools={"render": pool})` has one of them there, and the others in this process.

    A tool can run there that another process can import, by its module and name, those of the main script included;
    and a method of an object that can be pickled, of which each worker has its own copy.
    """


def _backend() -> str:
    """The event loop that this runs in, by its name for `anyio.run`."""
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


def _is_main_importable() -> bool:
    """False of what was typed, or came by `python -c`."""
    main = sys.modules["__main__"]
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None


def _main() -> dict[str, Any]:
    """What a worker needs to know of the program, for `multiprocessing.spawn.prepare`.

    As `multiprocessing.spawn.get_preparation_data` gives it, which also decides on a start method for the whole program
    and gives away its secret.
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
