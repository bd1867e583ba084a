"""`read_reply`: the shell around the wire core. Await bytes, feed the core, hand its events on."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

import anyio

from .._support.cancellation import raise_if_cancelled
from ..errors import APIError, StreamInterrupted
from ..limits import Limits
from ..transports import Reply, RequestBody, Transport
from ..transports._failures import event_error
from ..wire import InputFragment, MessageAssembler, MessageEvent, MessageState, WireEvent
from ._deadline import ReplyDeadline
from ._growing_input import GrowingInput

_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Who takes the events of a reply."""

    wants_deltas: bool
    """It has a use for `InputDelta`s: else none are made."""
    wants_changes: bool
    """The deltas must carry their changes."""

    async def room(self) -> None:
        """Wait until more events can be taken."""
        ...

    def sending(self, request: RequestBody) -> None:
        """The request is about to be sent, by the task that this is called in."""
        ...

    def opened(self, reply: Reply) -> None:
        """The reply has begun."""
        ...

    def take(self, events: list[MessageEvent[GrowingInput]]) -> bool:
        """Take in what came with one chunk: nothing, if all of it were deltas that nobody wants.

        True if the reader must wait for `room` before it continues.
        """
        ...

    def ended(self) -> None:
        """Nothing more is read. The events that still come settle what was cut off."""
        ...


async def read_reply(
    transport: Transport,
    request: RequestBody,
    assembler: MessageAssembler[GrowingInput],
    sink: Sink,
    *,
    limits: Limits,
    one_message: bool = False,
    scope: anyio.CancelScope | None = None,
) -> None:
    """Send a request and read its reply to the end, or to the end of its first message.

    However it ends, every input is settled before this returns or raises, so that nobody waits for one in vain; their
    `InputStop`s are handed on, except after cancellation from outside.

    Args:
        transport, request: Where to, and what.
        assembler: Puts the message together.
        sink: Takes the events.
        limits: Bounds on what is taken in, and on the time.
        one_message: Stop after the first message.
        scope: Not entered yet; who cancels it ends the reading, which counts as an interruption.

    Raises:
        APIError, StreamInterrupted, ProtocolError, LimitError: See `MessageStream`.
    """
    deadline = ReplyDeadline(limits, scope, opening_s=transport.opening_timeout_s(limits))
    request_id: str | None = None
    is_read = False
    sink.sending(request)
    try:
        with deadline.scope:
            async with transport.open(request, limits) as reply:
                request_id = reply.request_id
                sink.opened(reply)
                deadline.begin()
                reports = False
                while (batch := await reply.receive()) is not None:
                    if sink.wants_changes is not reports:
                        reports = assembler.reports = sink.wants_changes
                    must_wait = _take_batch(batch, assembler, sink, reply, one_message=one_message)
                    if assembler.state is MessageState.STOPPED:
                        deadline.end_soon()
                        if one_message:
                            is_read = True
                            await _drain(reply)
                            break
                    else:
                        deadline.end(batch)
                    if must_wait:
                        with deadline.allowed():
                            await sink.room()
                is_read = True
        cut = deadline.scope.cancelled_caught
        _settle(sink, assembler, cleanly=not cut)
        if assembler.state is not MessageState.STOPPED:
            deadline.raise_if_too_long()
            reason = deadline.reason if cut else "the reply ended before its message did"
            raise StreamInterrupted(reason, request_id=request_id)
    except anyio.get_cancelled_exc_class() as cancelled:
        await raise_if_cancelled(cancelled)
        _settle(sink, assembler, cleanly=False)
        raise StreamInterrupted(
            "the connection was given up", request_id=request_id, message=assembler.message
        ) from cancelled
    except Exception as error:
        if assembler.state is MessageState.STOPPED and (is_read or isinstance(error, StreamInterrupted)):
            return  # the message is whole: what happens to the connection then loses nothing
        has_begun = assembler.state is not MessageState.WAITING
        _settle(sink, assembler, cleanly=False)
        if has_begun and isinstance(error, APIError):
            error.message = assembler.message
        raise
    finally:
        sink.ended()
        assembler.close(cleanly=False)
        if assembler.violations:
            what = "a response broke the protocol (request %s, violations: %d): %s"
            _log.warning(what, request_id, assembler.violation_count, assembler.violations[0])


def _settle(sink: Sink, assembler: MessageAssembler[GrowingInput], *, cleanly: bool) -> None:
    sink.ended()
    sink.take(assembler.close(cleanly=cleanly))


def _take_batch(
    batch: Iterable[WireEvent | InputFragment],
    assembler: MessageAssembler[GrowingInput],
    sink: Sink,
    reply: Reply,
    *,
    one_message: bool,
) -> bool:
    """Hand the events of a chunk on, all in one go. True if the reader must wait."""
    events: list[MessageEvent[GrowingInput]] = []
    deltas = events if sink.wants_deltas else None
    rest = iter(batch)
    try:
        while (wire_event := assembler.feed_deltas(rest, deltas)) is not None:
            if type(wire_event) is dict and wire_event["type"] == "error":
                raise event_error(wire_event, reply.request_id)
            events += assembler.feed(wire_event)
            if one_message and assembler.state is MessageState.STOPPED:
                break
    finally:
        must_wait = sink.take(events)  # also what came before an event that raised
    return must_wait


async def _drain(reply: Reply) -> None:
    """Read what is left after the message, usually nothing, so that the connection can be used again."""
    try:
        while await reply.receive() is not None:
            pass
    except Exception:
        pass  # the message is whole: what comes after it loses nothing
