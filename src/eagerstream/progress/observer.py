"""`RunObserver`: what can be seen of a run from its events: each tool call, its input so far, and what came when."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from ..growing import GrowingInput
from ..run import Restarted, RunEvent, ToolStart, ToolStop, TurnStart
from ..wire import InputDelta, InputStart, InputStop, MessageStart, Outcome, TextDelta


class CallPhase(Enum):
    """Where a call is, for people."""

    WRITING = "writing"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INVALID = "invalid"
    CUT = "cut"


_AFTER_INPUT = {
    Outcome.VALID: CallPhase.WAITING,
    Outcome.INVALID: CallPhase.INVALID,
    Outcome.INCOMPLETE: CallPhase.CUT,
    None: CallPhase.WRITING,
}


@dataclass(slots=True, eq=False)
class ObservedCall:
    """One call as an observer sees it. Times are seconds since the run began; None: has not happened.

    Attributes:
        input: The input itself, live.
        phase: Where the call is.
        fragments: Fragments seen; those that were merged on the way count once.
        bytes: What they come to, in UTF-8.
        finished: Top-level fields of the input that are finished, in the order in which they were.
        first_item_s: When the first item of an array of the input was finished, long before the array is.
        result_text: The result as text, where there is one.
    """

    input: GrowingInput
    input_start_s: float
    phase: CallPhase = CallPhase.WRITING
    fragments: int = 0
    bytes: int = 0
    first_fragment_s: float | None = None
    last_fragment_s: float | None = None
    first_item_s: float | None = None
    first_field_s: float | None = None
    input_stop_s: float | None = None
    tool_start_s: float | None = None
    tool_stop_s: float | None = None
    result_text: str = field(default="", repr=False)
    finished: list[str] = field(default_factory=list, repr=False)

    @property
    def writing_s(self) -> float:
        """How long fragments have been arriving, in seconds."""
        if self.first_fragment_s is None or self.last_fragment_s is None:
            return 0.0
        return self.last_fragment_s - self.first_fragment_s


class RunObserver:
    """Fed with the events of a run, it knows each call and when each thing happened.

    Args:
        clock: Seconds, monotonic.

    Attributes:
        calls: In the order in which their inputs were opened.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.calls: list[ObservedCall] = []
        self._clock = clock
        self._start_s: float | None = None
        self._by_input: dict[GrowingInput, ObservedCall] = {}
        self._text = ""  # of the turns before this one
        self._turn_text: list[str] = []
        self._turn_calls = 0  # how many calls there were before this turn

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first event."""
        return 0.0 if self._start_s is None else self._clock() - self._start_s

    @property
    def text(self) -> str:
        """All text of the replies so far, without what came of a reply that was begun anew."""
        self._turn_text = ["".join(self._turn_text)]
        return self._text + self._turn_text[0]

    def feed(self, event: RunEvent) -> ObservedCall | None:
        """Take in one event; the call that it is about, if it is about one."""
        if self._start_s is None:
            self._start_s = self._clock()
        now_s = self.elapsed_s
        match event:
            case TurnStart(turn=turn):
                self._text = self.text + ("\n" if turn > 1 else "")
                self._turn_text.clear()
                self._turn_calls = len(self.calls)
                return None
            case Restarted() | MessageStart(restarted=True):
                self._turn_text.clear()
                del self.calls[self._turn_calls :]
                return None
            case TextDelta(text=text):
                self._turn_text.append(text)
                return None
            case InputStart(input=input):
                call = self._by_input[input] = ObservedCall(input, now_s)
                self.calls.append(call)
            case InputDelta(input=input, fragment=fragment):
                call = self._by_input[input]
                call.fragments += 1
                call.bytes += len(fragment.encode(errors="surrogatepass"))
                call.last_fragment_s = now_s
                if call.first_fragment_s is None:
                    call.first_fragment_s = now_s
                _note_finished(call, now_s)
            case InputStop(input=input):
                call = self._by_input[input]
                call.input_stop_s = now_s
                if call.tool_start_s is None:  # a streaming tool runs already
                    call.phase = _AFTER_INPUT[input.outcome]
                _note_finished(call, now_s)
            case ToolStart(call=tool_call):
                call = self._by_input[tool_call.input]
                call.tool_start_s = now_s
                call.phase = CallPhase.RUNNING
            case ToolStop(call=tool_call):
                call = self._by_input[tool_call.input]
                call.tool_stop_s = now_s
                content = (tool_call.result or {}).get("content", "")
                call.result_text = content if isinstance(content, str) else f"{len(content)} blocks"
                if call.phase is not CallPhase.INVALID:
                    call.phase = CallPhase.FAILED if tool_call.is_error else CallPhase.DONE
            case _:
                return None
        return call


def _note_finished(call: ObservedCall, now_s: float) -> None:
    # All fields but the last were finished when the next one began, so few are asked about more than once.
    partial = call.input.partial
    for name in list(partial)[len(call.finished) :]:
        if call.first_item_s is None and isinstance(partial[name], list) and call.input.is_finished(name, 0):
            call.first_item_s = now_s
        if call.input.is_finished(name):
            call.finished.append(name)
            if call.first_field_s is None:
                call.first_field_s = now_s
