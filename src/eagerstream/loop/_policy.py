"""How each way of ending a reply is answered: the transition table of the loop.

| stop reason | calls that have not begun | the turn in the history | and then |
|---|---|---|---|
| `tool_use` | run | whole, with results | goes on; without a call: completed |
| `end_turn` | run | whole | completed |
| `stop_sequence` | run where admitted | whole | stop_sequence |
| `pause_turn`, `compaction` | run | whole | goes on, the reply sent back as it is; at the cap: paused |
| `max_tokens` | run where admitted | whole | truncated, or what `on_truncated` says |
| the same, reported | run | whole | goes on with the results; without a call: truncated |
| `model_context_window_exceeded` | not run | its text; whole where something ran | truncated |
| `refusal` | not run | left out | refused |
| none, or not known here | not run | left out; whole where something ran | unknown |
| (cut by a guard) | run, except those held back | up to the last call, the rejected one included | goes on |
| (interrupted) | run, except those held back | left out; up to its last whole call where something ran | goes on |
| (broken off) | run where admitted | left out; up to its last whole call where something ran | error, cancelled |
| (cancelled) | not run | up to its last call, one that was cut included | cancelled |

"Whole" is what the API takes back, each call with its result: the real one where it ran, an error that says why not
where it did not. A call is admitted once its input is finished and no other call stands in its way; one is held back
that waits for the end of the message (`start="message"`).

A reply is interrupted where it breaks off and the run goes on: with the same request where nothing had begun to run
(the turn is discarded), with the results where something had. It is broken off where the run ends with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from ._result import RunStatus

OnTruncated: TypeAlias = Literal["stop", "retry", "report", "raise"]
"""What a reply cut by `max_tokens` leads to.

`"stop"`: the run ends. `"raise"`: it ends with a `LimitError`. `"retry"`: where nothing has begun to run, the request
is sent once more with twice the tokens; else as `"report"`. `"report"`: the cut call is answered as such, the others
with their results, and the run goes on; without a call it ends.
"""

OnInterrupt: TypeAlias = Literal["resume", "raise"]
"""What a reply that breaks off leads to.

`"resume"`: where nothing of it has begun to run, the same request is sent again after a pause; where something has, its
finished calls become the turn, and the run goes on with their results. `"raise"`: the run ends with the error.
"""


class Begins(Enum):
    """Which of a turn's calls that have not begun may still begin once the reply has ended."""

    ALL = "all"
    UNHELD = "unheld"
    """All but those that wait for the end of the message."""
    ADMITTED = "admitted"
    NONE = "none"


class Keeps(Enum):
    """What of a turn stays in the history."""

    WHOLE = "whole"
    TEXT = "text"
    """Its text only; whole where something ran."""
    IF_RAN = "if_ran"
    """Nothing; whole where something ran."""
    UP_TO_LAST_CALL = "up_to_last_call"
    """Nothing; up to the last call whose input is finished where something ran."""
    CUT = "cut"
    """Up to the last call whose input is finished, or was rejected."""
    UP_TO_CUT_CALL = "up_to_cut_call"
    """Up to the last call, also one whose input was cut."""
    NOTHING = "nothing"


class Then(Enum):
    """How the run goes on."""

    STOP = "stop"
    RESULTS = "results"
    """With the results, where there are some; else it stops."""
    RESUME = "resume"
    """With the reply as it is."""
    TRUNCATED = "truncated"
    """As `on_truncated` says."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A row of the table."""

    status: RunStatus
    then: Then
    begins: Begins
    keeps: Keeps


_TABLE: Final = {
    "tool_use": Ending(RunStatus.COMPLETED, Then.RESULTS, Begins.ALL, Keeps.WHOLE),
    "end_turn": Ending(RunStatus.COMPLETED, Then.STOP, Begins.ALL, Keeps.WHOLE),
    "stop_sequence": Ending(RunStatus.STOP_SEQUENCE, Then.STOP, Begins.ADMITTED, Keeps.WHOLE),
    "pause_turn": Ending(RunStatus.PAUSED, Then.RESUME, Begins.ALL, Keeps.WHOLE),
    "compaction": Ending(RunStatus.PAUSED, Then.RESUME, Begins.ALL, Keeps.WHOLE),
    "max_tokens": Ending(RunStatus.TRUNCATED, Then.TRUNCATED, Begins.ADMITTED, Keeps.WHOLE),
    "model_context_window_exceeded": Ending(RunStatus.TRUNCATED, Then.STOP, Begins.NONE, Keeps.TEXT),
    "refusal": Ending(RunStatus.REFUSED, Then.STOP, Begins.NONE, Keeps.NOTHING),
}
_UNKNOWN: Final = Ending(RunStatus.UNKNOWN, Then.STOP, Begins.NONE, Keeps.IF_RAN)
_TO_REPORT: Final = Ending(RunStatus.TRUNCATED, Then.RESULTS, Begins.ALL, Keeps.WHOLE)

BROKEN_OFF: Final = Ending(RunStatus.ERROR, Then.STOP, Begins.ADMITTED, Keeps.UP_TO_LAST_CALL)
"""The reply did not end, or was not waited for."""

INTERRUPTED: Final = Ending(RunStatus.ERROR, Then.RESULTS, Begins.UNHELD, Keeps.UP_TO_LAST_CALL)
"""The reply broke off after something of it had begun to run: the run goes on with the results of that."""

CANCELLED: Final = Ending(RunStatus.CANCELLED, Then.STOP, Begins.NONE, Keeps.UP_TO_CUT_CALL)
"""The run was told to end."""

CUT_BY_GUARD: Final = Ending(RunStatus.COMPLETED, Then.RESULTS, Begins.UNHELD, Keeps.CUT)
"""A guard had the reply cut: the run goes on with the results of what there is."""


def ending_of(stop_reason: str | None, *, on_truncated: OnTruncated, forbids_retry: bool) -> Ending:
    """The row for a reply that ended.

    Args:
        stop_reason: Why the model stopped.
        on_truncated: The user's choice.
        forbids_retry: A call of the turn that must not run twice has begun, or is about to.
    """
    ending = _TABLE.get(stop_reason, _UNKNOWN) if isinstance(stop_reason, str) else _UNKNOWN
    if ending.then is Then.TRUNCATED and (on_truncated == "report" or (on_truncated == "retry" and forbids_retry)):
        return _TO_REPORT
    return ending
