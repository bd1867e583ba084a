"""What the tests share: recordings, ways to cut a stream, and values written down for comparison."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import pytest
import sniffio
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from eagerstream.recordings import Recording
from eagerstream.testing import encode_event
from eagerstream.tools import CallListener, ToolCall
from eagerstream.wire import (
    JSON,
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    SSEDecoder,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
    WireEvent,
    decode_event,
)
from tests import api_rules
from tests.missing import NO_RECORDINGS
from tests.sampling import drawn

if TYPE_CHECKING:  # heavy, and most tests do without
    from anthropic import AsyncAnthropic

    from eagerstream.transports import HTTPTransport

# --- recordings -------------------------------------------------------------------------------------------------------

_TESTS = Path(__file__).parent
MADE_DIR = _TESTS / "data"
"""The project's own recordings, made by hand."""

REAL_DIR = Path(os.environ.get("EAGERSTREAM_RECORDINGS") or _TESTS.parent.parent / "shared" / "recordings")
"""Recordings of real replies. They are not part of the project: tests that want them do without where they are absent."""


def made_recordings() -> list[Path]:
    """The project's own recordings, by name."""
    return sorted(MADE_DIR.glob("*.sse"))


def real_recordings() -> list[Path]:
    """The recordings of real replies, by name; none where their folder is absent."""
    return sorted(REAL_DIR.glob("*.sse"))


needs_recordings = pytest.mark.skipif(not real_recordings(), reason=NO_RECORDINGS)
"""Leaves a test out if there are no recordings of real replies."""

_SAMPLED = 8
"""So many of the recordings of real replies are for a run of the quick tests; the others for the slow ones."""


def _recording_params() -> Iterator[Any]:
    for path in made_recordings():
        yield pytest.param(path, id=f"made/{path.stem}")
    real = real_recordings()
    quick = set(drawn((path.stem for path in real), _SAMPLED))
    for path in real:
        marks = [] if path.stem in quick else [pytest.mark.slow]
        yield pytest.param(path, id=f"real/{path.stem}", marks=marks)
    if not real:
        yield pytest.param(MADE_DIR, id="real", marks=needs_recordings)


each_recording = pytest.mark.parametrize("recording", list(_recording_params()))
"""Runs a test for each recording, as its argument `recording`; without the real ones that is one skip."""


def wire_events(body: bytes) -> list[WireEvent]:
    """The wire events of a whole body."""
    decoder = SSEDecoder()
    events = [decode_event(event.data) for event in decoder.feed(body)]
    decoder.close()
    return events


# --- wire events, written short -----------------------------------------------------------------------------------------


def message_start(**fields: Any) -> WireEvent:
    """A reply begins; `fields` add to its message."""
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-made-1",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return {"type": "message_start", "message": message | fields}


def block_start(index: int, type: str, **fields: Any) -> WireEvent:
    """A block opens."""
    return {"type": "content_block_start", "index": index, "content_block": {"type": type, **fields}}


def tool_start(index: int, name: str = "tool", *, kind: str = "tool_use", **fields: Any) -> WireEvent:
    """A tool call opens, with the usual placeholder for its input; its id is `toolu_<index>`."""
    return block_start(index, kind, **({"id": f"toolu_{index}", "name": name, "input": {}} | fields))


def block_delta(index: int, type: str, **fields: Any) -> WireEvent:
    """More of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def input_delta(index: int, fragment: str) -> WireEvent:
    """More of a tool's input."""
    return block_delta(index, "input_json_delta", partial_json=fragment)


def text_delta(index: int, text: str) -> WireEvent:
    """More text."""
    return block_delta(index, "text_delta", text=text)


def block_stop(index: int) -> WireEvent:
    """A block is closed."""
    return {"type": "content_block_stop", "index": index}


def message_delta(stop_reason: str | None, **usage: Any) -> WireEvent:
    """The end of the reply is near."""
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9} | usage}


MESSAGE_STOP: WireEvent = {"type": "message_stop"}

# --- cutting ----------------------------------------------------------------------------------------------------------

StreamT = TypeVar("StreamT", str, bytes)
T = TypeVar("T")


def one_by_one(stream: StreamT) -> list[StreamT]:
    """Pieces of one character or byte."""
    return [stream[at : at + 1] for at in range(len(stream))]


def random_pieces(stream: StreamT, *, seed: int, largest: int = 50) -> list[StreamT]:
    """Pieces of random sizes, empty ones among them; the same for the same seed."""
    sizes = random.Random(seed)
    pieces = []
    at = 0
    while at < len(stream):
        size = sizes.randint(0, largest)
        pieces.append(stream[at : at + size])
        at += size
    return pieces


def cut_at(stream: StreamT, places: Sequence[int]) -> list[StreamT]:
    """Pieces that end at `places`, which need not be in order; a place named twice makes an empty piece."""
    bounds = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


def cuts_of(stream: StreamT) -> st.SearchStrategy[list[StreamT]]:
    """Any way of cutting `stream`, one by one among them."""
    places = st.lists(st.integers(0, len(stream)), max_size=12)
    return st.one_of(st.just(one_by_one(stream)), places.map(lambda chosen: cut_at(stream, chosen)))


# --- values -----------------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def strict_loads(text: str) -> JSON:
    """`json.loads` without its extensions: NaN and the infinities are refused, as RFC 8259 wants it."""
    value: JSON = json.loads(text, parse_constant=_refuse_constant)
    return value


def is_json(text: str) -> bool:
    """RFC 8259 accepts `text`, as far as the standard library can tell."""
    try:
        strict_loads(text)
    except ValueError:
        return False
    return True


def written(value: Any) -> str:
    """`value` as a text that tells apart what `==` does not: 1, 1.0 and true; 0.0 and -0.0; the order of keys."""
    return json.dumps(value)


# --- events -----------------------------------------------------------------------------------------------------------


def event_line(event: Any) -> tuple[Any, ...]:
    """An event written down so that two events of different streams can be compared, whenever it is looked at."""
    name = type(event).__name__
    match event:
        case InputDelta(input=input, fragment=fragment):
            return name, input.index, fragment
        case InputStart(input=input):
            return name, input.index, input.id, input.name, input.kind
        case InputStop(input=input):
            return name, input.index, input.id, input.outcome, input.raw, written(input.wrapped)
        case BlockStart(index=index, block=block) | BlockStop(index=index, block=block):
            return name, index, written(block)
        case TextDelta(index=index, text=text):
            return name, index, text
        case ThinkingDelta(index=index, thinking=text, estimated_tokens=tokens):
            return name, index, text, tokens
        case CitationDelta(index=index, citation=citation):
            return name, index, written(citation)
        case MessageStart(message=message, restarted=restarted):
            return name, written(message), restarted
        case MessageStop(message=message, stop_reason=reason):
            return name, written(message), reason
        case UnknownEvent(data=data):
            return name, written(data)
        case _:
            raise AssertionError(f"not an event of a stream: {event!r}")


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

    def __init__(self, error: Exception | None = None) -> None:
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


def anthropic_since(version: str) -> pytest.MarkDecorator:
    """Leaves out a test of what the anthropic package has only since `version`, where an older one is installed."""
    installed = importlib.metadata.version("anthropic")
    older = [int(number) for number in installed.split(".")[:2]] < [int(number) for number in version.split(".")]
    return pytest.mark.skipif(
        older, reason=f"the anthropic package has it since {version}, and {installed} is installed"
    )


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


USER: dict[str, Any] = {"role": "user", "content": "How is the weather in Oslo?"}
"""The first message of a conversation."""

REQUEST: dict[str, Any] = {"model": "claude-made-1", "max_tokens": 1024, "messages": [USER]}
"""What a request needs at least."""

# --- the law ----------------------------------------------------------------------------------------------------------

_RESULT_KEYS = {"type", "tool_use_id", "content", "is_error", "toolset_name"}


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
