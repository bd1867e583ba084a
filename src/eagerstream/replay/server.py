"""`ReplayServer`: the Messages API double behind a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, get_args

import anyio
import anyio.to_thread

from ..errors import MissingExtraError, UsageError
from ..recording import Recording
from ..tool_kind import EagerSupport
from .application import TRANSPORT_STATE, ASGIApplication, Behaviour, make_application
from .platforms import DIALECTS, Platform
from .received import ReceivedRequest, RequestLog
from .scenario import Scenario
from .schedule import Faults
from .timing import check_speed

if TYPE_CHECKING:
    from typing import Self

    import uvicorn
    from uvicorn.server import ServerState

_BACKLOG: Final = 128
_GRACE_S: Final = 1  # for the replies of connections that are cut
_TICK_S: Final = 0.1  # what uvicorn's own clock goes by


class _Server(Protocol):
    server_state: ServerState

    async def serve(self, sockets: list[socket.socket] | None = None) -> None: ...

    def stop(self) -> None: ...


class ReplayServer:
    """Plays recordings to clients of the Messages API, over HTTP on this machine.

    ::

        with ReplayServer(recording) as server:
            client = AsyncAnthropic(base_url=server.base_url, api_key="any")

    It speaks the dialect of every platform that offers the API, each at an address of its own, see `url_of`. It runs
    in a thread of its own, so it serves whatever the caller runs: `with` in plain code, `async with` on asyncio
    and on trio. Once closed it may be started again; with `port=0` at another port.

    On request it fails, so that a program can be tried against what happens on real networks::

        faults = Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529), Fault(FaultKind.RESET, after_bytes=700)]})
        with ReplayServer(recording, faults=faults) as server:
            ...  # the first turn is refused, then breaks off after 700 bytes, and comes whole at the third attempt

    Args:
        replies: A scenario, or one recording that answers every request.
        host: Where to listen. Anybody who reaches the host can connect: leave it on loopback unless that is the aim.
        port: 0 takes a free one.
        speed: Plays so many times as fast as recorded; `inf` without any waiting.
        faults: What goes wrong with which reply: a schedule by turn, or `Faults.random`. Requests that are refused
            anyway meet none.
        eager: Which ways to ask for eager input streaming are taken: `"any"`, the `"field"` on a tool, the `"header"`
            with the legacy beta, or `"none"`; for all models, or by model. The others are refused with HTTP 400.

    Raises:
        UsageError: A port, a speed or a way to ask that does not exist.
    """

    def __init__(
        self,
        replies: Scenario | Recording,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        speed: float = 1.0,
        faults: Faults | None = None,
        eager: EagerSupport | Mapping[str, EagerSupport] = "any",
    ) -> None:
        if not 0 <= port <= 65_535:
            raise UsageError(f"a port is a number from 0 to 65535, not {port!r}")
        check_speed(speed)
        for support in eager.values() if isinstance(eager, Mapping) else (eager,):
            if support not in get_args(EagerSupport):
                raise UsageError(f"eager must be one of {', '.join(get_args(EagerSupport))}, not {support!r}")
        scenario = Scenario.of(replies) if isinstance(replies, Recording) else replies
        self._behaviour = Behaviour(scenario, speed, faults, eager)
        self._host = host
        self._port = port
        self._log = RequestLog()
        self._lock = threading.Lock()  # one start or close at a time, also where one of them was cancelled
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._listening_port: int | None = None

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            UsageError: The server is not running.
        """
        port = self._listening_port
        if port is None:
            raise UsageError("the replay server is not running: use it in a with statement")
        return port

    @property
    def base_url(self) -> str:
        """What to give to a client, for example `"http://127.0.0.1:49152"`.

        Raises:
            UsageError: The server is not running.
        """
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def url_of(self, platform: Platform) -> str:
        """What to give to the client of a platform, which is answered in its own dialect.

        ::

            AsyncAnthropicBedrock(base_url=server.url_of(Platform.BEDROCK), api_key="any", aws_region="us-east-1")

        Credentials have to be there, and may be any. At `base_url` itself none are asked for, as by a gateway or a
        local server.

        Raises:
            UsageError: The server is not running, or there is no such platform.
        """
        try:
            return self.base_url + DIALECTS[Platform(platform)].root
        except ValueError as error:
            raise UsageError(f"{platform!r} is no platform; there are {', '.join(Platform)}") from error

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The latest requests for replies, at most 1,000, in order of arrival; a new list each time."""
        return self._log.entries()

    def start(self) -> None:
        """Listen; returns when clients are answered.

        Raises:
            UsageError: It is running already, or cannot listen there (the port is in use, say).
            MissingExtraError: The extra `web` is not installed.
        """
        with self._lock:
            if self._thread is not None:
                raise UsageError("the replay server is running already")
            ready: Future[None] = Future()
            try:
                application = make_application(self._behaviour, self._log)
                server = _make_server(application, ready)
            except ModuleNotFoundError as error:
                raise MissingExtraError("web", (error.name or "starlette").partition(".")[0]) from error
            listener = self._listen()
            port = listener.getsockname()[1]
            thread = threading.Thread(
                target=_serve, args=(server, listener, ready), name="eagerstream replay server", daemon=True
            )
            thread.start()
            try:
                ready.result()
            except BaseException:
                server.stop()  # where only the waiting was interrupted
                raise
            self._server, self._thread, self._listening_port = server, thread, port

    def close(self) -> None:
        """Stop: replies under way are cut, and the thread is gone on return. Does nothing where nothing runs."""
        with self._lock:
            if self._server is None or self._thread is None:
                return
            self._server.stop()
            self._thread.join()
            self._server = self._thread = self._listening_port = None

    async def serve(self, on_start: Callable[[ReplayServer], object] | None = None) -> None:
        """Run until cancelled, then close.

        Args:
            on_start: Called once when the server listens: the place to print `base_url`.

        Raises:
            UsageError, MissingExtraError: As `start`.
        """
        async with self:
            if on_start is not None:
                on_start(self)
            await anyio.sleep_forever()

    def run(self, on_start: Callable[[ReplayServer], object] | None = None) -> None:
        """Run in the foreground until Ctrl-C, then close and return; for programs without an event loop.

        Args:
            on_start: As for `serve`.

        Raises:
            UsageError, MissingExtraError: As `start`.
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
            raise  # it did not start; one that was running already goes on
        except BaseException:
            await self._close_shielded()  # a cancelled start goes on in its thread, and would leave a server behind
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close_shielded()

    async def _close_shielded(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self._port), family=family, backlog=_BACKLOG)
            # Connections inherit it; asyncio sets it only for sockets made with their protocol by name. Without it the
            # kernel holds small chunks back, and replayed timing is off by 40 ms.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot listen on {self._host} port {self._port}: {reason}") from error


def _make_server(application: ASGIApplication, ready: Future[None]) -> _Server:
    """A uvicorn server that reports when it serves, and cuts its connections when it is told to exit.

    Raises:
        ImportError: uvicorn is not installed.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.app_state = {**self.app_state, TRANSPORT_STATE: transport}  # shown to the application, per connection

    class Server(uvicorn.Server):
        """Stops within a moment; uvicorn's own looks ten times a second, plays each reply to its end, and sleeps."""

        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            self._wakes: Callable[[], object] = lambda: None

        def stop(self) -> None:
            """Told by any thread."""
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
            for listener in (*self.servers, *(sockets or ())):
                listener.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    # Also those that were accepted in the very moment of closing.
                    while self.server_state.connections or self.server_state.tasks:
                        for connection in list(self.server_state.connections):
                            connection.transport.abort()
                        await asyncio.sleep(0)

    async def notify() -> None:
        if not ready.done():
            ready.set_result(None)

    config = uvicorn.Config(
        application,
        http=Protocol,  # on h11, the one that is always there: the same writes on every machine
        ws="none",
        lifespan="off",
        log_config=None,  # logging is the caller's
        access_log=False,
        proxy_headers=False,
        server_header=False,
        callback_notify=notify,  # called for the first time when the sockets are served
    )
    return Server(config)


def _serve(server: _Server, listener: socket.socket, ready: Future[None]) -> None:
    """The server's thread."""
    try:
        asyncio.run(server.serve(sockets=[listener]))
    except BaseException as error:
        if ready.done():
            raise
        ready.set_exception(error)
    finally:
        listener.close()
        if not ready.done():
            ready.set_exception(UsageError("the replay server ended before it had started"))
