"""`stream`: one streaming request. Await bytes, feed the wire core, hand out events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import anyio

from .errors import APIError, ProtocolError, StreamInterrupted
from .growing import GrowingInput
from .handover import BufferMode, EventBuffer, EventFeed
from .limits import DEFAULT_LIMITS, Limits
from .transports import Reply, RequestBody, Transport, as_transport
from .transports.base import event_error
from .wire import MessageAssembler, MessageEvent, MessageState, ParserFactory, PartialJSON, WireEvent
from .wire.events import Message

StreamEvent: TypeAlias = MessageEvent[GrowingInput]


class Definition(Protocol):
    """A tool that knows its definition: one of ours, or of the anthropic package's helpers."""

    def to_dict(self) -> Mapping[str, Any]:
        """The definition as the API takes it."""
        ...


_GRACE_S = 0.25
"""How long a body may still go on after the message, before the connection is given up instead of used again."""


def stream(
    client: Any,
    *,
    model: str,
    max_tokens: int,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Definition | Mapping[str, Any]] = (),
    limits: Limits = DEFAULT_LIMITS,
    parser: ParserFactory = PartialJSON,
    buffer: BufferMode = "merge",
    min_interval_s: float = 0.0,
    min_chars: int = 0,
    **parameters: Any,
) -> MessageStream:
    """One streaming request to the Messages API, its events while they come, and the message at the end.

        async with eagerstream.stream(client, model=..., max_tokens=..., tools=[...], messages=[...]) as stream:
            async for event in stream:
                ...
        message = stream.message

    Nothing is sent before the block is entered. Leaving it early, or being cancelled in it, closes the connection.
    A slow consumer slows only itself: reading goes on.

    Args:
        client: An async client of the anthropic package, an `HTTPTransport`, or a `Recording` to play back.
        model, max_tokens, messages: As in the API.
        tools: Functions decorated with `@tool`, or definitions as the API takes them.
        limits: Bounds on what is taken in.
        parser: Makes the parser of each tool input.
        buffer: What happens when more than 256 events wait for the consumer: `"merge"` merges deltas of the same
            block, `"wait"` stops the reading until there is room.
        min_interval_s: At most one `InputDelta` of an input in so many seconds; no text is lost, and the last one comes
            before the `InputStop`.
        min_chars: No `InputDelta` of fewer characters, except the last.
        parameters: Everything else that the API takes: `system`, `tool_choice`, `thinking`, `betas`, ...

    Raises:
        UsageError: The client is of the wrong kind, or a setting is out of range. At once, before anything is sent.
    """
    request = {"model": model, "max_tokens": max_tokens, "messages": list(messages), **parameters}
    if tools:
        request["tools"] = [dict(tool) if isinstance(tool, Mapping) else dict(tool.to_dict()) for tool in tools]
    events: EventBuffer[StreamEvent] = EventBuffer(mode=buffer, min_interval_s=min_interval_s, min_chars=min_chars)
    return MessageStream(as_transport(client), request, events, limits=limits, parser=parser)


class MessageStream(EventFeed[StreamEvent]):
    """What `stream` gives: an async context manager, and an async iterator over `StreamEvent`s.

    The iteration (or `finish`) raises, after the events before it:
        APIError: The API refused the request, or sent an `error` event.
        StreamInterrupted: The reply broke off; `error.message` has what had come.
        ProtocolError, LimitError: The body is not what the API sends, or more than `limits` allow.
    """

    def __init__(
        self,
        transport: Transport,
        request: RequestBody,
        events: EventBuffer[StreamEvent],
        *,
        limits: Limits,
        parser: ParserFactory,
    ) -> None:
        super().__init__(events)
        self.request_id: str | None = None
        """The API's id of the request, once the reply has begun."""
        self._transport = transport
        self._request = request
        self._limits = limits
        self._assembler = MessageAssembler(parser=parser, limits=limits, input_type=GrowingInput)

    @property
    def message(self) -> Message:
        """The assistant message as far as it has come, as it must be echoed in a history."""
        return self._assembler.message

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped; None until it has."""
        return self._assembler.stop_reason

    @property
    def inputs(self) -> Mapping[int, GrowingInput]:
        """Block index to tool input."""
        return self._assembler.inputs

    async def _read(self) -> None:
        async with self._transport.open(self._request, self._limits) as reply:
            self.request_id = reply.request_id
            await read_reply(reply, self._assembler, self._emit, limits=self._limits)

    async def _emit(self, events: list[StreamEvent]) -> None:
        await self._buffer.room()
        for event in events:
            self._buffer.put(event)


async def read_reply(
    reply: Reply,
    assembler: MessageAssembler[GrowingInput],
    emit: Callable[[list[StreamEvent]], Awaitable[None]],
    *,
    limits: Limits,
    one_message: bool = False,
) -> None:
    """Read a reply to its end, or to the end of its first message.

    However it ends, every input is settled and its `InputStop` emitted before this returns or raises; only
    cancellation leaves inputs as they are.

    Raises:
        APIError, StreamInterrupted, ProtocolError, LimitError: See `MessageStream`.
    """
    try:
        while (batch := await _receive(reply, assembler, limits)) is not None:
            events: list[StreamEvent] = []
            try:
                for wire_event in batch:
                    events += _feed(assembler, wire_event, reply)
                    if one_message and assembler.state is MessageState.STOPPED:
                        break
            finally:
                await emit(events)  # also what came before an event that raised
            if one_message and assembler.state is MessageState.STOPPED:
                await _drain(reply)
                return
        await emit(assembler.close())
        if assembler.state is not MessageState.STOPPED:
            raise StreamInterrupted("the reply ended before its message did", request_id=reply.request_id)
    except Exception as error:
        await emit(assembler.close())
        if isinstance(error, APIError):
            error.message = assembler.message
        raise


def _feed(assembler: MessageAssembler[GrowingInput], wire_event: WireEvent, reply: Reply) -> list[StreamEvent]:
    if wire_event["type"] == "error":
        raise event_error(wire_event, reply.request_id)
    return assembler.feed(wire_event)


async def _receive(reply: Reply, assembler: MessageAssembler[GrowingInput], limits: Limits) -> list[WireEvent] | None:
    """The next batch; silence for longer than `idle_timeout_s` is an interruption, any byte ends the silence."""
    with anyio.move_on_after(limits.idle_timeout_s):
        return await reply.receive()
    if assembler.state is MessageState.STOPPED:
        return None  # the message is whole; only the connection was left open
    raise StreamInterrupted(f"no byte came for {limits.idle_timeout_s} s", request_id=reply.request_id)


async def _drain(reply: Reply) -> None:
    """Read what is left after the message, usually nothing, so that the connection can be used again."""
    with anyio.move_on_after(_GRACE_S):
        try:
            while await reply.receive() is not None:
                pass
        except (StreamInterrupted, ProtocolError):
            pass  # the message is whole: what happens to the connection now loses nothing
