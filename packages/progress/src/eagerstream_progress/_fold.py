"""`RunFold`: the only fold over the records of a run. Every view and every protocol reads its turns and calls.

It keeps the structure of the run without texts, since an encoder may serve many clients, each with its own fold.
`RunView` adds the texts and the inputs. The encoders of AG-UI and Vercel add the state of their clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

from eagerstream._support.terms import is_error_result, is_server_result

from ._record import EditRecord, InputDeltaRecord, InputStartRecord, Record


class CallPhase(Enum):
    """The phase of a call, in words for people."""

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
        """True if the call has ended."""
        return self in (CallPhase.DONE, CallPhase.FAILED, CallPhase.INVALID, CallPhase.CUT)


AFTER_INPUT: Final = {"valid": CallPhase.WAITING, "invalid": CallPhase.INVALID, "incomplete": CallPhase.CUT}


class Result(NamedTuple):
    """The result of a call.

    Attributes:
        block: The number of the block that brought it: the call's own, or that of the API's result.
        content: The content of the `tool_result`. If the API ran the call, its result block.
        is_error: True if the tool failed or did not run.
        ran: True if the tool ran to its end. False if it did not run, or was cancelled.
        data: The structured data, if the records have it.
    """

    block: int
    content: Any
    is_error: bool
    ran: bool = True
    data: dict[str, Any] | None = None


@dataclass(slots=True, eq=False)
class SubRunFold:
    """A run that the tool of a call started.

    Attributes:
        id: The id of the run.
        model: The model that it asks for.
        status: As `RunStatus`; `running` while it runs, and if its call ended first.
        turns: Number of its complete responses; 0 until it has ended.
        usage: Its token counts; empty until it has ended.
    """

    id: str
    model: str
    status: str = "running"
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class CallFold:
    """One call. Times are seconds since the start of the run; None if it has not happened.

    An input ends once, and a call has one result. Later records of either change nothing.

    Attributes:
        block: The number of its block in the run.
        id: The API's id.
        name: The tool.
        kind: As `ToolInput.kind`.
        turn: The number of its turn.
        phase: The phase of the call.
        given: The input, if it came complete at the start.
        omitted_chars: Number of the input's characters that are no longer kept.
        outcome, error: The outcome of the input, and the reason if it is not valid.
        is_asked: True while a person is asked and has not decided.
        progress: The last progress that the tool reported.
        sub_runs: The runs that the tool started, by id.
        edits: The text edits that its tool has told, in their order.
        result: The result. It may come before the input ends.
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
    sub_runs: dict[str, SubRunFold] = field(default_factory=dict, repr=False)
    edits: list[EditRecord] = field(default_factory=list, repr=False)
    result: Result | None = field(default=None, repr=False)
    input_stop_s: float | None = None
    tool_start_s: float | None = None
    tool_stop_s: float | None = None

    @property
    def is_server_side(self) -> bool:
        """True if the API runs the call. It starts at the end of the input."""
        return self.kind != "tool_use"

    def feed(self, record: Record) -> bool:
        """Add a record of this call. Return True if it changed the call."""
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
            case "sub_run_start":
                self.sub_runs[record["run"]] = SubRunFold(record["run"], record["model"])
            case "sub_run_stop" if (sub_run := self.sub_runs.get(record["run"])) is not None:
                sub_run.status, sub_run.turns, sub_run.usage = record["status"], record["turns"], record["usage"]
            case "edit":
                self.edits.append(record)
            case "tool_stop":
                ran = record["ran"] and not record.get("cancelled", False)
                self.answer(Result(self.block, record["content"], record["is_error"], ran, record.get("data")), at_s)
            case _:
                return False
        return True

    def grow(self, record: InputDeltaRecord) -> None:
        """Add a delta to the input."""
        self.omitted_chars += record.get("omitted_chars", 0)

    def end_input(self, outcome: str, error: str | None = None, at_s: float | None = None) -> None:
        """End the input."""
        self.outcome, self.error, self.input_stop_s = outcome, error, at_s
        if self.tool_start_s is None and self.tool_stop_s is None:  # a streaming tool runs already
            self.phase = AFTER_INPUT[outcome]
        if self.phase is CallPhase.WAITING and self.is_server_side:
            self.tool_start_s = at_s  # the API starts to run it at once
            self.phase = CallPhase.RUNNING

    def answer(self, result: Result, at_s: float | None = None) -> None:
        """End the call with a result."""
        self.result, self.tool_stop_s = result, at_s
        if self.is_server_side or self.phase is not CallPhase.INVALID:
            self.phase = CallPhase.FAILED if result.is_error else CallPhase.DONE


CallT = TypeVar("CallT", bound=CallFold)


class RunFold(Generic[CallT]):
    """The turns and calls of a run, built from its records. Calls of void responses are removed.

    Args:
        new_call: Makes a call from the record that starts it.

    Attributes:
        id: The id of the run.
        model: The model of the last response.
        turn: The current turn, from 1.
        stop_reason: The stop reason of the last response.
        current: The calls of this turn by block, and earlier calls without a result when it started.
    """

    def __init__(self, new_call: Callable[[InputStartRecord], CallT]) -> None:
        self.id: str = ""
        self.model: str | None = None
        self.turn: int = 0
        self.stop_reason: str | None = None
        self.current: dict[int, CallT] = {}
        self._is_responding = False
        self._of_server: dict[str, CallT] = {}  # by id: the current calls that the API runs
        self._new_call = new_call

    @property
    def waits_for(self) -> list[int]:
        """The blocks of the calls about which a person is asked, if the run does nothing meanwhile.

        Other calls may wait behind them, in their group for example.
        """
        calls = [call for call in self.current.values() if call.result is None and not call.is_server_side]
        is_busy = self._is_responding or any(call.phase in (CallPhase.WRITING, CallPhase.RUNNING) for call in calls)
        return [] if is_busy else [call.block for call in calls if call.is_asked]

    def feed(self, record: Record) -> CallT | None:
        """Add one record. Return the call that it changed, if any."""
        if record["type"] in ("turn_start", "message_start"):
            self._is_responding = True
        elif record["type"] in ("message_stop", "turn_stop", "run_stop"):
            self._is_responding = False
        match record["type"]:
            case "run_start":
                self.id, self.model = record["run"], record["model"]
            case "run_resumed":
                self._keep(())
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
        """Remove the calls of this turn."""
        self._keep(call for call in self.current.values() if call.turn != self.turn)

    def _keep(self, calls: Iterable[CallT]) -> None:
        self.current = {call.block: call for call in calls}
        self._of_server = {call.id: call for call in self.current.values() if call.is_server_side}

    def _answer(self, block: int, content: dict[str, Any], at_s: float) -> CallT | None:
        """Set the result of a call that the API ran. After a pause, it comes in the next turn."""
        if not is_server_result(content.get("type")):
            return None
        call = self._of_server.get(str(content.get("tool_use_id")))
        if call is not None:
            call.answer(Result(block, content, is_error_result(content)), at_s)
        return call
