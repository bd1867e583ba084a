"""`events`: the events of a response that somebody else has requested."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

from eagerstream_wire import WireEvent
from eagerstream_wire._message_inputs import check_invalid_key

from ..errors import UsageError
from ..limits import DEFAULT_LIMITS, Limits
from ..transports._body import BodyTransport, is_body
from ..transports._client import AsyncBody, AsyncResponse
from ..transports._eager_fallback import EagerFallback
from ._message_stream import MessageStream
from ._options import FEED_DEFAULTS, INPUT_DEFAULTS, SourceOptions, delivery_for, taken
from ._output import output_reader
from ._types import ValueT

if TYPE_CHECKING:
    from ..calls._early_calls import EarlyCalls


@overload
def events(
    source: AsyncIterable[Any] | AsyncBody | AsyncResponse | Iterable[WireEvent],
    *,
    output: type[ValueT] | None = None,
    calls: EarlyCalls | None = None,
    **options: Unpack[SourceOptions],
) -> MessageStream[ValueT]: ...
@overload
def events(
    source: AsyncIterable[Any] | AsyncBody | AsyncResponse | Iterable[WireEvent],
    *,
    output: Mapping[str, Any],
    calls: EarlyCalls | None = None,
    **options: Unpack[SourceOptions],
) -> MessageStream[Any]: ...
def events(
    source: AsyncIterable[Any] | AsyncBody | AsyncResponse | Iterable[WireEvent],
    *,
    output: type | Mapping[str, Any] | None = None,
    calls: EarlyCalls | None = None,
    **options: Unpack[SourceOptions],
) -> MessageStream[Any]:
    """Read a response that somebody else has requested, and get the same events as from `stream`.

        async with eagerstream.events(await client.messages.create(..., stream=True)) as stream:
            async for event in stream:
                ...
        message = stream.message

    Args:
        source: One of these: an async iterable of `bytes` in any pieces; a streaming response of httpx, httpx2 or
            aiohttp, which you close; an `AsyncStream` of the anthropic package; an iterable or async iterable of the
            API's events as mappings.
        output: As for `stream`, if the request asked for JSON.
        calls: Runs the calls of the response, each as early as `run` would. They are entered before the stream.
        options: See `SourceOptions`.

    Raises:
        UsageError: The source is none of these, or an option is out of range. At once.
    """
    rest: dict[str, Any] = dict(options)
    inputs, feed = taken(rest, INPUT_DEFAULTS), taken(rest, FEED_DEFAULTS)
    check_invalid_key(inputs["invalid_key"])
    limits: Limits = rest.pop("limits", DEFAULT_LIMITS)
    reader = output_reader(output, rest, limits)
    if rest:
        raise UsageError(f"events has no option {', '.join(sorted(rest))}: nothing is sent")
    body: Any = source
    if not is_body(source):
        if not isinstance(source, Iterable) or isinstance(source, str | bytes | bytearray | Mapping):
            kind = type(source).__name__
            raise UsageError(f"{kind} is no source of events: pass a response, bytes or events as they come")
        body = _items(source)
    transport = EagerFallback(BodyTransport(body), source, None)
    request = {"model": "", "messages": []}
    delivery = delivery_for(feed, limits)
    stream: MessageStream[Any] = MessageStream(
        transport, request, inputs, delivery, limits=limits, clock=feed["clock"], output=reader
    )
    if calls is not None:
        stream.observe(calls)
    return stream


async def _items(source: Iterable[WireEvent]) -> AsyncIterator[WireEvent]:
    for event in source:
        yield event
