"""`RunFold`: the one fold over the records of a run. Every view and every protocol reads its turns and calls.

It keeps the structure of the run and no texts: an encoder may serve many clients, and each has a fold of its own.
`RunView` adds the texts and the inputs. The encoders of AG-UI and of Vercel add what their clients have been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from ..wire import is_error_result, is_server_result
from ._record import InputDeltaRecord, InputStartRecord, Record


class CallPhase(Enum):
    """Where a call is, for people."""

    WRITING = "writing"
    WAITING = "waiting"
    APPROVAL = "waiting for approval"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INVALID = "invalid"
    CUT = "cut"

    @property
    def is_final(self) -> bool:
        """Nothing more will happen to it."""
        return self in (CallPhase.DONE, CallPhase.FAILED, CallPhase.INVALID, CallPhase.CUT)


AFTER_INPUT: Final = {"valid": CallPhase.WAITING, "invalid": CallPhase.INVALID, "incomplete": CallPhase.CUT}


class Result(NamedTuple):
    """The result of a call.

    Attributes:
        block: The block that brought it: the call's own, or that of the API's result.
        content: As in a `tool_result`; of a call that the API runs, its result block.
        is_error: The tool failed, or did not run.
    """

    block: int
    content: Any
    is_error: bool


@dataclass(slots=True, eq=False)
class CallFold:
    """One call. Times are seconds since the run began; None: has not happened.

    An input ends once and a call has one result. What comes after either changes nothing.

    Attributes:
        block: Its number in the run.
        id: The API's id.
        name: The tool.
        kind: As `ToolInput.kind`.
        turn: Which turn it belongs to.
        phase: Where the call is.
        given: The input, if it came complete at the start.
        omitted_chars: So much of the input is no longer kept.
        outcome, error: How the input ended, and what is wrong with it.
        is_asked: A person is asked, and has not answered yet.
        progress: What the tool said last of how far it is.
        result: It may come before the input has ended.
    """

    block: int
    id: str
    name: str
    kind: str
    turn: int
    input_start_s: float
    phase: CallPhase = CallPhase.WRITING
    given: dict[str, Any] | None = field(default=None, repr=False)
    omitted_chars: int = 0
    outcome: str | None = None
    error: str | None = field(default=None, repr=False)
    is_asked: bool = False
    progress: Any = field(default=None, repr=False)
    result: Result | None = field(default=None, repr=False)
    input_stop_s: float | None = None
    tool_start_s: float | None = None
    tool_stop_s: float | None = None

    @property
    def is_server_side(self) -> bool:
        """The API runs it, from the end of its input on."""
        return self.kind != "tool_use"

    def feed(self, record: Record) -> bool:
        """Take in a record of this call; return whether it changed anything."""
        at_s = record["at_s"]
        match record["type"]:
            case "input_delta" if self.outcome is None:
                self.grow(record)
            case "input_stop" if self.outcome is None:
                self.end_input(record["outcome"], record["error"], at_s)
            case _ if self.result is not None:
                return False
            case "approval_start":
                self.is_asked = True
                self.phase = CallPhase.APPROVAL
            case "approval_stop" if self.is_asked:
                self.is_asked = False
                self.phase = CallPhase.WAITING
            case "tool_start":
                self.tool_start_s = at_s
                self.phase = CallPhase.RUNNING
            case "tool_progress":
                self.progress = record["value"]
            case "tool_stop":
                self.answer(Result(self.block, record["content"], record["is_error"]), at_s)
            case _:
                return False
        return True

    def grow(self, record: InputDeltaRecord) -> None:
        """Take in more of the input."""
        self.omitted_chars += record.get("omitted_chars", 0)

    def end_input(self, outcome: str, error: str | None = None, at_s: float | None = None) -> None:
        """End the input."""
        self.outcome, self.error, self.input_stop_s = outcome, error, at_s
        if self.tool_start_s is None and self.tool_stop_s is None:  # a streaming tool runs already
            self.phase = AFTER_INPUT[outcome]
        if self.phase is CallPhase.WAITING and self.is_server_side:
            self.tool_start_s = at_s  # nobody here runs it: the API begins at once
            self.phase = CallPhase.RUNNING

    def answer(self, result: Result, at_s: float | None = None) -> None:
        """End the call with a result."""
        self.result, self.tool_stop_s = result, at_s
        if self.is_server_side or self.phase is not CallPhase.INVALID:
            self.phase = CallPhase.FAILED if result.is_error else CallPhase.DONE


CallT = TypeVar("CallT", bound=CallFold)


class RunFold(Generic[CallT]):
    """Fed with the records of a run, it knows its turns and its calls. What came of a void reply is forgotten.

    Args:
        new_call: Makes a call of the record that opens it.

    Attributes:
        id: The run's.
        model: As in the last reply.
        turn: The turn under way, from 1.
        stop_reason: As of the last reply.
        current: By block: the calls of this turn, and the earlier ones that had no result when it began.
    """

    def __init__(self, new_call: Callable[[InputStartRecord], CallT]) -> None:
        self.id = ""
        self.model: str | None = None
        self.turn = 0
        self.stop_reason: str | None = None
        self.current: dict[int, CallT] = {}
        self._of_server: dict[str, CallT] = {}  # by id: those among them that the API runs
        self._new_call = new_call

    def feed(self, record: Record) -> CallT | None:
        """Take in one record; return the call that it changed, if it changed one."""
        match record["type"]:
            case "run_start":
                self.id, self.model = record["run"], record["model"]
            case "turn_start":
                self.turn = record["turn"]
                self._keep(call for call in self.current.values() if call.result is None)
            case "message_start":
                self.model = record["model"] or self.model
                if record["restarted"]:
                    self.void()
            case "restarted":
                self.void()
            case "message_stop":
                self.stop_reason = record["stop_reason"]
            case "input_start":
                call = self.current[record["block"]] = self._new_call(record)
                if call.is_server_side:
                    self._of_server[call.id] = call
                return call
            case "block_stop":
                return self._answer(record["block"], record["content"], record["at_s"])
            case _:
                known = self.current.get(cast("dict[str, Any]", record).get("block", 0))
                return known if known is not None and known.feed(record) else None
        return None

    def void(self) -> None:
        """Forget the calls of this turn."""
        self._keep(call for call in self.current.values() if call.turn != self.turn)

    def _keep(self, calls: Iterable[CallT]) -> None:
        self.current = {call.block: call for call in calls}
        self._of_server = {call.id: call for call in self.current.values() if call.is_server_side}

    def _answer(self, block: int, content: dict[str, Any], at_s: float) -> CallT | None:
        """The result of a call that the API ran; after a pause it comes in the next turn."""
        if not is_server_result(content.get("type")):
            return None
        call = self._of_server.get(str(content.get("tool_use_id")))
        if call is not None:
            call.answer(Result(block, content, is_error_result(content)), at_s)
        return call
