"""The process of a worker: a second listener, for the other workers, and the signals that end it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import anyio

from ..._serving.asgi_server import ASGIApplication
from ..._support.hosted_tasks import HostedTasks

_GRACE_S: Final = 1
_BACKLOG: Final = 1024


@asynccontextmanager
async def listening(application: ASGIApplication, path: Path) -> AsyncIterator[None]:
    """Serve an application on a Unix socket within the block."""
    import uvicorn

    from ._protocol import PROTOCOL

    class Server(uvicorn.Server):
        """A second server of the process: signals are the first one's business."""

        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
            return nullcontext()

    config = uvicorn.Config(
        application,
        interface="asgi3",
        http=PROTOCOL,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        forwarded_allow_ips="*",  # they are workers of the same gateway
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = Server(config)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        try:
            tasks = HostedTasks("server of a gateway's worker for the others")
            tasks.begin(partial(server.serve, [listener]))
            try:
                yield
            finally:
                server.should_exit = True
                await tasks.leave(None, is_idle=True)
        finally:
            await anyio.Path(path).unlink(missing_ok=True)


@contextmanager
def heeding_signals(drain: Callable[[], object]) -> Iterator[None]:
    """Call `drain` as soon as this process is asked to stop, before its server, which is asked too, waits for its runs.

    SIGHUP restarts the workers of a supervisor, and means nothing to a worker itself; without a supervisor, it ends the
    process in the same way as SIGTERM. A worker whose supervisor has died ends, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # it gets no signals
        return
    loop = asyncio.get_running_loop()
    supervisor = multiprocessing.parent_process()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def end(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(drain)
        handler = before[signal.SIGTERM if number == signal.SIGHUP else signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in before:
        signal.signal(number, end)
    if supervisor is not None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with(supervisor: Any) -> None:
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
