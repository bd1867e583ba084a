"""`ThreadedServer`: an ASGI application on a real socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import ceil
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import anyio
import anyio.to_thread

from eagerstream_wire import UsageError

if TYPE_CHECKING:
    from typing import Self

    import uvicorn
    from uvicorn.server import ServerState

ASGIMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[ASGIMessage]]
Send: TypeAlias = Callable[[ASGIMessage], Awaitable[None]]
ASGIApplication: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

TRANSPORT_STATE: Final = "eagerstream.transport"
"""Key of the connection in the state of a request's scope, for actions that HTTP cannot express."""

_BACKLOG: Final = 128
_BOUNDED_BACKLOG: Final = 32
_ACCEPTING_TURNS: Final = 3  # of the event loop, from an accepted socket to its connection
_GRACE_S: Final = 1  # for the responses of connections that are cut
_TICK_S: Final = 0.1  # the interval of uvicorn's own clock
IDLE_S: Final = 10.0
_KEEP_ALIVE_S: Final = 5  # the default of uvicorn


class _Server(Protocol):
    server_state: ServerState

    async def serve(self, sockets: list[socket.socket] | None = None) -> None: ...

    def stop(self) -> None: ...


class ThreadedServer:
    """Serves an application over HTTP on this machine.

    It runs in its own thread with its own event loop, so neither side waits for the other. Use `with` in plain code,
    and `async with` on asyncio and trio. A closed server may be started again, with `port=0` at another port.

    Args:
        make_application: Makes the application at each start.
        name: Name of the server in messages, for example "replay server".
        host: The address to listen on.
        port: 0 takes a free port.
        max_connections: Maximum number of open connections, because each takes a file descriptor of the program.
            Further ones are cut. `None` sets no limit.
        idle_s: A connection without a complete request for this many seconds is cut. They count from its last response,
            if it had one.
        date_header: Each response gets a `Date`. False if the application forwards one.

    Raises:
        UsageError: `host` is empty, or `port` is not from 0 to 65535.
    """

    def __init__(
        self,
        make_application: Callable[[], ASGIApplication],
        *,
        name: str,
        host: str,
        port: int,
        max_connections: int | None = None,
        idle_s: float = IDLE_S,
        date_header: bool = True,
    ) -> None:
        if not host:
            # For example of a variable that is not set: it would be every address of the machine.
            raise UsageError("a host is needed to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for everybody")
        if not 0 <= port <= 65_535:
            raise UsageError(f"a port is a number from 0 to 65535, not {port!r}")
        self._make_application = make_application
        self._name = name
        self._host = host
        self._port = port
        self._max_connections = max_connections
        self._idle_s = idle_s
        self._date_header = date_header
        self._lock = threading.Lock()  # one start or close at a time, even after a cancelled one
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._listening_port: int | None = None

    @property
    def port(self) -> int:
        """The port on which the server listens.

        Raises:
            UsageError: The server is not running.
        """
        port = self._listening_port
        if port is None:
            raise UsageError(f"the {self._name} is not running: use it in a with statement")
        return port

    @property
    def base_url(self) -> str:
        """Base URL of the server, for example `"http://127.0.0.1:49152"`.

        Raises:
            UsageError: The server is not running.
        """
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Start the server. Return when it answers clients.

        Raises:
            UsageError: It is running already, or cannot listen there, for example because the port is in use.
        """
        with self._lock:
            if self._thread is not None:
                raise UsageError(f"the {self._name} is running already")
            ready: Future[None] = Future()
            server = _make_server(
                self._make_application(),
                ready,
                max_connections=self._max_connections,
                idle_s=self._idle_s,
                date_header=self._date_header,
            )
            listener = _listen(self._host, self._port)
            port = listener.getsockname()[1]
            thread = threading.Thread(
                target=_serve, args=(server, listener, ready, self._name), name=f"eagerstream {self._name}", daemon=True
            )
            thread.start()
            try:
                ready.result()
            except BaseException:
                server.stop()  # if only the wait was interrupted
                raise
            self._server, self._thread, self._listening_port = server, thread, port

    def close(self) -> None:
        """Stop the server. Responses in progress are cut, and the thread has ended on return. May be repeated."""
        with self._lock:
            if self._server is None or self._thread is None:
                return
            self._server.stop()
            self._thread.join()
            self._server = self._thread = self._listening_port = None

    async def serve(self, on_start: Callable[[Self], object] | None = None) -> None:
        """Run until cancelled. The server is closed before the cancellation continues.

        Args:
            on_start: Called once when the server listens, for example to print `base_url`. If it raises, the server is
                closed, and the exception passes through.

        Raises:
            UsageError: As for `start`.
        """
        async with self:
            if on_start is not None:
                on_start(self)
            await anyio.sleep_forever()

    def run(self, on_start: Callable[[Self], object] | None = None) -> None:
        """Run in the foreground until Ctrl-C, then close and return. For programs without an event loop.

        Args:
            on_start: As for `serve`.

        Raises:
            UsageError: As for `start`.
        """
        try:
            anyio.run(self.serve, on_start)
        except KeyboardInterrupt:
            pass  # the ordinary way to end it

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await anyio.to_thread.run_sync(self.start)
        except UsageError:
            raise  # it did not start; a server that was running already continues
        except BaseException:
            await self._close_shielded()  # a cancelled start continues in its thread, and would leave a server behind
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close_shielded()

    async def _close_shielded(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        UsageError: It cannot listen there, for example because the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Connections inherit it; asyncio sets it only for sockets made with their protocol by name. Without it the
        # kernel holds small chunks back, and replayed timing is off by 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from error


def _make_server(
    application: ASGIApplication,
    ready: Future[None],
    *,
    max_connections: int | None,
    idle_s: float,
    date_header: bool,
) -> _Server:
    """Return a uvicorn server that reports when it serves, and cuts its connections on exit.

    Raises:
        ModuleNotFoundError: uvicorn is not installed.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        """Cuts connections beyond the limit or without a request. uvicorn waits for ever for the rest of a request."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.app_state = {**self.app_state, TRANSPORT_STATE: transport}  # shown to the application, per connection
            self._idle_since = self.loop.time()
            self._idle = self.loop.call_later(idle_s, self._cut_idle)
            if max_connections is not None and len(self.connections) > max_connections:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._idle.cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self._idle_since = self.loop.time()
            super().on_response_complete()

        def _cut_idle(self) -> None:
            is_idle = getattr(self.cycle, "response_complete", True)  # of the newest request; None before the first
            left_s = self._idle_since + idle_s - self.loop.time() if is_idle else idle_s
            if left_s <= 0:
                self.transport.abort()
            else:
                self._idle = self.loop.call_later(left_s, self._cut_idle)

    class Server(uvicorn.Server):
        """Stops quickly. uvicorn's own server looks every 0.1 s, sends each response to its end, and sleeps."""

        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            self._wakes: Callable[[], object] = lambda: None

        def stop(self) -> None:
            """Ask the server to stop, from any thread."""
            self.should_exit = True
            with suppress(RuntimeError):  # it has ended by itself
                self._wakes()

        async def main_loop(self) -> None:
            told = asyncio.Event()
            self._wakes = partial(asyncio.get_running_loop().call_soon_threadsafe, told.set)
            ticks = 0
            while not await self.on_tick(ticks):
                ticks += 1
                with suppress(TimeoutError):
                    await asyncio.wait_for(told.wait(), _TICK_S)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # A socket that was accepted in this turn of the loop has its connection in the next one. asyncio cannot
            # make it after the server is closed, and would leave the socket open: its client would wait for ever.
            if sys.platform != "win32":  # there, the loop accepts and connects in one step
                for listener in sockets or ():
                    asyncio.get_running_loop().remove_reader(listener)
                await asyncio.sleep(0)
            for listener in (*self.servers, *(sockets or ())):
                listener.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    # Includes connections that were accepted during the close, and that the loop has not made yet.
                    turns = 0
                    while turns < _ACCEPTING_TURNS or self.server_state.connections or self.server_state.tasks:
                        for connection in list(self.server_state.connections):
                            connection.transport.abort()
                        await asyncio.sleep(0)
                        turns += 1

    async def notify() -> None:
        if not ready.done():
            ready.set_result(None)

    config = uvicorn.Config(
        application,
        http=Protocol,  # on h11, which is always installed: the same writes on every machine
        ws="none",
        lifespan="off",
        log_config=None,  # logging is the caller's
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=max(_KEEP_ALIVE_S, ceil(idle_s)),  # else uvicorn would cut a patient server's connections
        server_header=False,
        date_header=date_header,
        # This many are accepted in one step, before the first of them can be cut.
        backlog=2048 if max_connections is None else _BOUNDED_BACKLOG,
        callback_notify=notify,  # called for the first time when the sockets are served
    )
    return Server(config)


def _serve(server: _Server, listener: socket.socket, ready: Future[None], name: str) -> None:
    """Run the server in its thread."""
    try:
        asyncio.run(server.serve(sockets=[listener]))
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
    finally:
        listener.close()
        if not ready.done():
            ready.set_exception(UsageError(f"the {name} ended before it had started"))
