"""`ContinuedInputs`: a response that was cut inside the input of a call is continued by further requests.

The run sees one response with one call, whose input only pauses. The end of the cut block is held back, the model is
asked for the rest (`CutInput`), and its answer becomes further fragments of the same block (`Seam`). So tools, pages
and histories need no rule for it. If the model does not continue at the seam, the response ends where it was cut, as if
nobody had asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from enum import Enum
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from eagerstream_wire import (
    InputFragment,
    MessageAssembler,
    WireEvent,
)
from eagerstream_wire._assistant_message import counted
from eagerstream_wire._partial_json import read_whole
from eagerstream_wire._stop_reasons import standard_stop_reason
from eagerstream_wire._tool_kind import EAGER_FIELD
from eagerstream_wire._values import encodable, mapping_in

from .._support.cancellation import raise_if_cancelled
from ..calls._policy import Keeps
from ..calls._settle import kept_blocks
from ..errors import APIError, ProtocolError, StreamInterrupted
from ..inputs import GrowingInput
from ..limits import Limits
from ..streaming._deadline import ReplyDeadline
from ..transports import Reply, RequestBody, Transport
from ..transports._error_responses import event_error
from ._budget import Budget, usage_so_far
from ._cut_input import DEFINITION, TOOL_NAME, CutInput
from ._interruption import Restarts
from ._options import LoopOptions
from ._resending import TransportLayer
from ._rest_answer import ContinuedUsage, RestAnswer
from ._seam import Seam, SeamError
from ._turn_exchange import TurnExchange

_log = logging.getLogger(__name__)

_ENDS: Final = ("content_block_stop", "message_delta", "message_stop", "error")
_DRAIN_S: Final = 0.25
_RUNNING: Final = "This call is running. Its result follows later."


class _Phase(Enum):
    """The part of a response that is received next."""

    FIRST = "first"
    """The response itself."""
    CUT = "cut"
    """Nothing: its last input was cut off, and the rest of it is asked for."""
    REST = "rest"
    """The rest, in the answer to that."""
    TAIL = "tail"
    """The end of the body of that answer: the rest has come."""
    OVER = "over"
    """Nothing: the response ends where it was cut."""


T = TypeVar("T")
_Batch: TypeAlias = Sequence[WireEvent | InputFragment]


class ContinuedInputs(TransportLayer):
    """Sends the requests of a run, and continues their responses.

    Args:
        transport: Sends the requests.
        options: Those of the run.
        budget: That of the run: beyond it, nothing is continued.
        restarts: Those of the run: a loss of the rest counts as one of the response.

    Attributes:
        exchange: The request under way, and its response.
        saved: The events of a response that an earlier process has read. The next request is not sent again: they are
            its response.
    """

    def __init__(self, transport: Transport, options: LoopOptions, budget: Budget, restarts: Restarts) -> None:
        super().__init__(transport)
        self.exchange: TurnExchange | None = None
        self.saved: Sequence[WireEvent] | None = None
        self._options = options
        self._budget = budget
        self._restarts = restarts

    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """See `Transport.open`. Each request with tools has one more of them, so that the prompt cache stays."""
        tools = request.get("tools")
        saved, self.saved = self.saved, None
        if not tools or "compaction" in request or any(tool.get("name") == TOOL_NAME for tool in tools):
            return self._transport.open(request, limits)
        definition = {**DEFINITION, EAGER_FIELD: True} if any(tool.get(EAGER_FIELD) for tool in tools) else DEFINITION
        assert self.exchange is not None
        return _ContinuedReply(
            self._transport,
            {**request, "tools": [*tools, definition]},
            limits,
            exchange=self.exchange,
            options=self._options,
            budget=self._budget,
            restarts=self._restarts,
            saved=saved,
        )


class _ContinuedReply(AbstractAsyncContextManager[Reply]):
    """A response, and the responses that continue the last of its inputs.

    Attributes:
        request_id: That of the first response.
        sent_bytes: See `StreamedReply`.
    """

    def __init__(
        self,
        transport: Transport,
        request: RequestBody,
        limits: Limits,
        *,
        exchange: TurnExchange,
        options: LoopOptions,
        budget: Budget,
        restarts: Restarts,
        saved: Sequence[WireEvent] | None,
    ) -> None:
        self.request_id: str | None = None
        self.sent_bytes: int | None = None
        self._transport = transport
        self._request = request
        self._limits = limits
        self._exchange = exchange
        self._options = options
        self._budget = budget
        self._restarts = restarts
        self._saved = saved
        self._context: AbstractAsyncContextManager[Reply] | None = None
        self._phase = _Phase.FIRST
        self._reply: Reply | None = None  # None while none is open
        self._index: int | None = None  # of the block of a call, until its end
        self._held: list[Any] = []  # the end of that block, and what has come behind it
        self._looked_at = 0  # how many of these decide nothing
        self._fault: Exception | None = None  # with which the first response broke off
        self._continuations = 0
        self._used = ContinuedUsage({})  # since the first response was cut
        self._loss: APIError | ProtocolError | None = None  # after which the rest is asked for

    async def __aenter__(self) -> Reply:
        if self._saved is not None:
            self._reply, self._saved = _SavedReply(self._saved), None
        else:
            self._reply = await self._enter(self._request)
            self.request_id = self._reply.request_id
            self.sent_bytes = getattr(self._reply, "sent_bytes", None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._fault = self._loss = None  # their tracebacks have frames of this: a run must not wait for the collector
        await self._close(kind, error, traceback)

    async def _close(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(kind, error, traceback)

    async def _enter(self, request: RequestBody) -> Reply:
        context = self._transport.open(request, self._limits)
        reply = await context.__aenter__()
        self._context = context
        return reply

    async def receive(self) -> _Batch | None:
        """See `Reply.receive`. A response that breaks off inside an input is continued, too."""
        match self._phase:
            case _Phase.CUT:
                return () if await self._asked() else self._given_up()
            case _Phase.REST:
                return await self._receive_rest()
            case _Phase.OVER:
                if self._fault is not None:
                    raise self._fault
                return None
            case _Phase.TAIL:
                assert self._reply is not None
                return None if await self._reply.receive() is None else ()
            case _:
                return await self._receive_first()

    async def _next_batch(self) -> _Batch | None:
        """Receive events. Inside an input, a silence ends the wait for them instead of the response."""
        assert self._reply is not None
        if self._phase is _Phase.FIRST and self._index is None:
            return await self._reply.receive()
        batch = await self._waited(self._reply.receive())
        if batch is not None:
            self._deadline.end(batch)  # here, because not all of it is handed on, and all of it is progress
        return batch

    async def _waited(self, wait: Awaitable[T], *, opening_s: float | None = None) -> T:
        try:
            with self._deadline.for_one_wait(opening_s=opening_s):
                return await wait
        except anyio.get_cancelled_exc_class() as cancelled:
            await raise_if_cancelled(cancelled)
            raise StreamInterrupted("the connection was given up") from cancelled

    @property
    def _deadline(self) -> ReplyDeadline:
        deadline = self._exchange.deadline
        assert deadline is not None  # nothing is received outside of the exchange
        return deadline

    # --- the first response -------------------------------------------------------------------------------------------

    async def _receive_first(self) -> _Batch | None:
        if self._held and (decided := self._decided()) is not None:
            return decided
        try:
            batch = await self._next_batch()
        except (APIError, ProtocolError) as error:
            return self._over(error) if self._cut_input is None else self._cut(error)
        if batch is None:
            return self._over(None) if self._cut_input is None else self._ended()
        if not self._held:
            return self._passed(batch)
        self._held += [event for event in batch if _kind(event) != "ping"]
        return _pings(batch)

    def _over(self, fault: APIError | ProtocolError | None) -> _Batch:
        """End the response with an error, or with the end of its body."""
        self._phase, self._fault = _Phase.OVER, fault
        return self._closed([])

    def _passed(self, batch: _Batch) -> _Batch:
        """Return the events that are handed on. The end of a call's block is held until all before it is taken."""
        for place, event in enumerate(batch):
            if type(event) is not dict:
                continue
            if event["type"] == "content_block_start":
                is_call = mapping_in(event, "content_block").get("type") == "tool_use"
                self._index = event.get("index") if is_call else None
            elif self._index is not None and event["type"] in _ENDS:
                if not _is_no_cut(batch[place:]):
                    self._held = [*batch[place:]]
                    return batch[:place]
                self._index = None
        return batch

    def _released(self) -> _Batch:
        held, self._held, self._looked_at = self._held, [], 0
        if _kind(held[0]) != "content_block_stop" and not _is_no_cut(held):
            held = self._closed(held)
        self._index = None
        return self._passed(held)

    def _closed(self, events: list[Any]) -> list[Any]:
        """Return events behind the end of the block under way: if its input is complete, nothing else is missing."""
        index, input, self._index = self._index, self._input, None
        if input is None or not self._is_complete(input):
            return events
        return [{"type": "content_block_stop", "index": index}, *events]

    @property
    def _input(self) -> GrowingInput | None:
        """The input of the block under way; None if it belongs to no call, or is empty."""
        input = self._exchange.assembler.inputs.get(self._index) if self._index is not None else None
        return input if input is not None and input.chars else None

    @property
    def _cut_input(self) -> GrowingInput | None:
        """The input that is cut if its block ends here; None if it is complete, wrong or empty."""
        input = self._input
        if input is None or self._is_complete(input):
            return None
        return None if input.open_path is None or input.error is not None else input

    def _is_complete(self, input: GrowingInput) -> bool:
        # Nearly all are, and jiter finds that out 30 times as fast for an input that nobody looks at.
        raw = input.raw
        return raw.rstrip().endswith("}") and read_whole(raw.encode(errors="surrogatepass"), self._limits) is not None

    def _decided(self) -> _Batch | None:
        """Return what follows from the events behind an input; None if more of them must come first."""
        is_first, news = not self._looked_at, self._held[self._looked_at :]
        self._looked_at = len(self._held)
        # The input does not change any more, and all of its text has to be parsed to see if it is complete.
        if (is_first and self._cut_input is None) or _is_no_cut(news):
            return self._released()
        kinds = [*map(_kind, news)]
        if "error" in kinds:
            return self._cut(event_error(news[kinds.index("error")], self.request_id))
        return self._ended() if "message_stop" in kinds else None

    def _ended(self) -> _Batch:
        """Take the end of the response, whose last input is cut."""
        has_reason = any(_stop_reason(event) is not None for event in self._held)
        return self._cut(None if has_reason else StreamInterrupted("the response ended before its message did"))

    # --- its rest -----------------------------------------------------------------------------------------------------

    def _cut(self, fault: APIError | ProtocolError | None) -> _Batch:
        """Ask for the rest of the input next."""
        self._fault = self._loss = fault
        self._phase = _Phase.CUT
        assembler = self._exchange.assembler
        usage = {**(assembler.message.get("usage") or {})} if fault is None else usage_so_far(assembler)
        for event in self._held:
            if _kind(event) == "message_delta":
                usage = counted(usage, event.get("usage"))
        self._used = self._exchange.used = ContinuedUsage(usage)
        return ()

    def _given_up(self) -> _Batch:
        """End the response where it was cut, with all that it has used."""
        self._phase = _Phase.OVER
        if self._fault is not None:
            return ()
        usage = self._used.so_far
        return [{**event, "usage": usage} if _kind(event) == "message_delta" else event for event in self._held]

    async def _asked(self) -> bool:
        """Ask for the rest. Return False if it cannot be had."""
        exchange, input = self._exchange, self._cut_input
        model = str(self._request.get("model"))
        while input is not None and self._continuations < self._options["max_continuations"]:
            cut = CutInput.of(input)
            request = None if cut is None else self._request_for(cut, input)
            if cut is None or request is None or self._budget.exceeded(self._used.so_far, model) is not None:
                return False
            self._continuations += 1
            delay_s = 0.0
            if self._loss is not None:
                try:
                    delay_s = self._restarts.delay_s(self._loss)
                except (APIError, ProtocolError):
                    return False
                if self._loss is self._fault:  # with which the response ends if its rest cannot be had
                    self._restarts.keep_counted(self._loss)
            with self._deadline.allowed():  # our own pause, and the journal's, is no silence of the peer
                await anyio.sleep(delay_s)
                await self._leave()
                await exchange.keep_cut()
            exchange.leave_thread()
            try:
                opening_s = self._transport.opening_timeout_s(self._limits)
                self._reply = await self._waited(self._enter(request), opening_s=opening_s)
            except (APIError, ProtocolError) as error:
                self._loss = error
                continue
            exchange.leave_thread()
            reason = "max_tokens" if self._loss is None else type(self._loss).__name__
            what = "an input was cut off after %d characters, and its rest is asked for: %s (requests %s, %s)"
            _log.warning(what, input.chars, reason, self.request_id, self._reply.request_id)
            self._used.answer = RestAnswer(Seam(cut), MessageAssembler(limits=self._limits))
            self._phase, self._loss = _Phase.REST, None
            return True
        return False

    async def _leave(self) -> None:
        """Close the response under way. After its message, its connection can be used again if its body is read."""
        if self._reply is not None and self._held:
            with anyio.move_on_after(_DRAIN_S), suppress(APIError, ProtocolError):
                while await self._reply.receive() is not None:
                    pass
        self._reply = None
        await self._close()

    def _request_for(self, cut: CutInput, input: GrowingInput) -> RequestBody | None:
        """Return the request for the rest; None if nobody needs it: the call has been answered."""
        exchange = self._exchange
        content = kept_blocks(exchange.message, (), Keeps.WHOLE, server_calls=exchange.turn.server_calls)
        is_answered = any(call.input is input and call.result is not None for call in exchange.turn.calls)
        if is_answered or not content or content[-1].get("id") != input.echo_id:
            return None
        content[-1] = {**content[-1], "input": encodable(cut.value)}
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": _RUNNING}
            for block in content
            if block["type"] == "tool_use"
        ]
        results[-1]["content"] = cut.request()
        added = [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
        # A choice that forces another tool, or none, would forbid the answer.
        kept = {name: value for name, value in self._request.items() if name != "tool_choice"}
        first, cap = self._request["max_tokens"], self._options["max_tokens_cap"] or 0
        more = max(first, min(first * 2 ** (self._continuations + 1), cap))
        return {**kept, "max_tokens": more, "messages": [*self._request["messages"], *added]}

    async def _receive_rest(self) -> _Batch:
        """Return the next part of the rest. What was returned before it has been taken."""
        answer = self._used.answer
        assert self._reply is not None
        assert answer is not None
        events: list[Any] = []
        text = ""
        try:
            batch = await self._next_batch()
            events += _pings(batch or ())
            text = answer.take(batch)
        except (APIError, ProtocolError) as error:
            self._loss, answer.has_ended = error, True
        except SeamError as error:
            _log.warning("an input stays cut off: %s (request %s)", error, self._reply.request_id)
            self._used.end()
            return [*events, *self._given_up()]
        if text:
            events.append((self._index, text))
        if answer.is_complete and self._index is not None:
            events.append({"type": "content_block_stop", "index": self._index})
            self._index = None
        if not answer.has_ended:
            return events
        self._used.end()
        if answer.is_complete:
            self._phase = _Phase.TAIL
            return [*events, *self._end(answer)]
        # A model that adds nothing would be asked for ever.
        if self._loss is None and not answer.seam.chars:
            return [*events, *self._given_up()]
        self._phase = _Phase.CUT
        return events

    def _end(self, answer: RestAnswer) -> list[dict[str, Any]]:
        """Return the end of the response: that of the first one, as if it had not been cut."""
        delta: dict[str, Any] = {}
        for event in self._held:
            if _kind(event) == "message_delta":
                delta |= mapping_in(event, "delta")
        if (container := answer.assembler.message.get("container")) is not None:
            delta["container"] = container
        delta["stop_reason"] = "tool_use"
        return [{"type": "message_delta", "delta": delta, "usage": self._used.so_far}, {"type": "message_stop"}]


def _kind(event: WireEvent | InputFragment) -> Any:
    return event["type"] if type(event) is dict else None


def _pings(batch: _Batch) -> list[Any]:
    return [event for event in batch if _kind(event) == "ping"]


def _stop_reason(event: Any) -> Any:
    return mapping_in(event, "delta").get("stop_reason") if _kind(event) == "message_delta" else None


def _is_no_cut(events: _Batch) -> bool:
    """Return True if events behind an input prove that it was not cut: the model went on, or ended by itself."""
    for event in events:
        reason = _stop_reason(event)
        if reason is not None and not (isinstance(reason, str) and standard_stop_reason(reason) == "max_tokens"):
            return True
        if _kind(event) == "content_block_start":
            return True
    return False


class _SavedReply:
    """The part of a response that an earlier process has read."""

    request_id: str | None = None

    def __init__(self, events: Sequence[WireEvent]) -> None:
        self._events: Sequence[WireEvent] | None = events

    async def receive(self) -> Sequence[WireEvent] | None:
        """See `Reply.receive`."""
        events, self._events = self._events, None
        return events
