"""`IncomingReply`: one reply while it is read. Its events are handed on, and its calls begin as early as they may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from ..errors import APIError, ProtocolError, StreamInterrupted
from ..limits import Limits
from ..streaming._event_feed import EventFeed
from ..streaming._growing_input import GrowingInput
from ..streaming._marks import Clock, ReplyMarks
from ..streaming._message_stream import StreamEvent, read_reply
from ..tools._call import ToolCall
from ..transports import Reply, RequestBody, Transport
from ..wire import (
    BlockStart,
    InputDelta,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageStart,
    MessageState,
    MessageStop,
    ParserFactory,
)
from ..wire._events import Message
from ._conversation import LOST_START, Conversation
from ._events import RunEvent
from ._scheduler import CallStarts
from ._turn import Turn

_ONLY_DELTAS: Final = frozenset({InputDelta})


class _Unwanted(Exception):
    """Not an error: the rest of the reply is not wanted."""


class IncomingReply:
    """One reply while it is read.

    When a call begins, `CallStarts` says.

    Args:
        turn: What its calls belong to.
        conversation: Makes the calls, and knows the tools.
        feed: Gets the events.
        expect: Told each input at whose end a call is likely to begin.
        admit: Told each call that may begin.
        give_up: Told the calls whose results nobody wants any more.
        parser, limits, invalid_key: As for `MessageAssembler`.
        clock: Tells the time to the marks.

    Attributes:
        marks: What of it came when.
        is_cut: The rest of it is not wanted: a guard says so, or it was begun anew after something of it had run.
    """

    def __init__(
        self,
        turn: Turn,
        conversation: Conversation,
        feed: EventFeed[RunEvent],
        *,
        expect: Callable[[GrowingInput], object],
        admit: Callable[[ToolCall], object],
        give_up: Callable[[Iterable[ToolCall]], object],
        parser: ParserFactory,
        limits: Limits,
        invalid_key: str,
        clock: Clock,
    ) -> None:
        self.is_cut = False
        self._turn = turn
        self._conversation = conversation
        self._feed = feed
        self._admit = admit
        self._give_up = give_up
        self._limits = limits
        self._assembler = MessageAssembler(
            parser=parser,
            limits=limits,
            input_type=GrowingInput,
            invalid_key=invalid_key,
            messages=conversation.result.messages,
        )
        self.marks = ReplyMarks(self._assembler, clock)
        self._scope = anyio.CancelScope()
        self._reply: Reply | None = None  # once it has begun to come
        self._gives_way = False
        self._voided: Message | None = None  # what had come before the peer began it anew
        self._starts = CallStarts(
            conversation.tools, call_of=turn.call_of, add=partial(conversation.add_call, turn), expect=expect
        )

    @property
    def held(self) -> list[ToolCall]:
        """Calls that wait for the end of the message."""
        return self._starts.held

    @property
    def message(self) -> Message:
        """The assistant message as far as it has come and counts."""
        return self._assembler.message if self._voided is None else self._assembler.voided or self._voided

    @property
    def violations(self) -> list[str]:
        """The violations of the protocol by the peer so far; the first 100."""
        return self._assembler.violations

    @property
    def violation_count(self) -> int:
        """The number of all violations."""
        return self._assembler.violation_count

    @property
    def is_whole(self) -> bool:
        """The message has come to its end."""
        return self._assembler.state is MessageState.STOPPED

    def stop(self) -> None:
        """Read no more of it, and begin no more of its calls; its inputs are settled all the same."""
        self._starts.is_stopped = True
        self._scope.cancel()

    async def read(self, transport: Transport, request: Mapping[str, Any]) -> APIError | ProtocolError | None:
        """Send the request and read the reply to its end; what it broke off with, where it did.

        Raises:
            ProtocolError: What came is no stream of events: asking again is of no use.
            LimitError: See `MessageStream`.
        """
        try:
            await read_reply(
                transport,
                request,
                self._assembler,
                self,
                limits=self._limits,
                marks=self.marks,
                one_message=True,
                scope=self._scope,
            )
        except _Unwanted:
            if self._voided is not None:
                request_id = self._reply.request_id if self._reply else None
                return StreamInterrupted("the peer began its reply anew", request_id=request_id, message=self._voided)
        except APIError as error:
            return error
        except ProtocolError as error:
            if self._reply is None:
                raise
            return error
        if self._assembler.lost_fragments and not self._starts.is_stopped:
            return ProtocolError(LOST_START)
        return None

    # --- `stream.Sink` ------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """See `Sink.is_full`; also where a call has been admitted: its tool begins before the next read."""
        return self._gives_way or self._feed.is_full

    async def room(self) -> None:
        """See `Sink.room`."""
        if self._gives_way:
            self._gives_way = False
            await anyio.lowlevel.checkpoint()  # whoever sees the end of the input may yet cancel the run
            await anyio.lowlevel.checkpoint()  # the tool begins
        await self._feed.room()

    @property
    def wants_deltas(self) -> bool:
        """See `Sink.wants_deltas`."""
        return self._feed.wants_deltas or self._starts.has_guards

    @property
    def wants_changes(self) -> bool:
        """See `Sink.wants_changes`."""
        return self._feed.wants_changes

    def sending(self, request: RequestBody) -> None:
        """See `Sink.sending`."""
        self._feed.show_sending(request)

    def opened(self, reply: Reply) -> None:
        """See `Sink.opened`."""
        self._reply = reply

    def take(self, events: list[StreamEvent]) -> None:
        """See `Sink.take`; calls begin in here."""
        if not self.is_cut and not self._starts.asks_guards and {*map(type, events)} == _ONLY_DELTAS:
            self._feed.put_all(events)
            return
        for event in events:
            if self.is_cut:
                if isinstance(event, InputStop) and self._turn.call_of(event.input) is not None:
                    self._feed.put(event)  # of the input that was being written
                continue
            if type(event) is MessageStart and event.voided is not None and self._turn.forbids_retry:
                # What it calls from here on would be what has begun already, under other names.
                self.is_cut = True
                self._voided = event.voided
                self.marks.return_to(self._turn.calls[0].input)
                continue
            self._feed.put(event)
            if type(event) is InputDelta:  # nearly every event of a stream
                if self._starts.asks_guards:
                    self._ask_guard(event.input)
                continue
            match event:
                case InputStart(input=input) if input.kind == "tool_use":
                    self._start(self._starts.begin(input))
                case InputStop(input=input) if input.kind == "tool_use":
                    self._ask_guard(input)
                    self._start(self._starts.end(input))
                case MessageStart(restarted=True):
                    self._starts.void()
                    self._give_up(self._turn.calls)
                    self._conversation.void(self._turn)
                case MessageStop(stop_reason=reason):
                    # At once: the end of the body may be some time in coming, and nothing may begin in it.
                    self._turn.withdraw(self._conversation.ending_of(self._turn, reason).begins)
                case BlockStart(block={"type": "fallback"}):
                    self._turn.take_over()
                case _:
                    pass
        # Of a message that is whole there is nothing left to save.
        if self._voided is not None or (self.is_cut and not self.is_whole):
            raise _Unwanted

    # --- calls --------------------------------------------------------------------------------------------------------

    def _start(self, call: ToolCall | None) -> None:
        if call is not None:
            self._admit(call)
            self._gives_way = True

    def _ask_guard(self, input: GrowingInput) -> None:
        reject = self._starts.ask_guard(input)
        if reject is not None:
            self.is_cut = reject.cut
