"""`Scenario`: which reply answers which request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..errors import UsageError
from ..recordings import Recording
from ._scripted import http_error
from ._timing import Timing, retime

Turn: TypeAlias = Recording | Callable[[Mapping[str, Any]], Recording]
"""A reply, or a function from the body of the request to one. The function is called between the writes of other
replies: it should not take long."""


class Scenario:
    """A conversation known in advance: turn by turn, what the model says.

    The request itself decides which turn answers it: a request whose history holds n assistant messages is answered
    by turn n, counted from 0. So nothing has to be remembered, runs at the same time do not disturb one another, and a
    request that is sent again gets the same reply again.

    Args:
        turns: In order. A request beyond the last is answered with HTTP 400.
        timing: For replies that come without times, everything at 0; those that have times keep them.

    Raises:
        UsageError: There is no turn.
    """

    def __init__(self, *turns: Turn, timing: Timing | None = None) -> None:
        if not turns:
            raise UsageError("a scenario has at least one turn")
        for turn in turns:
            if not isinstance(turn, Recording) and not callable(turn):
                raise UsageError(f"a turn is a Recording, or a function that gives one, not {type(turn).__name__}")
        self._timing = timing
        # Recordings are timed once, not for each request: a body of megabytes takes its time.
        self._turns = tuple(self._timed(turn) if isinstance(turn, Recording) else turn for turn in turns)
        self._always = False

    @classmethod
    def of(cls, turn: Turn, *, timing: Timing | None = None) -> Scenario:
        """Every request is answered by this one turn."""
        scenario = cls(turn, timing=timing)
        scenario._always = True
        return scenario

    def answer(self, request: Mapping[str, Any]) -> Recording:
        """The reply to a request.

        Args:
            request: The body of the request, `{"messages": [...], ...}`.

        Raises:
            UsageError: The function of the turn did not give a recording. What it raises itself passes through.
        """
        number = 0 if self._always else assistant_messages(request)
        if number >= len(self._turns):
            what = f"messages: turn {number} is asked for, and this scenario has {len(self._turns)}, counted from 0"
            return http_error(400, "invalid_request_error", what)
        turn = self._turns[number]
        if isinstance(turn, Recording):
            return turn
        answer: object = turn(request)
        if not isinstance(answer, Recording):
            raise UsageError(f"turn {number} of the scenario gave {type(answer).__name__}, not a Recording")
        return self._timed(answer)

    def _timed(self, recording: Recording) -> Recording:
        if self._timing is None or recording.duration_s > 0 or recording.status != 200:
            return recording
        return retime(recording, self._timing)


def assistant_messages(request: Mapping[str, Any]) -> int:
    """Which turn a request asks for."""
    messages = request.get("messages")
    if not isinstance(messages, list):
        return 0
    return sum(isinstance(message, Mapping) and message.get("role") == "assistant" for message in messages)
