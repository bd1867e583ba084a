"""`Continuing`: whether a conversation continues after a turn, by the options and by what came before."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from eagerstream_wire._stop_reasons import standard_stop_reason

from ..calls._policy import RunStatus, Then, ending_of
from ..calls._turn import Turn
from ..limits import Limits
from ..tools._call import ToolCall
from ._budget import Budget
from ._interruption import Restarts
from ._options import LoopOptions
from ._result import RunResult

_log = logging.getLogger(__name__)


class Continuing:
    """Counts turns, and sets the status of a result when the conversation ends.

    Args:
        options: The options of the loop.
        limits: Bounds the time for which a peer may have us wait.
        result: Has the history. Gets the status.
        budget: What the run may use.

    Attributes:
        turns: Number of turns so far, with the current one.
        restarts: The interruptions in a row.
        retry_max_tokens: The `max_tokens` with which the turn under way is sent again; None for its own.
    """

    def __init__(self, options: LoopOptions, limits: Limits, result: RunResult[Any], budget: Budget) -> None:
        self.turns = 0
        self.retry_max_tokens: int | None = None
        self._continuations = self._failed_turns = 0
        self.restarts = Restarts(options, limits)
        self._options = options
        self._result = result
        self._budget = budget

    @property
    def reached(self) -> str | None:
        """The name of the bound that forbids another turn; None if there is none."""
        if self._options["max_turns"] is not None and self.turns >= self._options["max_turns"]:
            return "max_turns"
        return self._budget.exceeded()

    @property
    def has_turns_left(self) -> bool:
        """True if the conversation may have another turn."""
        return self.reached is None

    def asks_for_more(self, max_tokens: int) -> bool:
        """Return True if a response that `max_tokens` cut is requested again, with more."""
        # Once only: a model that does not come to an end would cost twice as much with each attempt. The cap may leave
        # no room for more tokens; then the same request would be cut again.
        if self._options["on_truncated"] != "retry" or self.retry_max_tokens is not None:
            return False
        more = min(2 * max_tokens, self._options["max_tokens_cap"] or 2 * max_tokens)
        if more > max_tokens:
            self.retry_max_tokens = more
        return more > max_tokens

    def decide(self, turn: Turn, reason: str | None) -> None:
        """Decide if the conversation continues after a response that has ended."""
        ending, result = turn.ending, self._result
        assert ending is not None
        self.retry_max_tokens = None
        self.restarts.reset()
        if ending.then is Then.ASK:
            self._end_at_limit()
            return
        # By the blocks that are kept, not by the calls: those before a `fallback` block are left out, and a turn
        # without one call has no results to send (test_only_calls_before_a_fallback).
        kept = turn.kept
        has_results = any(block.get("type") == "tool_use" for block in kept)
        wants_more = ending.then is Then.RESUME or (ending.then is Then.RESULTS and has_results)
        if not wants_more or not kept:
            result.status = ending.status
            if ending.status is RunStatus.LIMIT:
                result.limit = self._budget.exceeded()
            if isinstance(reason, str) and standard_stop_reason(reason) == "tool_use":
                _log.warning("the response stopped for tools and calls none: the run ends")
            return
        # A pause without client calls, or a reported cut: the model continues by itself, and might for ever. A turn
        # with results is progress, and resets the count.
        is_continuation = not has_results or ending.status is RunStatus.TRUNCATED
        self._continuations = self._continuations + 1 if is_continuation else 0
        if self._continuations > self._options["max_continuations"]:
            result.status = ending.status
        else:
            self._end_at_limit()

    def salvaged(self) -> None:
        """Decide the same after a response that broke off: it has no stop reason, and only one bound is about it."""
        self.retry_max_tokens = None
        self._end_at_limit()

    def _end_at_limit(self) -> None:
        if (bound := self.reached) is not None:
            self._result.status, self._result.limit = RunStatus.LIMIT, bound

    def end_without_budget(self) -> None:
        """End the conversation if its budget, or that of the run above it, is used up: nothing more is sent."""
        if (bound := self._budget.exceeded()) is not None:
            self._result.status, self._result.limit = RunStatus.LIMIT, bound

    def settled(self, calls: Sequence[ToolCall]) -> None:
        """Count a turn whose calls have failed; end the conversation if there were too many in a row."""
        self._failed_turns = self._failed_turns + 1 if all(call.is_error for call in calls) else 0
        is_running = self._result.status is RunStatus.RUNNING
        if self._failed_turns == self._options["max_consecutive_tool_errors"] and is_running:
            self._result.status, self._result.limit = RunStatus.LIMIT, "max_consecutive_tool_errors"

    # --- for journals -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        return {"turns": self.turns, "continuations": self._continuations, "failed_turns": self._failed_turns}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from counts that `state` returned.

        Raises:
            KeyError: They are none.
        """
        self.turns, self._continuations = state["turns"], state["continuations"]
        self._failed_turns = state["failed_turns"]

    def wake(self) -> None:
        """Let a restored conversation run if it had not ended by itself, or may have more turns than before.

        If it was ended when the model had just said its last word, it gets the status that belongs to that.
        """
        result = self._result
        is_answered = result.messages[-1].get("role") == "user"
        if result.status is RunStatus.LIMIT:
            goes_on = is_answered and self.has_turns_left
        else:
            goes_on = result.status in (RunStatus.CANCELLED, RunStatus.ERROR, RunStatus.WAITING)
        if not goes_on:
            return
        result.status, result.error, result.limit = RunStatus.RUNNING, None, None
        reason = result.message.get("stop_reason") if result.message is not None else None
        if reason is not None and not is_answered:
            ending = ending_of(reason, on_truncated=self._options["on_truncated"], forbids_retry=True)
            if ending.then in (Then.STOP, Then.RESULTS):  # there is no result to send
                result.status = ending.status
