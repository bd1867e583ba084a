"""What a transport is: it sends one streaming request and hands back the wire events of the reply, as they arrive."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import anyio

from ..errors import APIError, LimitError, ProtocolError, StreamInterrupted
from ..limits import Limits
from ..wire import WireDecoder, WireEvent

RequestBody: TypeAlias = Mapping[str, Any]
"""The parameters of `POST /v1/messages`, without `stream`."""

_CLOSE_TIMEOUT_S: Final = 5.0
_MAX_BUFFERED_CHUNKS: Final = 1_000  # that a client may hand out before it waits for the connection again


class Reply(Protocol):
    """A streamed reply under way."""

    request_id: str | None

    async def receive(self) -> list[WireEvent] | None:
        """The wire events of the next chunk, often none; None at the end of the body.

        Cancelling it leaves the reply unusable: close it.

        Raises:
            StreamInterrupted: The connection was lost.
            ProtocolError: The body is not what the API sends.
            LimitError: An event is over `Limits.max_event_bytes`, or the body over `Limits.max_reply_bytes`.
        """
        ...


class Transport(ABC):
    """Where the bytes come from. Subclass it for a source of your own."""

    def opening_timeout_s(self, limits: Limits) -> float:
        """Seconds that `open` may take in silence; longer than `idle_timeout_s` where it tries more than once."""
        return limits.idle_timeout_s

    @abstractmethod
    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """Send the request and enter its reply; leaving it closes the connection, also when cancelled.

        Raises:
            APIError: The API refused the request, or could not be reached.
        """


class SSEReply:
    """A reply whose body is a `text/event-stream`, from any source of bytes."""

    def __init__(self, chunks: AsyncIterator[bytes], *, request_id: str | None, limits: Limits) -> None:
        self.request_id = request_id
        self._chunks = chunks
        self._decoder = WireDecoder(max_event_bytes=limits.max_event_bytes)
        self._max_bytes = limits.max_reply_bytes
        self._bytes = 0

    async def receive(self) -> list[WireEvent] | None:
        """See `Reply.receive`."""
        try:
            chunk = await anext(self._chunks, None)
        except Exception as error:
            raise_as(interruption(error, self.request_id), error)
        if chunk is None:
            self._decoder.close()
            return None
        self._bytes += len(chunk)
        if self._bytes > self._max_bytes:
            raise LimitError("max_reply_bytes", self._max_bytes, "the reply")
        return self._decoder.feed(chunk)


async def unwind(chunks: AsyncIterator[object]) -> None:
    """End an iteration that was given up before its end.

    HTTP clients nest async generators. Closing the outermost leaves the inner ones to the garbage collector, which trio
    complains about; cancelling the innermost wait ends them all, one after the other.
    """
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            for _ in range(_MAX_BUFFERED_CHUNKS):
                if await anext(chunks, None) is None:
                    return
        except Exception:
            return  # it is over, which is all that is wanted
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def close_quietly(response: Any) -> None:
    """Close a response also when cancelled: a connection must not outlive the one who asked for it.

    Shielded from cancellation, therefore bounded in time.
    """
    with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True), suppress(Exception):
        await (response.aclose() if hasattr(response, "aclose") else response.close())


def media_type(response: Any) -> str:
    """The content type of a response, in lower case and without its parameters; empty where it has none."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def not_a_stream(content_type: str) -> ProtocolError:
    """The error of a reply with this content type."""
    told = repr(content_type[:80]) if content_type else "of no content type"
    return ProtocolError(f"the reply is not a stream of events but {told}")


def raise_as(translated: Exception, error: Exception) -> NoReturn:
    """Raise `translated` with `error` as its cause; what was not translated is raised as it is."""
    if translated is error:
        raise error
    raise translated from error


def interruption(error: Exception, request_id: str | None) -> Exception:
    """What an exception of an HTTP client, raised while the body was read, is in our terms; itself if it is not one.

    Told by class names: the anthropic package uses httpx or httpx2, by version, and both may be installed.
    """
    names = {base.__name__ for base in type(error).__mro__}
    if "APIStatusError" in names:
        return refusal(error)
    if "DecodingError" in names:
        return ProtocolError(f"the reply cannot be decompressed: {_words(error)}")
    if names & {"APIConnectionError", "TransportError", "StreamError"}:
        return StreamInterrupted(f"the connection was lost: {_words(error)}", request_id=request_id)
    return error


def refusal(error: Exception) -> Exception:
    """What an exception of an HTTP client, raised by sending the request, is in our terms; itself if it is not one."""
    names = {base.__name__ for base in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if "APIStatusError" in names and isinstance(status, int):
        response = getattr(error, "response", None)
        return status_error(status, getattr(error, "body", None), getattr(response, "headers", {}), str(error))
    if names & {"APIConnectionError", "TransportError"}:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        return APIError(f"the API could not be reached: {_words(cause)}", retryable=True)
    return error


def status_error(status: int, body: object, headers: Mapping[str, str], otherwise: str) -> APIError:
    """The error of an HTTP status.

    Args:
        status: HTTP status, or 200 for an `error` event of a client that raises it.
        body: The decoded JSON body; in the API's shape `{"type": "error", "error": {"type", "message"}}`, or anything.
        headers: Of the response, by lower-case name.
        otherwise: What to say if the body says nothing.
    """
    fault = body.get("error") if isinstance(body, Mapping) else None
    fault = fault if isinstance(fault, Mapping) else {}
    error_type = fault.get("type")
    error_type = error_type if isinstance(error_type, str) else None  # a peer may send what has no hash
    reason = str(fault.get("message") or otherwise)
    return APIError(
        reason,
        hint=_hint(reason) if status == 400 else None,
        status_code=None if status == 200 else status,
        error_type=error_type,
        request_id=headers.get("request-id") or headers.get("x-request-id"),
        retryable=status in {408, 409, 429} or status >= 500 or error_type in _RETRYABLE_TYPES,
        retry_after_s=_retry_after_s(headers),
    )


def _hint(reason: str) -> str | None:
    """What to do about a request that the API refuses, where its words say what is wrong with the history."""
    found = re.search(r"`tool_use` ids were found without `tool_result` blocks immediately after: (.*?)\. Each", reason)
    if found is None:
        return None
    return (
        f"Send a tool_result for {found[1]} at the very start of the message after the call; "
        "eagerstream.validate_history(messages) finds such faults before anything is sent"
    )


_RETRYABLE_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


def event_error(event: WireEvent, request_id: str | None) -> APIError:
    """The error of an `error` event inside a stream."""
    error = status_error(200, event, {}, "the API ended the stream with an error")
    sent = event.get("request_id")
    error.request_id = request_id or (sent if isinstance(sent, str) else None)
    return error


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue  # absent, or a date
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        # By the peer's own clock: ours may be another.
        until, now = (parsedate_to_datetime(headers.get(name, "")) for name in ("retry-after", "date"))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
