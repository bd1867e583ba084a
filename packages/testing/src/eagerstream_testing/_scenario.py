"""`Scenario`: chooses the response to each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from eagerstream._support.terms import assistant_messages
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from ._scripted import http_error
from ._timing import Timing, retime

Turn: TypeAlias = Recording | Callable[[Mapping[str, Any]], Recording]
"""A response, or a function that returns one for the body of a request.

The function runs between the writes of other responses, so it should return quickly.
"""


class Scenario:
    """A conversation known in advance: the responses of the model, turn by turn.

    The request selects the turn: a request whose history has n assistant messages gets turn n, counted from 0. The
    scenario therefore remembers nothing, concurrent runs do not disturb each other, and a repeated request gets the
    same response.

    Args:
        turns: The responses in order. A request beyond the last gets HTTP 400.
        timing: For responses without times, with all chunks at 0. Responses with times keep them.

    Raises:
        UsageError: There is no turn, a turn is neither a recording nor a function, or `timing.cut` has an offset beyond
            a response.
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
        """Return a scenario that answers every request with this turn.

        Raises:
            UsageError: The turn is neither a recording nor a function, or `timing.cut` has an offset beyond the
                response.
        """
        scenario = cls(turn, timing=timing)
        scenario._always = True
        return scenario

    @classmethod
    def scripted(cls, *, seed: int = 0, timing: Timing | None = None) -> Scenario:
        """Return a scenario that answers any request, for programs that you run without a key.

        A request with tools gets calls, with inputs generated from each `input_schema`: the tool's own examples,
        defaults and choices first, else plausible values. If a request has one tool with a short input, there are up
        to three calls of it. The next request, with the results, gets a text that quotes them. A request without tools
        gets a text, or JSON if it asks for a structured output. `tool_choice` is respected, except that after ten
        responses a required call becomes a text. A tool that no generated input fits is not called.

        Args:
            seed: The same seed and request give the same response.
            timing: Pace of the responses. Default: each response arrives at once.
        """
        from ._answering import ScriptedModel  # it brings pydantic

        return cls.of(ScriptedModel(seed), timing=timing)

    def answer(self, request: Mapping[str, Any]) -> Recording:
        """Return the response to a request.

        Args:
            request: The body of the request, `{"messages": [...], ...}`.

        Raises:
            UsageError: The function of the turn did not return a recording, or `timing.cut` has an offset beyond it.
                The function's own exceptions pass through.
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
