"""`Exchange`: one request and its response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from eagerstream_wire import MessageAssembler, MessageEvent, MessageState, Ping

from ..inputs._growing_input import GrowingInput
from ..transports import Reply, RequestBody
from ._deadline import ReplyDeadline
from ._delivery import Delivery
from ._output import OutputDelta, OutputReader

StreamEvent: TypeAlias = MessageEvent[GrowingInput] | OutputDelta | Ping


class ExchangeMarks(Protocol):
    """Takes the times of a response for which there is no event."""

    def opened(self) -> None:
        """Note that the response has started."""
        ...

    def ended(self) -> None:
        """Note that nothing more of the response is read."""
        ...


class Exchange:
    """One request and its response, of which `read_reply` hands on the events.

    Args:
        delivery: Takes the events.
        request: The body of the request.
        assembler: Puts the message together.
        marks: Take the times.
        output: Reads the JSON in the text; None: it is text.

    Attributes:
        request_id: The API's id of the request, once the response has started.
        deadline: The times of the response while it is read; None before and after.
    """

    # One object for the reader, and not an async iterator of events: a generator is one more frame for each event, and
    # it would stop reading whenever its consumer pauses.

    def __init__(
        self,
        delivery: Delivery[Any],
        request: RequestBody,
        assembler: MessageAssembler[GrowingInput],
        marks: ExchangeMarks,
        output: OutputReader | None,
    ) -> None:
        self.delivery = delivery
        self.request = request
        self.assembler = assembler
        self.marks = marks
        self.output = output
        self.request_id: str | None = None
        self.deadline: ReplyDeadline | None = None

    @property
    def is_whole(self) -> bool:
        """True if the message is complete."""
        return self.assembler.state is MessageState.STOPPED

    @property
    def idle_s(self) -> float | None:
        """Seconds since the last byte; None while nothing is read."""
        return None if self.deadline is None else self.deadline.idle_s

    def opened(self, reply: Reply) -> None:
        """Note that the response has started."""
        self.request_id = reply.request_id
        self.marks.opened()

    def take(self, events: Sequence[StreamEvent]) -> bool:
        """Take the events of a chunk: none, if it had only deltas that nobody wants.

        Return True if the reader must wait for `room` before it continues.
        """
        return self.delivery.put_all(events if self.output is None else self.output.take(events))

    async def room(self, deadline: ReplyDeadline) -> None:
        """Wait until more events can be taken. Cancelling this loses no event.

        Raises:
            LimitError: More than `Limits.max_waiting_events` events wait, deltas merged.
        """
        if self.delivery.buffer.must_wait:
            with deadline.allowed():
                await self.delivery.buffer.room()

    def ended(self) -> None:
        """Note that nothing more is read. The events that still come settle what was cut off."""
        self.marks.ended()
