"""`RestAnswer`: the response to a request for the rest of an input, as far as it continues that input.

`ContinuedUsage` has the usage of a response together with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagerstream_wire import (
    InputDelta,
    InputFragment,
    InputStart,
    InputStop,
    MessageAssembler,
    MessageStart,
    MessageStop,
    Outcome,
    ToolInput,
    WireEvent,
)
from eagerstream_wire._assistant_message import add_usage
from eagerstream_wire._stop_reasons import standard_stop_reason

from ..errors import StreamInterrupted
from ..transports._error_responses import event_error
from ._budget import usage_so_far
from ._cut_input import TOOL_NAME
from ._seam import Seam, SeamError


class RestAnswer:
    """The response to a request for the rest of an input.

    Args:
        seam: Turns its input into the rest.
        assembler: Puts its message together.

    Attributes:
        is_complete: The input is there to its end.
        has_ended: Nothing more comes, or is wanted.
    """

    def __init__(self, seam: Seam, assembler: MessageAssembler[ToolInput]) -> None:
        self.seam = seam
        self.assembler = assembler
        self.is_complete: bool = False
        self.has_ended: bool = False
        self._input: ToolInput | None = None

    @property
    def usage(self) -> dict[str, Any]:
        """All that has been used for it so far, in part an estimate if its final counts have not come."""
        if self.assembler.stop_reason is None:
            return usage_so_far(self.assembler)
        return {**(self.assembler.message.get("usage") or {})}

    def take(self, batch: Sequence[WireEvent | InputFragment] | None) -> str:
        """Take events, None at the end of the body, and return what they add to the cut input.

        Raises:
            SeamError: They do not continue it.
            APIError: The API reports an error.
        """
        assembler, pieces = self.assembler, []
        events = []
        for event in batch or ():
            if type(event) is dict and event["type"] == "error":
                raise event_error(event, None)
            events += assembler.feed(event)
        if batch is None:
            events += assembler.close()
            self.has_ended = True
        for happened in events:
            match happened:
                case InputStart(input=input) if self._input is None and input.kind == "tool_use":
                    if input.name != TOOL_NAME:
                        raise SeamError("the model called another tool")
                    self._input = input
                case MessageStart(restarted=True):
                    raise StreamInterrupted("the peer started its response again")
                case InputStart() if self.is_complete:
                    self.has_ended = True  # it is not asked for more than the rest
                case InputDelta(input=input, fragment=fragment) if input is self._input:
                    pieces.append(self.seam.feed(fragment))
                case InputStop(input=input) if input is self._input:
                    if input.outcome is Outcome.INVALID:
                        raise SeamError("the rest is no JSON")
                    if input.outcome is Outcome.VALID:
                        pieces.append(self.seam.end())
                        self.is_complete = True
                case MessageStop():
                    self.has_ended = True
                case _:
                    pass
        if self.has_ended and not self.is_complete:
            reason = assembler.stop_reason
            if reason is None:
                raise StreamInterrupted("the response ended before its message did")
            if standard_stop_reason(reason) != "max_tokens":
                raise SeamError("the model did not write the rest")
        return "".join(pieces)


class ContinuedUsage:
    """The usage of a response, together with those that continue it.

    It does not know who sends the requests, so that the exchange can keep it without a cycle.

    Args:
        ended: The usage of the response itself.

    Attributes:
        answer: The response that continues it, while it is read; None if there is none.
    """

    def __init__(self, ended: Mapping[str, Any]) -> None:
        self.answer: RestAnswer | None = None
        self._ended = ended

    @property
    def so_far(self) -> dict[str, Any]:
        """The counts of all of them."""
        usage = {**self._ended}
        if self.answer is not None:
            add_usage(usage, self.answer.usage)
        return usage

    def end(self) -> None:
        """Take the counts of the answer, which has ended."""
        self._ended, self.answer = self.so_far, None
