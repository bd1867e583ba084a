"""`RunView`: the state of a run as its records tell it, for those who show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from ..wire import apply_patch, error_code_of, is_error_result, is_server_result
from ._record import InputDeltaRecord, Record


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


_AFTER_INPUT = {"valid": CallPhase.WAITING, "invalid": CallPhase.INVALID, "incomplete": CallPhase.CUT}


@dataclass(slots=True, eq=False)
class CallView:
    """One call. Times are seconds since the run began; None: has not happened.

    Attributes:
        block: Its number in the run.
        id: The API's id.
        name: The tool.
        kind: As `ToolInput.kind`; calls other than `tool_use` are run by the API, from the end of their input on.
        turn: Which turn it belongs to.
        phase: Where the call is.
        partial: The best-effort input; grows in place.
        bytes: The text of the input so far, in UTF-8.
        fragments: How many pieces it came in.
        finished: Fields of the input that are finished, in the order in which they were.
        omitted_chars: So much of the input is no longer kept.
        outcome, error: How the input ended, and what is wrong with it.
        progress: What the tool said last of how far it is.
        result_text: The result as text, where there is one.
        first_item_s: When the first item of an array was known to be finished.
    """

    block: int
    id: str
    name: str
    kind: str
    turn: int
    input_start_s: float
    phase: CallPhase = CallPhase.WRITING
    partial: dict[str, Any] = field(default_factory=dict, repr=False)
    bytes: int = 0
    fragments: int = 0
    finished: list[str] = field(default_factory=list, repr=False)
    omitted_chars: int = 0
    outcome: str | None = None
    error: str | None = field(default=None, repr=False)
    progress: Any = field(default=None, repr=False)
    result_text: str = field(default="", repr=False)
    first_fragment_s: float | None = None
    last_fragment_s: float | None = None
    first_item_s: float | None = None
    first_field_s: float | None = None
    input_stop_s: float | None = None
    tool_start_s: float | None = None
    tool_stop_s: float | None = None
    _raw: list[str] = field(default_factory=list, repr=False)
    _known: set[str] = field(default_factory=set, repr=False)  # the finished ones: there may be very many

    @property
    def raw(self) -> str:
        """The JSON text so far; O(length)."""
        self._raw = ["".join(self._raw)]
        return self._raw[0]

    @property
    def writing_s(self) -> float:
        """How long fragments have been arriving, in seconds."""
        if self.first_fragment_s is None or self.last_fragment_s is None:
            return 0.0
        return self.last_fragment_s - self.first_fragment_s

    def grow(self, record: InputDeltaRecord) -> None:
        """Take in more of the input."""
        last_s = record.get("to_s", record["at_s"])
        omitted_chars = record.get("omitted_chars", 0)
        self.fragments += record.get("count", 1)
        self.bytes += len(record["fragment"].encode(errors="surrogatepass")) + omitted_chars
        self.last_fragment_s = last_s
        if self.first_fragment_s is None:
            self.first_fragment_s = record["at_s"]
        if self.omitted_chars or omitted_chars:  # what follows does not fit what is there
            self.omitted_chars += omitted_chars or len(record["fragment"])
            self.partial = {}
            self.finished.clear()
            self._raw.clear()
        else:
            self._raw.append(record["fragment"])
            if record["patch"]:
                self.partial = apply_patch(self.partial, record["patch"])
            for name in record["finished"]:
                if name not in self._known:
                    self._known.add(name)
                    self.finished.append(name)
        if self.finished and self.first_field_s is None:
            self.first_field_s = last_s
        if self.first_item_s is None:
            name, newest = next(reversed(self.partial.items()), ("", None))
            if isinstance(newest, list) and (len(newest) > 1 or (newest and name in self._known)):
                self.first_item_s = last_s


class RunView:
    """Fed with the records of a run, it knows each call and when each thing happened.

    What came of a reply that was begun anew is forgotten.

    Attributes:
        id, name, started_at: As in the first record; `model` as in the last reply.
        turn: The turn under way, from 1.
        calls: In the order in which their inputs were opened.
        usage: As of the last reply; of the whole run once it has ended.
        status: None until the run has ended.
        error: What ended it, or the last thing that interrupted it.
        at_s: The time of the last record.
    """

    def __init__(self) -> None:
        self.id = ""
        self.name: str | None = None
        self.model: str | None = None
        self.started_at = ""
        self.status: str | None = None
        self.turn = 0
        self.usage: dict[str, Any] = {}
        self.error: str | None = None
        self.at_s = 0.0
        self.calls: list[CallView] = []
        self._by_block: dict[int, CallView] = {}
        self._of_server: dict[str, CallView] = {}  # by id: calls that the API runs, and that have no result yet
        self._text = ""  # of the turns before this one
        self._turn_text: list[str] = []
        self._turn_calls = 0  # how many calls there were before this turn

    @property
    def text(self) -> str:
        """All text of the replies so far, each turn's on a line of its own; O(length)."""
        self._turn_text = ["".join(self._turn_text)]
        return self._text + self._turn_text[0]

    def feed(self, record: Record) -> CallView | None:
        """Take in one record; the call that it is about, if it is about one."""
        self.at_s = max(self.at_s, record["at_s"])
        match record["type"]:
            case "run_start":
                self.id, self.name, self.model = record["run"], record["name"], record["model"]
                self.started_at = record["started_at"]
            case "turn_start":
                self._text = self.text + ("\n" if self.turn else "")
                self._turn_text.clear()
                self._turn_calls = len(self.calls)
                self.turn = record["turn"]
            case "message_start":
                self.model = record["model"] or self.model
                if record["restarted"]:
                    self._forget_turn()
            case "restarted":
                self._forget_turn()
                self.error = record["error"]["text"] if record["error"] else None
            case "text_delta":
                self._turn_text.append(record["text"])
            case "message_stop":
                self.usage = record["usage"]
            case "run_stop":
                self.status = record["status"]
                for call in self.calls:
                    if call.phase in (CallPhase.WRITING, CallPhase.APPROVAL, CallPhase.RUNNING):
                        call.phase = CallPhase.CUT
                self.usage = record["usage"]
                if record["error"]:
                    self.error = record["error"]["text"]
            case "input_start":
                call = CallView(
                    record["block"], record["id"], record["name"], record["kind"], self.turn, record["at_s"]
                )
                call.partial = record["input"] or {}
                self.calls.append(call)
                self._by_block[call.block] = call
                if call.kind != "tool_use":
                    self._of_server[call.id] = call
                return call
            case "block_stop" if is_server_result(record["content"].get("type")):
                return self._answer(record["content"], record["at_s"])
            case _:
                known = self._by_block.get(cast("dict[str, Any]", record).get("block", 0))
                if known is not None:
                    _feed_call(known, record)
                return known
        return None

    def _answer(self, result: Mapping[str, Any], at_s: float) -> CallView | None:
        """The result of a call that the API ran; the call, where it is known."""
        call = self._of_server.pop(str(result.get("tool_use_id")), None)
        if call is not None:
            call.tool_stop_s = at_s
            call.phase = CallPhase.FAILED if is_error_result(result) else CallPhase.DONE
            call.result_text = error_code_of(result) or _result_text(result.get("content"))
        return call

    def _forget_turn(self) -> None:
        self._turn_text.clear()
        for call in self.calls[self._turn_calls :]:
            del self._by_block[call.block]
            if self._of_server.get(call.id) is call:
                del self._of_server[call.id]
        del self.calls[self._turn_calls :]


def _feed_call(call: CallView, record: Record) -> None:
    at_s = record["at_s"]
    match record["type"]:
        case "input_delta":
            call.grow(record)
        case "input_stop":
            call.input_stop_s = at_s
            call.outcome = record["outcome"]
            call.error = record["error"]
            if call.tool_start_s is None and call.tool_stop_s is None:  # a streaming tool runs already
                call.phase = _AFTER_INPUT[record["outcome"]]
            if call.phase is CallPhase.WAITING and call.kind != "tool_use":
                call.tool_start_s = at_s  # nobody here runs it: the API begins at once
                call.phase = CallPhase.RUNNING
        case "approval_start":
            call.phase = CallPhase.APPROVAL
        case "approval_stop":
            call.phase = CallPhase.WAITING
        case "tool_start":
            call.tool_start_s = at_s
            call.phase = CallPhase.RUNNING
        case "tool_progress":
            call.progress = record["value"]
        case "tool_stop":
            call.tool_stop_s = at_s
            call.result_text = _result_text(record["content"])
            if call.phase is not CallPhase.INVALID:
                call.phase = CallPhase.FAILED if record["is_error"] else CallPhase.DONE
        case _:
            pass


def _result_text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in (content if isinstance(content, list) else [content]) if isinstance(block, Mapping)]
    texts = [str(block.get("text")) if block.get("type") == "text" else f"[{block.get('type')}]" for block in blocks]
    return "\n".join(texts)
