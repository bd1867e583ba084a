"""What the tests of the shell share: waiting for conditions, a server and clients in one event loop, and the law of histories.

`tests/streams.py` has the part that needs the wire core only.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import sniffio
from pydantic import BaseModel, field_validator

from eagerstream.recordings import Recording
from eagerstream.tools import CallListener, ToolCall
from eagerstream_testing import encode_event, http_error
from eagerstream_wire import WireEvent
from tests import api_rules
from tests.streams import block_stop, input_delta, tool_start

if TYPE_CHECKING:  # heavy, and most tests do without
    from anthropic import AsyncAnthropic

    from eagerstream.transports import HTTPTransport

T = TypeVar("T")

# --- waiting --------------------------------------------------------------------------------------------------------------


async def all_tasks_blocked() -> None:
    """Return once every other task waits for something, as `anyio.wait_all_tasks_blocked` does.

    On asyncio, anyio looks every tenth of a second, this every millisecond.
    """
    if sniffio.current_async_library() != "asyncio":
        await anyio.wait_all_tasks_blocked()
        return
    await anyio.lowlevel.checkpoint()
    this = asyncio.current_task()
    while any(  # noqa: ASYNC110 - no event says that a task has begun to wait
        (waiter := getattr(task, "_fut_waiter", None)) is None or waiter.done()
        for task in asyncio.all_tasks()
        if task is not this
    ):
        await anyio.sleep(0.001)


@asynccontextmanager
async def awaiting(wait: Callable[[], Awaitable[T]]) -> AsyncIterator[list[T]]:
    """Wait for something in a task of its own; the list gets its value.

    The block starts once the task waits. It ends when the task has ended, or fails after 30 seconds.
    """
    values: list[T] = []

    async def keep() -> None:
        values.append(await wait())

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            await all_tasks_blocked()
            yield values


async def until(holds: Callable[[], object]) -> None:
    """Return once a condition holds that no event announces: of a thread, of another process, of the disk.

    Raises:
        TimeoutError: It has not come true in half a minute.
    """
    with anyio.fail_after(30):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


# --- a server and clients in the test's own event loop ------------------------------------------------------------------


class Gate:
    """A place in a body where it goes on only once the test lets it.

    Attributes:
        reached: The body has been read up to here.
        opened: Set it to let the body go on.
    """

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()


class Broken:
    """A place in a body where the connection is lost.

    Args:
        error: What the client raises there; a `ReadError` of its library where it is None.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


Piece: TypeAlias = "bytes | WireEvent | Recording | Gate | Broken | float"
"""A part of a body: bytes as they are, wire events and recordings encoded, a wait, a loss, a pause in seconds."""


def whole_call(index: int, name: str, raw: str = "{}") -> list[Piece]:
    """The events of a call."""
    return [tool_start(index, name), input_delta(index, raw), block_stop(index)]


class Exchange:
    """What was sent, and whether the body was closed, by one request to a `LocalAPI`."""

    def __init__(self, request: Any) -> None:
        self.url = str(request.url)
        self.headers = dict(request.headers)
        self.body: Any = json.loads(request.content)
        self.closed = False


class LocalAPI:
    """Answers each request with the next body, in the process itself: a test decides when the body goes on.

    A recording instead of a body brings its own status and headers. A request beyond the last body gets the last one
    again.
    """

    def __init__(
        self, *bodies: Sequence[Piece] | Recording, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.exchanges: list[Exchange] = []
        self._bodies = bodies
        self._status = status
        self._headers = {"content-type": "text/event-stream", "request-id": "req_local", **(headers or {})}

    def client(self, library: Any) -> Any:
        """An async client of `httpx` or `httpx2` that is answered here."""
        return library.AsyncClient(transport=library.MockTransport(lambda request: self._answer(request, library)))

    def anthropic(self) -> AsyncAnthropic:
        """The anthropic package's own client, answered here."""
        from anthropic import AsyncAnthropic

        http_client = self.client(anthropic_http_library())
        return AsyncAnthropic(api_key="k", base_url="http://local", max_retries=0, http_client=http_client)

    def transport(self, library: Any = None) -> HTTPTransport:
        """The plain transport, answered here; on `httpx`, unless another library is given."""
        import httpx

        from eagerstream.transports import HTTPTransport

        return HTTPTransport(base_url="http://local", api_key="k", http_client=self.client(library or httpx))

    def body_for(self, exchange: Exchange) -> Sequence[Piece] | Recording:
        """The body that answers a request, which is not among the exchanges yet."""
        return self._bodies[min(len(self.exchanges), len(self._bodies) - 1)]

    def _answer(self, request: Any, library: Any) -> Any:
        exchange = Exchange(request)
        body = self.body_for(exchange)
        self.exchanges.append(exchange)
        pieces: Sequence[Piece] = [body] if isinstance(body, Recording) else body
        status, headers = self._status, self._headers
        if isinstance(body, Recording):
            status, headers = body.status, dict(body.headers)

        class Body(library.AsyncByteStream):  # type: ignore[misc]  # the base is known at run time only
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for piece in pieces:
                    await anyio.lowlevel.checkpoint()  # as reading from a socket does
                    match piece:
                        case Gate():
                            piece.reached.set()
                            await piece.opened.wait()
                        case Broken():
                            raise piece.error or library.ReadError("the peer is gone")
                        case float():
                            await anyio.sleep(piece)
                        case Recording():
                            yield piece.body
                        case dict():
                            yield encode_event(piece)
                        case bytes():
                            yield piece

            async def aclose(self) -> None:
                with anyio.CancelScope(shield=True):  # as httpcore does
                    await anyio.lowlevel.checkpoint()
                exchange.closed = True

        return library.Response(status, headers=headers, stream=Body())


def anthropic_http_library() -> Any:
    """`httpx2` or `httpx`: what the installed anthropic package is made on."""
    from anthropic import DefaultAsyncHttpxClient

    modules = (base.__module__.partition(".")[0] for base in DefaultAsyncHttpxClient.__mro__)
    return importlib.import_module(next(name for name in modules if name in ("httpx", "httpx2")))


def anthropic_client(base_url: str) -> AsyncAnthropic:
    """The anthropic package's own client, without certificates to load: nothing here is encrypted."""
    from anthropic import AsyncAnthropic

    http_client = anthropic_http_library().AsyncClient(verify=False)
    return AsyncAnthropic(api_key="k", base_url=base_url, max_retries=0, http_client=http_client)


# --- the law ----------------------------------------------------------------------------------------------------------

_RESULT_KEYS = {"type", "tool_use_id", "content", "is_error", "toolset_name"}


def refused(faults: Sequence[str]) -> Recording:
    """The HTTP 400 that the API answers a request with that has these faults."""
    return http_error(400, "invalid_request_error", "; ".join(faults).encode(errors="replace").decode())


def check_history(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that the API accepts a history, and that the results are written as this library writes them."""
    faults = api_rules.check(messages)
    assert not faults, faults
    calls: list[str] = []  # of the message before
    for message in messages:
        if message["role"] == "system":
            continue
        assert message["content"], "only the last message may have no content"
        blocks = [] if isinstance(message["content"], str) else message["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        assert [result["tool_use_id"] for result in results] == calls, "each call has one result, in call order"
        for result in results:
            assert set(result) <= _RESULT_KEYS
            assert result.get("content", True), "an empty content is left out"
            assert result.get("is_error", True) is True, "is_error is left out where it is not true"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]


class Unlucky(BaseModel):
    """A parameter's type whose own check raises something that pydantic does not expect."""

    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        """Raise."""
        raise KeyError(n)


class Heard(CallListener):
    """Functions that hear of a call."""

    def __init__(
        self,
        *,
        on_start: Callable[[ToolCall], object] | None = None,
        on_progress: Callable[[ToolCall, Any], object] | None = None,
    ) -> None:
        self._on_start = on_start
        self._on_progress = on_progress

    def call_started(self, call: ToolCall) -> None:
        if self._on_start is not None:
            self._on_start(call)

    def call_progressed(self, call: ToolCall, value: Any) -> None:
        if self._on_progress is not None:
            self._on_progress(call, value)
