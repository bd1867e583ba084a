"""The transition table of the loop: for each end of a response, the calls that run, the part to keep, the next step.

| stop reason | calls that have not started | the turn in the history | next |
|---|---|---|---|
| `tool_use`, `end_turn` | run | complete, with results | continue; without a call: completed |
| `stop_sequence` | run if admitted | complete | stop_sequence |
| `pause_turn`, `compaction` | run | complete | continue with the response as it is; at the cap: paused |
| `max_tokens` | run if admitted | complete | truncated, or as `on_truncated` says |
| the same, reported | run | complete | continue with the results; without a call: truncated |
| `model_context_window_exceeded` | run if admitted | its text; complete if something ran | truncated |
| `refusal` | run if admitted | left out | refused |
| one of another API | as above | as above | as above, by what this API calls it |
| none, or unknown | run if admitted | left out; complete if something ran | unknown |
| (cut by a guard) | run, except held ones | up to the last call, the rejected one included | continue |
| (summary) | not run | none: the summary replaces the history | continue |
| (cut by a message) | run, except held ones | as it came, without calls that were cut | continue |
| (interrupted) | run, except held ones | left out; up to its last complete call if something ran | continue |
| (broken off) | run if admitted | left out; up to its last complete call if something ran | error, cancelled |
| (cancelled) | not run | up to its last call, one that was cut included | cancelled |

"Complete" means all that the API accepts back. Each call has its result: the real one if it ran, otherwise an error
that says why it did not run. A call is admitted when its input is finished and no other call stands in its way. A call
is held if it waits for the end of the message (`start="message"`).

A response is interrupted if it breaks off and the run continues. If nothing had started to run, the turn is discarded
and the same request is sent again; otherwise the run continues with the results. A response is broken off if the run
ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal, TypeAlias

from eagerstream_wire._stop_reasons import standard_stop_reason

OnTruncated: TypeAlias = Literal["stop", "retry", "report", "raise", "continue_input"]
"""The reaction to a response that `max_tokens` cut: see `LoopOptions`."""

OnInterrupt: TypeAlias = Literal["resume", "raise"]
"""The reaction to a response that breaks off: see `LoopOptions`."""


class RunStatus(StrEnum):
    """The way in which a run ended; ending is not success. Each member equals its value: `status == "completed"`."""

    RUNNING = "running"
    """It has not ended."""
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    STOP_SEQUENCE = "stop_sequence"
    REFUSED = "refused"
    PAUSED = "paused"
    LIMIT = "limit"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    WAITING = "waiting"
    """It waits for a decision in its journal, and continues when it is resumed after that."""
    ERROR = "error"


# Three questions are answered apart, by one enum each, and a row is one answer to each of them. As data, the rows can
# be compared with the API's guide line by line, and test_policy.py has a conversation over a socket for each.


class Begins(Enum):
    """The calls of a turn that may still start after the end of the response."""

    ALL = "all"
    UNHELD = "unheld"
    """All but those that wait for the end of the message."""
    # An admitted call has its place, and its task is about to start the tool. To run it or not must not depend on
    # whether the end of its input and the stop reason came in one chunk or in two
    # (test_a_whole_streaming_call_before_max_tokens).
    ADMITTED = "admitted"
    NONE = "none"


class Keeps(Enum):
    """The part of a turn that stays in the history."""

    WHOLE = "whole"
    TEXT = "text"
    """Its text only. If something ran: all."""
    # These two keep more if a tool ran: the tool had its effect, and a model that does not see the call in the history
    # would make it again.
    IF_RAN = "if_ran"
    """Nothing. If something ran: all."""
    UP_TO_LAST_CALL = "up_to_last_call"
    """Nothing. If something ran: up to the last call whose input is finished."""
    CUT = "cut"
    """Up to the last call whose input is finished, or was rejected."""
    AS_IT_CAME = "as_it_came"
    """All but calls whose inputs were cut off before their tools had begun."""
    UP_TO_CUT_CALL = "up_to_cut_call"
    """Up to the last call, including one whose input was cut."""
    NOTHING = "nothing"


class Then(Enum):
    """The next step of the run."""

    STOP = "stop"
    RESULTS = "results"
    """Continue with the results; stop if there are none."""
    RESUME = "resume"
    """Continue with the response as it is."""
    ASK = "ask"
    """Continue, with or without results."""
    TRUNCATED = "truncated"
    """Follow `on_truncated`."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A row of the table."""

    status: RunStatus
    then: Then
    begins: Begins
    keeps: Keeps


_TABLE: Final = {
    # The API's loop is `while stop_reason == "tool_use"`. Without a call there is nothing to answer and nothing to
    # continue from, so the run is complete, with a warning in the log ("tool_use without a call").
    "tool_use": Ending(RunStatus.COMPLETED, Then.RESULTS, Begins.ALL, Keeps.WHOLE),
    # Some gateways end every response with `end_turn`. Most calls have started by then, at the ends of their inputs.
    # Without their results, the model would never come to its answer.
    "end_turn": Ending(RunStatus.COMPLETED, Then.RESULTS, Begins.ALL, Keeps.WHOLE),
    # As `max_tokens`, and unlike the rows above: a stop sequence may stop the model anywhere, so it proves no more
    # about the response than a cut does. The accumulator does not take it for the end of an empty input, either.
    "stop_sequence": Ending(RunStatus.STOP_SEQUENCE, Then.STOP, Begins.ADMITTED, Keeps.WHOLE),
    # The API's guide: send the paused response back unchanged and without a user message; "Continue." would start
    # another turn. It promises that no client call waits in a paused response. If a peer breaks that, the calls run and
    # their results follow, because the API refuses a call without a result ("pause_turn with a call of the client's").
    "pause_turn": Ending(RunStatus.PAUSED, Then.RESUME, Begins.ALL, Keeps.WHOLE),
    "compaction": Ending(RunStatus.PAUSED, Then.RESUME, Begins.ALL, Keeps.WHOLE),
    # The calls that ended before the cut are complete: the end of a JSON object proves it, since no proper prefix of an
    # object is an object. So a call that was admitted runs, and its result is kept with the turn. The default adds no
    # other call to a run that ends anyway.
    "max_tokens": Ending(RunStatus.TRUNCATED, Then.TRUNCATED, Begins.ADMITTED, Keeps.WHOLE),
    # No retry, and no `on_truncated`: more `max_tokens` does not help if the window is full. An unanswered call would
    # only make the history longer, so the text is kept alone, unless a tool ran. Calls that were admitted run here, and
    # in the rows below, as after `max_tokens`: the same bytes give the same calls, however they were cut
    # (test_the_cuts_decide_nothing).
    "model_context_window_exceeded": Ending(RunStatus.TRUNCATED, Then.STOP, Begins.ADMITTED, Keeps.TEXT),
    # The API's guide: discard the partial output, which may come to a stop anywhere. So nothing is kept even if a tool
    # ran. `RunResult.calls` reports that call (test_a_refusal_after_a_call_that_ran).
    "refusal": Ending(RunStatus.REFUSED, Then.STOP, Begins.ADMITTED, Keeps.NOTHING),
}
# A stop reason of tomorrow, or none. It is not known whether the response is complete or may be answered, so nothing
# new starts. The value itself stays in `RunResult.stop_reason` for those who know it.
_UNKNOWN: Final = Ending(RunStatus.UNKNOWN, Then.STOP, Begins.ADMITTED, Keeps.IF_RAN)
# Here the run continues, so all complete calls run, even held ones. The model gets their results, and learns which call
# was cut off. The status shows only if there is no call to report, or at `max_continuations`.
_TO_REPORT: Final = Ending(RunStatus.TRUNCATED, Then.RESULTS, Begins.ALL, Keeps.WHOLE)

# The run ends here, so nothing new starts. An admitted call counts as started: its tool may have been called already,
# and if its answer comes before the block is left, the answer is kept.
BROKEN_OFF: Final = Ending(RunStatus.ERROR, Then.STOP, Begins.ADMITTED, Keeps.UP_TO_LAST_CALL)
"""The response did not end, or nobody waited for its end."""

# `UNHELD`: complete calls that only wait for a slot run, as the run continues and the model wants their results. A held
# call was to start after the end of the message, which never came. The blocks behind the last complete call are
# dropped: the API does not continue half a block, and refuses thinking at the end.
INTERRUPTED: Final = Ending(RunStatus.ERROR, Then.RESULTS, Begins.UNHELD, Keeps.UP_TO_LAST_CALL)
"""The response broke off after something of it had started to run: the run continues with the results of that."""

# The cut call is kept although nothing of it ran: it is what the user saw when he cancelled (test_cancel_in_mid_input).
# `INTERRUPTED` drops such a call, because the model writes it again in the next response.
CANCELLED: Final = Ending(RunStatus.CANCELLED, Then.STOP, Begins.NONE, Keeps.UP_TO_CUT_CALL)
"""The run was told to end."""

# The rejected call stays: its result tells the model why, and otherwise the model would write the same input again.
# Held calls do not run, as the response never ended (test_a_held_call_of_a_reply_that_a_guard_cut).
CUT_BY_GUARD: Final = Ending(RunStatus.COMPLETED, Then.RESULTS, Begins.UNHELD, Keeps.CUT)
"""A guard had the response cut: the run continues with the results of the calls before the cut."""


# The user has read the text so far and answers it, so it stays, also the half of a sentence. Thinking that was cut off
# has no signature and is dropped as the last block. Held calls do not run, as the response never ended.
CUT_BY_MESSAGE: Final = Ending(RunStatus.COMPLETED, Then.ASK, Begins.UNHELD, Keeps.AS_IT_CAME)
"""The user said something that cannot wait: the run continues with that."""

# Its complete calls run, as after a guard's cut, because they are paid for. A held call does not: the response never
# ended.
CUT_BY_BUDGET: Final = Ending(RunStatus.LIMIT, Then.STOP, Begins.UNHELD, Keeps.AS_IT_CAME)
"""The estimate of the response passed the budget of the run: the run ends."""

SUMMARY: Final = Ending(RunStatus.COMPLETED, Then.ASK, Begins.NONE, Keeps.NOTHING)
"""The response to a request for a summary: the run continues, with or without one."""


def ending_of(stop_reason: str | None, *, on_truncated: OnTruncated, forbids_retry: bool) -> Ending:
    """Return the row for a response that ended.

    Args:
        stop_reason: Why the model stopped.
        on_truncated: The user's choice.
        forbids_retry: A call of the turn that must not run twice has started, or is about to.
    """
    # A peer may send anything as a stop reason; a list has no hash, and would be a TypeError in the lookup.
    ending = _TABLE.get(standard_stop_reason(stop_reason), _UNKNOWN) if isinstance(stop_reason, str) else _UNKNOWN
    # A retry would repeat the calls that have started. Reporting runs nothing twice, and also lets the run continue.
    # So does an input whose rest could not be had.
    reports = on_truncated in ("report", "continue_input") or (on_truncated == "retry" and forbids_retry)
    if ending.then is Then.TRUNCATED and reports:
        return _TO_REPORT
    return ending
