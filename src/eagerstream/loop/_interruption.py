"""`interruption` and `Restarts`: what a response that breaks off means, and when its request is sent again."""

from __future__ import annotations

from random import uniform
from typing import Any, Final
from weakref import ReferenceType, ref

from eagerstream_wire import MessageAssembler
from eagerstream_wire._assistant_message import AssistantMessage

from ..calls._turn import Turn
from ..errors import APIError, ProtocolError, StreamInterrupted
from ..limits import Limits
from ._options import LoopOptions

LOST_START: Final = "a call of the response came without its start"
_MAX_RESTART_DELAY_S: Final = 30.0
# Beyond 2 ** 1023 a float overflows: a night without a network would end in an OverflowError
# (test_a_thousand_restarts).
_MAX_DOUBLINGS: Final = 64


class Unwanted(Exception):
    """Not an error: the rest of the response is not wanted."""

    # Raised deep inside the reading, so that the connection is closed and every input is settled in the same way as
    # after a failure. To cancel the scope instead would look like a lost connection.


def interruption(
    turn: Turn, assembler: MessageAssembler[Any], error: Exception | None, request_id: str | None, *, has_response: bool
) -> APIError | ProtocolError | None:
    """Return the error with which a response broke off; None if it did not.

    Args:
        turn: The turn of the response.
        assembler: Has read the response.
        error: Was raised while it was read.
        request_id: That of the response.
        has_response: The response had begun.

    Raises:
        ProtocolError: The body was no stream of events: asking again is of no use.
    """
    # There are two causes of `Unwanted`. A guard's cut is a regular end. A restart by the peer is treated like a lost
    # connection, because the rest of the first message will not come.
    match error:
        case Unwanted() if turn.voided is not None:
            what = "the peer started its response again"
            return StreamInterrupted(what, request_id=request_id, message=turn.voided)
        # A login page or another service answers the next request in the same way. Nonsense in the middle of a response
        # is an accident, and is resumed from.
        case ProtocolError() if not has_response:
            raise error
        case APIError() | ProtocolError():
            return error
        # Fragments without the start of their block: the message ended well, but one of the model's calls is missing,
        # and would be ignored. After `cancel` nothing continues, so it does not matter.
        case _:
            return ProtocolError(LOST_START) if assembler.lost_fragments and not turn.is_stopped else None


def message_of(turn: Turn, assembler: MessageAssembler[Any]) -> AssistantMessage:
    """Return the assistant message as far as it has come and counts."""
    # After a restart that is not followed, the message before it counts, since its calls have run. The assembler's form
    # of it has the ids that the calls got after the event.
    return assembler.message if turn.voided is None else assembler.voided or turn.voided


class Restarts:
    """Counts interruptions in a row, and says how long to wait after each.

    Args:
        options: `on_interrupt`, `max_restarts` and `restart_delay_s`.
        limits: Bounds the time for which a peer may have us wait.
    """

    def __init__(self, options: LoopOptions, limits: Limits) -> None:
        self._options = options
        self._limits = limits
        self._count = 0
        self._counted: ReferenceType[Exception] | None = None

    def reset(self) -> None:
        """Start from 0, after a complete response."""
        # A long run may be interrupted now and then, but a peer that never gets through must not be asked for ever.
        self._count, self._counted = 0, None

    def keep_counted(self, error: APIError | ProtocolError) -> None:
        """Count the last interruption once, if it is asked about again before another one counts."""
        self._counted = ref(error)

    def delay_s(self, error: APIError | ProtocolError) -> float:
        """Count an interruption, and return the seconds to wait before the next request.

        Raises:
            APIError, ProtocolError: `error` itself, if the conversation does not continue.
        """
        retry_after_s = 0.0
        if isinstance(error, APIError):
            retry_after_s = max(error.retry_after_s or 0.0, 0.0)
            # A client that retries has already done so. If both retried, the numbers of their attempts would multiply
            # (test_a_client_that_retries_itself). `not <=`, because NaN seconds are over the limit, too.
            if not error.retryable or error.retried or not retry_after_s <= self._limits.max_retry_after_s:
                raise error
        is_counted = self._counted is not None and self._counted() is error
        self._counted = None
        count = self._count - is_counted  # those before it
        if self._options["on_interrupt"] == "raise" or count == self._options["max_restarts"]:
            raise error
        longest_s = max(self._options["restart_delay_s"], _MAX_RESTART_DELAY_S)
        delay_s: float = min(self._options["restart_delay_s"] * 2 ** min(count, _MAX_DOUBLINGS), longest_s)
        self._count = count + 1
        # Spread out, because clients that were interrupted at the same time must not come back at the same time. Only
        # our own delay is spread: a peer must not be asked sooner than it said (test_the_peer_says_how_long).
        return retry_after_s + delay_s * uniform(0.5, 1)
