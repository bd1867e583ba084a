"""Requests and responses as a proxy sees them, and the latency of a run that follows from them.

The same code computes the figures of our own runs and of other programs. Both then have the same vantage point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any, Final, Literal

from eagerstream import MessageAssembler, SSEDecoder, WireEvent, decode_event
from eagerstream._support.serving.asgi_server import (
    IDLE_S,
    ASGIApplication,
    ASGIMessage,
    Receive,
    Send,
    ThreadedServer,
)
from eagerstream._support.terms import EAGER_FIELD, LEGACY_BETA, media_type
from eagerstream._support.unpacking import Unpacker, UnpackingError
from eagerstream.calls import RunStatus
from eagerstream.errors import EagerStreamError
from eagerstream.loop import RequestMarks, RunLatency, RunMarks
from eagerstream.recordings import Chunk
from eagerstream.streaming import ReplyMarks
from eagerstream_testing.capture import Tape, TapedReply, forwarding_app

EagerForm = Literal["field", "header"]

_MAX_REPLY_BYTES: Final = 64 * 2**20
_MAX_HELD_BYTES: Final = 256 * 2**20
MAX_REQUESTS: Final = 1_000
"""Maximum number of requests of one run that are measured."""
_SETTLE_S: Final = 2.0
_POLL_S: Final = 0.002
_MAX_PATHS: Final = 10
_PATH_CHARS: Final = 80
_MESSAGE_CHARS: Final = 200

_STATUSES: Final[Mapping[str, RunStatus]] = {
    "end_turn": RunStatus.COMPLETED,
    "max_tokens": RunStatus.TRUNCATED,
    "pause_turn": RunStatus.PAUSED,
    "refusal": RunStatus.REFUSED,
    "stop_sequence": RunStatus.STOP_SEQUENCE,
    "tool_use": RunStatus.LIMIT,
}
"""Status of a run, by the stop reason of its last response. After calls, its loop ended by a limit of its own."""


class WireError(EagerStreamError):
    """Error for requests that cannot be measured: there was none, or the last response is not complete."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and its response at the proxy. Times are seconds of one monotonic clock.

    Attributes:
        sent_s: Time at which the complete request had arrived.
        sent_bytes: Size of its body.
        model: Model that it asked for.
        eager: Way in which it asked for eager input streaming: the field on at least one tool, or the header.
        reply: The response with times since `sent_s`; `None` if none started, or if it was too large.
        end_s: Time at which the response ended; `None` if it has not.
        run: Name of its run, if the client used an address of `address_of`; else empty.
        body: The request, to find the run that it continues; empty if the address names the run.
    """

    sent_s: float
    sent_bytes: int
    model: str
    eager: EagerForm | None
    reply: TapedReply | None
    end_s: float | None
    run: str = ""
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that a proxy saw of a run.

    Attributes:
        exchanges: Requests to `.../messages` in their order.
        other_paths: Paths of other requests with a body, at most ten.
        problem: Reason why a response was not recorded; empty if there is none.
        scripted: All requests got the responses that our own cases get. False if some were made for the program's
            tools.
    """

    exchanges: tuple[Exchange, ...]
    other_paths: tuple[str, ...]
    problem: str
    scripted: bool


# --- at the proxy -----------------------------------------------------------------------------------------------------

_betas: ContextVar[str] = ContextVar("betas", default="")
_run: ContextVar[str] = ContextVar("run", default="")

_RUN_PATH: Final = re.compile(rb"/run-([\w-]{1,40})(?=/)")


MANY: Final = "many"
"""Start of the name of a run that is many: those of a program that runs several at once."""


def address_of(url: str, run: str) -> str:
    """Return the address of a proxy for one of several concurrent runs: its exchanges have the name of the run."""
    return f"{url}/run-{run}"


class WireLog:
    """Recorder of the requests of a run, in memory. The proxy's thread writes it, and another thread may collect it.

    Attributes:
        active: Number of requests in progress.
    """

    max_reply_bytes: Final = _MAX_REPLY_BYTES
    takes_frames: Final = False

    def __init__(self, max_requests: int = MAX_REQUESTS) -> None:
        self._max_requests = max_requests
        self._entries: list[_Entry] = []
        self._paths: dict[str, None] = {}
        self._problem = ""
        self._held_bytes = 0
        self.active: int = 0

    def begin(self, request: bytes, **_facts: object) -> Tape:
        """See `Recorder`. The body is parsed when the run is collected: now it would delay the request."""
        body = request if self.hold(len(request)) else b""
        entry = _Entry(monotonic(), body, len(request), _betas.get(), _run.get())
        if len(self._entries) < self._max_requests:
            self._entries.append(entry)
        else:
            self.tell_once(f"more than {self._max_requests:,} requests")
        return Tape(self, len(self._entries), entry.keep)

    def hold(self, size_bytes: int) -> bool:
        """See `TapeOwner`."""
        if size_bytes > 0 and self._held_bytes + size_bytes > _MAX_HELD_BYTES:
            return False
        self._held_bytes += size_bytes
        return True

    def tell_once(self, what: str) -> None:
        """See `TapeOwner`."""
        self._problem = self._problem or what

    def notice(self, method: str, path: str) -> None:
        """Note a request to another path: a program may use another protocol, which is not measured."""
        if method == "POST" and not path.endswith("/messages") and len(self._paths) < _MAX_PATHS:
            self._paths[path[:_PATH_CHARS]] = None

    def collect(self, *, scripted: bool) -> Seen:
        """Return everything so far, and forget it. If the client has just left, wait until the proxy has noticed."""
        end_s = monotonic() + _SETTLE_S
        while self.active and monotonic() < end_s:
            sleep(_POLL_S)
        entries, paths, problem = self._entries, tuple(self._paths), self._problem
        self._entries, self._paths, self._problem, self._held_bytes = [], {}, "", 0
        exchanges = tuple(entry.exchange() for entry in entries)
        return Seen(exchanges=exchanges, other_paths=paths, problem=problem, scripted=scripted)


@dataclass
class _Entry:
    sent_s: float
    body: bytes
    sent_bytes: int
    betas: str
    run: str
    reply: TapedReply | None = None
    end_s: float | None = None

    def keep(self, reply: TapedReply) -> None:
        self.reply, self.end_s = reply, monotonic()

    def exchange(self) -> Exchange:
        try:
            request: Any = json.loads(self.body)
        except (ValueError, RecursionError):
            request = {}
        model = request.get("model") if isinstance(request, dict) else None
        return Exchange(
            sent_s=self.sent_s,
            sent_bytes=self.sent_bytes,
            model=model[:_PATH_CHARS] if isinstance(model, str) else "",
            eager=eager_form(request, self.betas),
            reply=self.reply,
            end_s=self.end_s,
            run=self.run,
            body=self.body if self.run.startswith(MANY) else b"",
        )


def eager_form(request: object, betas: str) -> EagerForm | None:
    """Return the way in which a request, with these betas, asks for eager input streaming; `None` if it does not."""
    tools = request.get("tools") if isinstance(request, Mapping) else None
    listed = tools if isinstance(tools, list) else ()
    if any(isinstance(tool, Mapping) and tool.get(EAGER_FIELD) is True for tool in listed):
        return "field"
    return "header" if LEGACY_BETA in betas else None


class WireProxy(ThreadedServer):
    """The recording proxy, with a log in memory instead of a folder.

    Args:
        upstream: URL of the server behind it.
        max_requests: Maximum number of requests in the log.
        idle_s: As for `ThreadedServer`.
        on_request: Called in the proxy's event loop with each request.
    """

    def __init__(
        self,
        upstream: str,
        *,
        max_requests: int = MAX_REQUESTS,
        idle_s: float = IDLE_S,
        on_request: Callable[[], object] = lambda: None,
    ) -> None:
        self.log = WireLog(max_requests)
        self._upstream = upstream
        self._on_request = on_request
        super().__init__(self._make, name="measuring proxy", host="127.0.0.1", port=0, idle_s=idle_s, date_header=False)

    def _make(self) -> ASGIApplication:
        forwarding = forwarding_app(self._upstream, self.log)

        async def application(scope: ASGIMessage, receive: Receive, send: Send) -> None:
            self._on_request()
            found = _RUN_PATH.match(scope["raw_path"])
            _run.set(found[1].decode() if found else "")
            if found:
                raw_path = scope["raw_path"][found.end() :]
                scope = {**scope, "raw_path": raw_path, "path": scope["path"][found.end() :]}
            self.log.notice(scope["method"], scope["path"])
            betas = [value for name, value in scope["headers"] if name.lower() == b"anthropic-beta"]
            _betas.set(b",".join(betas).decode("latin-1"))
            self.log.active += 1
            try:
                await forwarding(scope, receive, send)
            finally:
                self.log.active -= 1

        return application


# --- from the bytes to the figures ------------------------------------------------------------------------------------


def wire_latency(seen: Seen) -> tuple[RunLatency, WireError | None]:
    """Return the latency of a run, and the reason why it cannot count; `None` if it can.

    A proxy sees nothing about tools. The marks are those of our own runs, made from the recorded chunks and their
    times. A response that is not streamed counts as one that arrives at its end. A run cannot count if it sent no
    request, or if its last response is missing, refused or incomplete.
    """
    marks = RunMarks()
    failure = ""
    if not seen.exchanges and seen.other_paths:
        others = ", ".join(seen.other_paths)
        failure = f"no request to POST .../messages, which alone is measured, only to {others}"
    elif not seen.exchanges:
        failure = (
            "no request came to the address in ANTHROPIC_BASE_URL: "
            "a program that has its own address cannot be measured"
        )
    stop_reason: object = None
    for turn, exchange in enumerate(seen.exchanges, 1):
        read = _Reading(exchange)
        failure = read.failure and f"request {turn} of {len(seen.exchanges)}: {seen.problem or read.failure}"
        stop_reason = read.stop_reason
        request = RequestMarks(turn, read.marks, discarded=bool(failure), sent_bytes=exchange.sent_bytes)
        marks.requests.append(request)
    eager = next((exchange.eager for exchange in seen.exchanges if exchange.eager), None)
    status = RunStatus.ERROR if failure else _STATUSES.get(str(stop_reason), RunStatus.UNKNOWN)
    model = seen.exchanges[0].model if seen.exchanges else ""
    latency = RunLatency(marks, model=model, eager=eager, status=status.value)
    return latency, WireError(failure) if failure else None


class _Reading:
    """One response, read chunk by chunk by the times at which they came.

    Attributes:
        marks: Times of the response.
        stop_reason: The message's own.
        failure: Reason why it is no complete message; empty if it is one.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._now_s = exchange.sent_s
        self._assembler = MessageAssembler()
        self.marks = ReplyMarks(lambda: self._now_s)
        self.marks.sent_s = exchange.sent_s
        self.stop_reason: object = None
        self.failure = ""
        reply = exchange.reply
        if reply is None:
            self.failure = "no response came"
            return
        self.marks.headers_s = exchange.sent_s + reply.headers_s
        try:
            self._read(_unpacked(reply), exchange.sent_s)
        except (EagerStreamError, UnpackingError, ValueError, RecursionError) as error:
            self.failure = f"a response that cannot be read ({type(error).__name__})"
        message = self._assembler.message or {}
        self.stop_reason = message.get("stop_reason")
        if not self.failure and self.marks.message_stop_s is None:
            self.failure = reply.cut or "the response ended before its message did"
        if exchange.end_s is not None:
            self._now_s = exchange.end_s
        self.marks.ended()
        self._assembler.close(cleanly=False)

    def _read(self, reply: TapedReply, sent_s: float) -> None:
        if reply.status != 200:
            body = b"".join(chunk.data for chunk in reply.chunks)
            self.failure = f"HTTP {reply.status}{_error_words(body)}"
            return
        if media_type(reply.headers.get("content-type", "")) == "application/json":
            self._now_s = sent_s + (reply.chunks[0].at_s if reply.chunks else reply.headers_s)
            self.marks.take([])
            self._now_s = sent_s + (reply.chunks[-1].at_s if reply.chunks else reply.headers_s)
            self._take(as_events(json.loads(b"".join(chunk.data for chunk in reply.chunks))))
            return
        decoder = SSEDecoder()
        for at_s, data in reply.chunks:
            self._now_s = sent_s + at_s
            self._take(decode_event(event.data, event.event) for event in decoder.feed(data))

    def _take(self, wire_events: Iterator[WireEvent]) -> None:
        events: list[Any] = []
        for event in wire_events:
            if event.get("type") == "error":
                self.failure = f"an error in the response{_error_words(event)}"
                break
            events += self._assembler.feed(event)
        self.marks.take(events)


def as_events(message: object) -> Iterator[WireEvent]:
    """Yield the events of a stream that brings a complete message.

    Raises:
        ValueError: It is no message.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(content, list):
        raise ValueError("not a message")  # noqa: TRY004 - a wrong value, as of JSON
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise ValueError("not a content block")  # noqa: TRY004
        is_call = block.get("type") in ("tool_use", "server_tool_use")
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, "input": {}} if is_call else block,
        }
        if is_call:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"), ensure_ascii=False)}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield {"type": "message_delta", "delta": ending, "usage": message.get("usage") or {}}
    yield {"type": "message_stop"}


def _unpacked(reply: TapedReply) -> TapedReply:
    unpacker = Unpacker(reply.content_encoding, max_bytes=_MAX_REPLY_BYTES)
    chunks = [Chunk(chunk.at_s, b"".join(unpacker.feed(chunk.data))) for chunk in reply.chunks]
    return replace(reply, chunks=chunks)


def _error_words(error: object) -> str:
    """Return the type and the message of an error of the API, to follow its status."""
    if isinstance(error, bytes):
        try:
            error = json.loads(error)
        except (ValueError, RecursionError):
            return ""
    found = error.get("error") if isinstance(error, Mapping) else None
    if not isinstance(found, Mapping):
        return ""
    words = [str(found.get(name) or "")[:_MESSAGE_CHARS] for name in ("type", "message")]
    return " (" + ": ".join(filter(None, words)) + ")"
