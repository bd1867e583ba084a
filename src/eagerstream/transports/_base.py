"""The interface of transports: send one streaming request, and return the wire events of its response as they come."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Final, Protocol, Self, TypeAlias

import anyio
import anyio.lowlevel

from eagerstream_wire import AWSEventStreamDecoder, Decoder, FragmentDecoder, InputFragment, TextFragment, WireEvent
from eagerstream_wire._events import TEXT_FIELDS
from eagerstream_wire._tool_kind import LEGACY_BETA, forbids_legacy_beta, tool_kind
from eagerstream_wire._values import mapping_in

from .._support.cancellation import unwind
from .._support.terms import BETA_HEADER, betas_in, media_type
from .._support.unpacking import TooManyBytesError, Unpacker, UnpackingError, pieces_of
from ..errors import APIError, LimitError, ProtocolError, UsageError
from ..limits import Limits
from ._error_bodies import read_error
from ._error_responses import MAX_ERROR_BYTES, may_be_events, no_stream_error, request_id_of
from ._failures import interruption, raise_as

RequestBody: TypeAlias = Mapping[str, Any]
"""The parameters of `POST /v1/messages`, without `stream`."""


_PIECE_BYTES: Final = 16_384
"""Bytes of a longer chunk that are decoded at once: about 150 events, 0.25 ms."""
_PORTION_CHARS: Final = 4_096
"""Characters of a longer delta that come at once. Parsing them takes up to 8 ms, and up to 20 ms if an observer wants
the changes."""
_CHUNK_COST_BYTES: Final = 256
"""Bytes that each chunk counts as, in addition to its own: there is a pause after about 45 small ones.

If each event is an HTTP chunk, a client finds 600 in one read and yields them at once.
"""

_NO_MORE: Final[Iterator[Any]] = iter(())  # one for all replies


class Reply(Protocol):
    """A streamed response in progress."""

    request_id: str | None

    async def receive(self) -> Sequence[WireEvent | InputFragment] | None:
        """Return the wire events of the next chunk or of a part of it, often none; None at the end of the body.

        A delta of an input may come as an `InputFragment`, and one of a text as a `TextFragment`, which is cheaper.

        If this is cancelled, the response is unusable: close it.

        Raises:
            StreamInterrupted: The connection was lost.
            ProtocolError: The body does not have the API's format.
            LimitError: An event exceeds `Limits.max_event_bytes` or `Limits.max_values`, or the body exceeds
                `Limits.max_reply_bytes`.
        """
        ...


class Transport(ABC):
    """A source of response bytes. Subclass it for your own source."""

    def opening_timeout_s(self, limits: Limits) -> float:
        """Return the seconds that `open` may take in silence; more if it makes several attempts."""
        return min(limits.idle_timeout_s, limits.progress_timeout_s)

    @property
    def default_betas(self) -> Sequence[str]:
        """The betas of a request with neither `betas` nor an `anthropic-beta` in its `extra_headers`."""
        return ()

    @abstractmethod
    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """Send the request and enter its response. Leaving the context closes the connection, also when cancelled.

        Raises:
            APIError: The API refused the request, or could not be reached.
            ProtocolError: The response is not a stream of events.
            UsageError: The request, or a setting of the client, cannot be sent.
        """


class StreamedReply:
    """A response whose body is a stream of events, from any source of bytes. Its HTTP status is 200.

    As an async context manager, it ends the reading, also when cancelled.

    Attributes:
        request_id: Id to quote to support. None if the peer gave none.
        headers: Headers of the response.
        tap: Called with each unpacked chunk before it is decoded. None if nobody listens.
        sent_bytes: Size of the body of the request; None if the client does not say.
        ended: True after the end of the body. False after a lost connection or damaged compression. None before.

    Raises:
        ProtocolError: The content coding of the body is not the requested one.
    """

    __slots__ = (
        "_bytes",
        "_bytes_in_a_row",
        "_chunks",
        "_decoder",
        "_event_bytes",
        "_head",
        "_max_bytes",
        "_max_in_a_row",
        "_pieces",
        "_portions",
        "_unpacker",
        "ended",
        "headers",
        "request_id",
        "sent_bytes",
        "tap",
    )

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        *,
        request_id: str | None,
        limits: Limits,
        decoder: Callable[..., Decoder[Any]],
        headers: Mapping[str, str] | None = None,
        content_encoding: str = "",
    ) -> None:
        self.request_id: str | None = request_id
        self.headers: Mapping[str, str] = headers if headers is not None else {}
        self.tap: Callable[[bytes], object] | None = None
        self.sent_bytes: int | None = None
        self.ended: bool | None = None
        self._chunks = chunks
        self._decoder = decoder(max_event_bytes=limits.max_event_bytes, max_values=limits.max_values)
        self._head: bytearray | None = bytearray()  # the start of the body, until there is an event in it
        self._max_bytes = limits.max_reply_bytes
        self._bytes = 0
        self._bytes_in_a_row = 0
        self._event_bytes = 0  # of pieces without the end of an event, before the current one
        # If each chunk is all that has arrived, the next one is waited for, and nobody needs a pause.
        self._max_in_a_row = math.inf if getattr(chunks, "takes_all", False) else _PIECE_BYTES
        self._pieces: Iterator[bytes] = _NO_MORE  # the rest of a long chunk
        self._portions: Iterator[Sequence[WireEvent | InputFragment]] = _NO_MORE  # the rest of a batch
        self._unpacker: Unpacker | None = None
        if content_encoding:
            with self._as_our_errors():
                self._unpacker = Unpacker(content_encoding, max_bytes=self._max_bytes, piece_bytes=_PIECE_BYTES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.ended:  # otherwise the iteration is over
            await unwind(self._chunks)

    async def receive(self) -> Sequence[WireEvent | InputFragment] | None:
        """See `Reply.receive`. A long chunk comes in pieces, and other tasks get their turn between them.

        If this is cancelled, the response is unusable: close it.

        Raises:
            StreamInterrupted: The connection was lost.
            ProtocolError: The body does not have the API's format, or cannot be unpacked.
            LimitError: An event exceeds `Limits.max_event_bytes` or `Limits.max_values`, or the body exceeds
                `Limits.max_reply_bytes`.
        """
        portion = next(self._portions, None)
        if portion is not None:
            await anyio.lowlevel.cancel_shielded_checkpoint()
            return portion
        piece = next(self._pieces, None)
        if piece is not None or self._bytes_in_a_row >= self._max_in_a_row:
            self._bytes_in_a_row = 0
            # Shielded: received bytes are processed before a cancellation takes effect.
            await anyio.lowlevel.cancel_shielded_checkpoint()
        if piece is None:
            chunk = None
            try:
                chunk = await self._chunks.__anext__()  # `anext` with a default wraps each of its awaitables
            except StopAsyncIteration:
                pass  # the end; as the context of a later error it would only confuse
            except Exception as error:
                self.ended = False
                # A JSON error may be complete although its connection was lost then.
                told = no_stream_error(bytes(self._head), self.headers) if self._head else None
                raise_as(told if isinstance(told, APIError) else interruption(error, self.request_id), error)
            if chunk is None:
                self.ended = True
                if self._head is not None:
                    fault = no_stream_error(head := bytes(self._head), self.headers)
                    if isinstance(fault, APIError) or not may_be_events(head):
                        raise fault
                self._decoder.close()
                return None
            self._bytes_in_a_row += _CHUNK_COST_BYTES + len(chunk)
            if self._unpacker is not None:
                self._pieces = self._unpacked(self._unpacker, chunk)
                piece = next(self._pieces, b"")
            else:
                if self.tap is not None:
                    self.tap(chunk)
                self._bytes += len(chunk)
                if self._bytes > self._max_bytes:
                    raise self._too_long()
                piece = chunk
                if len(chunk) > _PIECE_BYTES:
                    self._pieces = pieces_of(chunk, _PIECE_BYTES)
                    piece = next(self._pieces)
        events = self._decoder.feed(piece) if self._head is None else self._begun(piece)
        # Only the first may be longer than a piece.
        if not events:
            self._event_bytes += len(piece)
        elif self._event_bytes <= _PIECE_BYTES:
            self._event_bytes = 0
        else:
            self._event_bytes = 0
            self._portions = portions_of(events)
            return next(self._portions)
        return events

    def _begun(self, piece: bytes) -> Sequence[WireEvent | InputFragment]:
        """Decode a piece before the first event. It is kept: some peers send an error with this content type."""
        assert self._head is not None
        try:
            events = self._decoder.feed(piece)
        except ProtocolError as fault:
            told = no_stream_error(bytes(self._head + piece), self.headers)
            raise_as(told if isinstance(told, APIError) else fault, fault)
        if any(type(event) is not dict or event["type"] != "ping" for event in events):
            self._head = None
        elif len(self._head) < MAX_ERROR_BYTES:
            self._head += piece
        return events

    def _unpacked(self, unpacker: Unpacker, chunk: bytes) -> Iterator[bytes]:
        with self._as_our_errors():
            for piece in unpacker.feed(chunk):
                if self.tap is not None:
                    self.tap(piece)
                yield piece

    @contextmanager
    def _as_our_errors(self) -> Iterator[None]:
        try:
            yield
        except TooManyBytesError:
            raise self._too_long() from None
        except UnpackingError as error:
            self.ended = False
            raise ProtocolError(f"the response cannot be decompressed: {error}") from error

    def _too_long(self) -> LimitError:
        return LimitError("max_reply_bytes", self._max_bytes, "the response")


def portions_of(events: Sequence[WireEvent | InputFragment]) -> Iterator[Sequence[WireEvent | InputFragment]]:
    """Yield a batch whose first event is long in portions. Other tasks get their turn between them.

    A long text of a delta comes in pieces. Some peers send an entire input in one delta: to parse 8 MB, and to show
    them to all observers, takes seconds. Each other event comes alone, because the one behind a long event may be as
    much work: the end of an input that came complete with its start, or the end of the message.
    """
    first = events[0]
    text = first[1] if isinstance(first, tuple) else _text_of(first)
    if len(text) <= _PORTION_CHARS:
        yield [first]
    elif isinstance(first, tuple):
        for start in range(0, len(text), _PORTION_CHARS):
            piece = text[start : start + _PORTION_CHARS]
            yield [TextFragment((first[0], piece)) if isinstance(first, TextFragment) else (first[0], piece)]
    else:
        delta = first["delta"]
        name = TEXT_FIELDS[delta["type"]]
        yield [{**first, "delta": {**delta, name: text[:_PORTION_CHARS]}}]
        bare = {key: value for key, value in first.items() if key in ("type", "index")}
        for start in range(_PORTION_CHARS, len(text), _PORTION_CHARS):
            # Without other fields: an estimate of the tokens of the delta must not count twice.
            yield [{**bare, "delta": {"type": delta["type"], name: text[start : start + _PORTION_CHARS]}}]
    yield from ([event] for event in events[1:])


def _text_of(event: WireEvent) -> str:
    """Return the text of a delta; "" for any other event."""
    delta = event.get("delta")
    if event.get("type") != "content_block_delta" or not isinstance(delta, dict):
        return ""
    kind = delta.get("type")
    text = delta.get(TEXT_FIELDS.get(kind, "")) if isinstance(kind, str) else None
    return text if isinstance(text, str) else ""


def betas_of(request: RequestBody, default_betas: Iterable[str]) -> list[str]:
    """Return the betas that a request may be sent with: its own, those of its headers and body, and the client's."""
    listed = request.get("betas")
    named = mapping_in(request, "extra_body").get("anthropic_beta")  # Bedrock looks there
    return [
        *(listed if isinstance(listed, Iterable) else ()),
        *(named if isinstance(named, list) else ()),
        *betas_in(mapping_in(request, "extra_headers")),
        *default_betas,
    ]


def check_legacy_beta(tools: Iterable[Mapping[str, Any]], betas: Iterable[str]) -> None:
    """Check that no tool forbids the beta for fine-grained tool streaming, if the request has this beta.

    Raises:
        UsageError: `betas` contains the beta, and the API refuses it together with one of the tools.
    """
    if LEGACY_BETA not in betas:
        return
    forbidding = next((tool_kind(tool) for tool in tools if forbids_legacy_beta(tool)), None)
    if forbidding is not None:
        raise UsageError(f"the API refuses the beta {LEGACY_BETA} together with {forbidding}, and no tool needs it")


def with_betas(request: RequestBody, betas: Sequence[str], default_betas: Iterable[str]) -> RequestBody:
    """Return the request with `betas` added to those it would be sent with; the same request if `betas` is empty."""
    if not betas:
        return request
    body = request.get("extra_body") or {}
    if isinstance(named := body.get("anthropic_beta"), list):  # Bedrock looks there, and only there
        request = {**request, "extra_body": {**body, "anthropic_beta": [*dict.fromkeys([*named, *betas])]}}
    headers = request.get("extra_headers") or {}
    has_header = any(name.lower() == BETA_HEADER for name in headers)
    # If a request has both, an anthropic client sends the header.
    listed = request.get("betas")
    if isinstance(listed, Iterable) and not has_header:
        return {**request, "betas": [*dict.fromkeys([*listed, *betas])]}
    others = {name: value for name, value in headers.items() if name.lower() != BETA_HEADER}
    kept = betas_in(headers) if has_header else default_betas
    return {**request, "extra_headers": {**others, BETA_HEADER: ",".join(dict.fromkeys([*kept, *betas]))}}


DECODERS: Final[Mapping[str, type[Decoder[Any]]]] = {
    FragmentDecoder.media_type: FragmentDecoder,
    AWSEventStreamDecoder.media_type: AWSEventStreamDecoder,
}
"""The decoder for each media type of a body."""


async def streamed(response: Any, limits: Limits) -> StreamedReply:
    """Return the `StreamedReply` of a response of httpx or httpx2 with status 200. The caller closes the response.

    Raises:
        APIError: The body is an error, although the status is 200.
        ProtocolError: The content type is not a stream of events, or the content coding is neither gzip nor identity.
    """
    content_type = media_type(response.headers.get("content-type", ""))
    decoder = DECODERS.get(content_type)
    # The raw bytes: clients unpack each chunk completely, however large the result. If the body was already read, for
    # example by a hook of the client, it is already unpacked.
    is_raw = not getattr(response, "is_stream_consumed", True)
    chunks: AsyncIterator[bytes] = response.aiter_raw() if is_raw else response.aiter_bytes()
    content_encoding = response.headers.get("content-encoding", "") if is_raw else ""
    if decoder is None:
        told = repr(content_type[:80]) if content_type else "of no content type"
        body = await read_error(chunks, content_encoding)
        raise no_stream_error(body, response.headers, told)
    reply = StreamedReply(
        chunks,
        request_id=request_id_of(response.headers),
        limits=limits,
        decoder=decoder,
        headers=response.headers,
        content_encoding=content_encoding,
    )
    with suppress(AttributeError, RuntimeError):  # a response of somebody else, whose request is not at hand
        reply.sent_bytes = len(response.request.content)
    return reply
