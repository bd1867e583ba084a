"""`read_reply`: the shell around the wire core. It awaits bytes, feeds the core, and hands the events on.

This is the only loop that reads, for `stream` and `run` alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import anyio
import anyio.lowlevel

from eagerstream_wire import InputFragment, MessageEvent, MessageState, WireEvent
from eagerstream_wire._message_inputs import EVENTS_AT_ONCE

from .._support.cancellation import raise_if_cancelled
from ..errors import APIError, StreamInterrupted
from ..inputs._growing_input import GrowingInput
from ..limits import Limits
from ..transports import Reply, RequestBody
from ..transports._eager_fallback import EagerFallback
from ..transports._error_responses import event_error
from ._deadline import ReplyDeadline
from ._exchange import Exchange

_log = logging.getLogger(__name__)


async def read_reply(
    transport: EagerFallback,
    exchange: Exchange,
    *,
    limits: Limits,
    one_message: bool = False,
    scope: anyio.CancelScope | None = None,
) -> None:
    """Send a request and read its response to the end, or to the end of its first message.

    In any case, every input is settled before this returns or raises, so no task waits for one for ever. Their
    `InputStop`s are handed on, except after cancellation from outside, which closes the connection.

    Args:
        transport: Sends the request.
        exchange: Has the request, and takes the events of the response.
        limits: Bounds on the size of the response, and on its time.
        one_message: Stop after the first message.
        scope: Not entered yet. Cancelling it ends the reading, which counts as an interruption.

    Raises:
        APIError, StreamInterrupted, ProtocolError, LimitError, UsageError: See `MessageStream`.
    """
    deadline = ReplyDeadline(limits, scope, opening_s=transport.opening_timeout_s(limits))
    request, assembler, delivery = exchange.request, exchange.assembler, exchange.delivery
    is_read = False
    exchange.deadline = deadline
    delivery.show_sending(request)
    _log_sending(request)
    try:
        with deadline.scope:
            async with transport.open(request, limits, deadline.begin_opening) as reply:
                exchange.opened(reply)
                _log.debug("the response to request %s begins", exchange.request_id)
                deadline.begin()
                reports = False
                while (batch := await reply.receive()) is not None:
                    # Asked for each chunk, because observers may come and go while the response is read.
                    if delivery.wants_changes is not reports:
                        reports = assembler.reports = delivery.wants_changes
                    must_wait = await _take_batch(batch, exchange, one_message=one_message)
                    if assembler.state is MessageState.STOPPED:
                        deadline.end_soon()
                        if one_message:
                            # A run sends its next request now. Without the draining, the client would close the
                            # connection and open another one for it.
                            is_read = True
                            await _drain(reply)
                            break
                    else:
                        deadline.end(batch)
                    batch = ()  # what was taken is not kept while the next chunk is waited for
                    # The deadline stops meanwhile: to wait for our own consumer is no silence of the peer.
                    if must_wait:
                        await exchange.room(deadline)
                    # On asyncio, anyio cancels no task whose future is done already. If a peer always has bytes ready,
                    # the future of this task nearly always is, so the task asks (test_a_flood_can_be_stopped).
                    await anyio.lowlevel.checkpoint_if_cancelled()
                is_read = True
        # A clean end of the body may complete a message, because some gateways omit `message_stop`. A body that we gave
        # up ourselves never does.
        cut = deadline.scope.cancelled_caught
        if cut and deadline.is_opening:
            raise StreamInterrupted(deadline.reason)
        _settle(exchange, cleanly=not cut)
        if assembler.state is not MessageState.STOPPED:
            deadline.raise_if_too_long()
            reason = deadline.reason if cut else "the response ended before its message did"
            raise StreamInterrupted(reason, request_id=exchange.request_id)
    except anyio.get_cancelled_exc_class() as cancelled:
        # Our own cancellation passes through. On asyncio, a client that awaits a cancelled task of its own raises a
        # `CancelledError`, too. That is a lost connection; as a cancellation, it would end the run without any error
        # (test_a_foreign_cancellation).
        await raise_if_cancelled(cancelled)
        _settle(exchange, cleanly=False)
        raise StreamInterrupted(
            "the connection was given up", request_id=exchange.request_id, message=assembler.message
        ) from cancelled
    except Exception as error:
        # The message is complete, so a failure of the connection after it loses nothing. Other errors count if another
        # message may follow, as in `stream`.
        if assembler.state is MessageState.STOPPED and (is_read or isinstance(error, StreamInterrupted)):
            return
        # Before the inputs are settled, which changes the state.
        has_begun = assembler.state is not MessageState.WAITING
        _settle(exchange, cleanly=False)
        if has_begun and isinstance(error, APIError):
            error.message = assembler.message
            error.request_id = error.request_id or exchange.request_id
        raise
    finally:
        # Once more, for a cancellation from outside. A task outside the block may wait for an input, and must not wait
        # for ever (test_leaving_early_ends_what_waits_for_an_input). The events are not handed on, because `take` may
        # start tools.
        exchange.deadline = None
        exchange.ended()
        assembler.close(cleanly=False)
        _log.debug(
            "the response to request %s has ended: stop reason %.80r", exchange.request_id, assembler.stop_reason
        )
        # One warning for each response, with its first violation: such a peer usually repeats it in each block.
        if assembler.violations:
            what = "a response broke the protocol (request %s, violations: %d): %s"
            _log.warning(what, exchange.request_id, assembler.violation_count, assembler.violations[0])


def _log_sending(request: RequestBody) -> None:
    if _log.isEnabledFor(logging.DEBUG):
        counts = [len(given) if isinstance(given := request.get(name), list) else 0 for name in ("messages", "tools")]
        _log.debug("a request is sent: model %.80r, %d messages, %d tools", request.get("model"), *counts)


def _settle(exchange: Exchange, *, cleanly: bool) -> None:
    # The end first, so that the marks do not take the events that settle inputs for a chunk that came.
    exchange.ended()
    exchange.take(exchange.assembler.close(cleanly=cleanly))


async def _take_batch(batch: Iterable[WireEvent | InputFragment], exchange: Exchange, *, one_message: bool) -> bool:
    """Hand the events of a chunk on, all together. Return True if the reader must wait."""
    # Together, so that the consumer wakes once for hundreds of events. `feed_deltas` takes the fragments in one pass,
    # and returns the first event that is not one.
    assembler = exchange.assembler
    events: list[MessageEvent[GrowingInput]] = []
    input_deltas = exchange.delivery.wants_deltas
    has_ping = False
    rest = iter(batch)
    try:
        while (wire_event := assembler.feed_deltas(rest, events, input_deltas=input_deltas)) is not None:
            if type(wire_event) is dict:
                # The API may report an error after HTTP 200. It ends the response, whatever follows.
                if wire_event["type"] == "error":
                    raise event_error(wire_event, exchange.request_id)
                has_ping = has_ping or wire_event["type"] == "ping"
            events += assembler.feed(wire_event)
            # Nonsense after the message must not spoil it (test_nonsense_after_the_message).
            if one_message and assembler.state is MessageState.STOPPED:
                break
    finally:
        # Also the events before one that raised: the cut of the bytes must not decide which events the consumer gets.
        must_wait = exchange.take(events if len(events) <= EVENTS_AT_ONCE else events[:EVENTS_AT_ONCE])
        for start in range(EVENTS_AT_ONCE, len(events), EVENTS_AT_ONCE):
            # One event may end thousands of inputs, and each starts a call. Shielded, as between two pieces of a chunk.
            await anyio.lowlevel.cancel_shielded_checkpoint()
            must_wait = exchange.take(events[start : start + EVENTS_AT_ONCE])
        if has_ping:
            exchange.delivery.put_ping()
    return must_wait


async def _drain(reply: Reply) -> None:
    """Read the rest of the body after the message, usually nothing, so that the connection can be used again."""
    try:
        while await reply.receive() is not None:
            await anyio.lowlevel.checkpoint_if_cancelled()
    except Exception:
        pass  # the message is complete: what comes after it loses nothing
