"""`RunRecorder`: makes records of the events of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

from pydantic_core import to_jsonable_python

from ..errors import UsageError
from ..loop import Restarted, RunEvent, ToolProgress, ToolStart, ToolStop, TurnStart, TurnStop
from ..streaming import FeedEnd, GrowingInput
from ..tools import ToolCall
from ..wire import (
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    Patch,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
    encodable,
)
from ._record import VERSION, Fault, Record

_STREAMED: Final = {"text": "text", "thinking": "thinking"}
"""By the kind of a block, the field that comes in deltas."""


class RunRecorder:
    """An observer that makes records of what it sees.

    What it does never shows in the run. The `InputDelta`s must carry their changes, see `Observer`. What comes of a
    response that is restarted is left out from then on.

    Args:
        put: Gets the records, as they are made.
        id: Of the run; made up where it is None.
        name: For people.
        model: That the run asks for.
        turn: The turn under way, of a run that is observed late; 0 before the first. None for a single request: it says
            nothing of turns, and each of its messages counts as one.
        clock: Seconds, monotonic.
    """

    wants_deltas = wants_changes = True

    def __init__(
        self,
        put: Callable[[Sequence[Record]], object],
        *,
        id: str | None = None,
        name: str | None = None,
        model: str | None = None,
        turn: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = id or uuid4().hex
        """Of the run."""
        self._put = put
        self._clock = clock
        self._start_s = clock()
        self._seq = 0
        self._blocks = 0
        self._turn = turn or 0
        self._has_ended = False
        self._begins_turns = False
        self._may_begin_turns = turn is None
        self._open: dict[int, int] = {}  # by index in the message: the number of a block
        self._inputs: dict[GrowingInput, int] = {}  # 0: void
        self._turn_inputs: list[GrowingInput] = []
        self._writing: set[GrowingInput] = set()  # inputs that are being written
        self._adopted_chars: dict[
            GrowingInput, int
        ] = {}  # of inputs whose beginning was not seen: what was told at once
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        records = [self._record("run_start", run=self.id, started_at=started_at, name=name, model=model)]
        self._put([*records, self._record("turn_start", turn=turn)] if turn else records)

    def take(self, events: Sequence[RunEvent]) -> None:
        """Make records of events; of none after the end."""
        if self._has_ended:
            return
        records: list[Record] = []
        for event in events:
            records += self._records_of(event)
        if records:
            self._put(records)

    def end(self, end: FeedEnd) -> None:
        """Nothing more comes."""
        if self._has_ended:
            return
        error = {"type": end.error["type"], "text": end.error["text"]} if end.error else None
        fields = {"status": end.status, "turns": end.turns, "usage": _object(end.usage), "error": error}
        self._put([self._record("run_stop", **fields, violations=end.violations)])
        self._has_ended = True

    def block_of(self, call: ToolCall) -> int | None:
        """The number of a call; None where it is none of this run, or void."""
        return self._inputs.get(call.input) or None

    def note(self, call: ToolCall, type: Literal["approval_start", "approval_stop"], **fields: Any) -> None:
        """Record what happens to a call outside of the events; nothing where it is none of this run."""
        block = self.block_of(call)
        if block is not None and not self._has_ended:
            self._put([self._record(type, block=block, **fields)])

    def _record(self, type: str, /, **fields: Any) -> Any:
        self._seq += 1
        at_s = round(self._clock() - self._start_s, 6)
        return {"v": VERSION, "seq": self._seq, "at_s": at_s, "type": type, **fields}

    def _records_of(self, event: RunEvent) -> list[Record]:
        record = self._record
        match event:
            case InputDelta(input=input, fragment=fragment, patch=patch, finished=finished):
                if input not in self._writing:
                    return self._adopted(input)
                if self._adopted_chars.get(input) == input.chars:
                    return []  # it is among the fragments that were recorded at once
                if patch is None and input not in self._adopted_chars:
                    return self._so_far(input)
                if patch is None:
                    raise UsageError("the events carry no changes: observe the run, or make them with reports=True")
                return [self._delta(self._inputs[input], fragment, patch, finished)]
            case TextDelta(index=index, text=text):
                records, block = self._block(index, "text")
                return [*records, record("text_delta", block=block, text=text)]
            case ThinkingDelta(thinking="") | CitationDelta():
                return []  # a count of tokens; a citation, which its whole block has
            case ThinkingDelta(index=index, thinking=thinking):
                records, block = self._block(index, "thinking")
                return [*records, record("thinking_delta", block=block, thinking=thinking)]
            case BlockStart(index=index, block=opened):
                self._open.pop(index, None)
                kind = str(opened.get("type", ""))
                records, block = self._block(index, kind)
                first: object = opened.get(_STREAMED.get(kind, ""))
                if isinstance(first, str) and first:  # the API sends it empty; some gateways put the beginning there
                    records.append(record(f"{kind}_delta", block=block, **{kind: first}))
                return records
            case BlockStop(index=index, block=whole):
                kind = str(whole.get("type", ""))
                records, block = self._block(index, kind)
                del self._open[index]
                content = {name: _plain(value) for name, value in whole.items() if name != _STREAMED.get(kind)}
                return [*records, record("block_stop", block=block, content=content)]
            case InputStart(input=input):
                return [self._started(input)]
            case InputStop(input=input):
                records = self._adopted(input) if input not in self._inputs else []
                return records + self._stopped(input)
            case MessageStart(message=message, restarted=restarted):
                return self._message_started(message, restarted=restarted)
            case MessageStop(message=message, stop_reason=reason):
                usage = _object(message.get("usage"))
                records = [record("message_stop", stop_reason=reason, usage=usage)]
                if self._begins_turns:
                    records.append(record("turn_stop", turn=self._turn, error=None))
                return records
            case TurnStart(turn=turn):
                self._begin_turn(turn)
                return [record("turn_start", turn=turn)]
            case TurnStop(turn=turn, error=error):
                return [record("turn_stop", turn=turn, error=_fault(error))]
            case ToolStart(call=call):
                return self._of_call(call, "tool_start")
            case ToolProgress(call=call, value=value):
                return self._of_call(call, "tool_progress", value=_plain(value))
            case ToolStop(call=call):
                result = call.result or {}
                told = _plain(result.get("content", ""))
                return self._of_call(call, "tool_stop", ran=call.ran, is_error=call.is_error, content=told)
            case Restarted(turn=turn, reason=reason, error=error, delay_s=delay_s):
                self._void()
                return [record("restarted", turn=turn, reason=reason, delay_s=round(delay_s, 6), error=_fault(error))]
            case UnknownEvent(data=data):
                return [record("unknown", event=_object(data))]

    def _message_started(self, message: Mapping[str, Any], *, restarted: bool) -> list[Record]:
        records: list[Record] = []
        if restarted:
            self._void()
        elif self._begins_turns or (self._turn == 0 and self._may_begin_turns):
            self._begins_turns = True
            self._begin_turn(self._turn + 1)
            records.append(self._record("turn_start", turn=self._turn))
        self._open.clear()
        id, model = str(message.get("id", "")), str(message.get("model", ""))
        return [*records, self._record("message_start", id=id, model=model, restarted=restarted)]

    def _begin_turn(self, turn: int) -> None:
        self._turn = turn
        self._turn_inputs.clear()
        self._open.clear()

    def _void(self) -> None:
        for input in self._turn_inputs:
            self._inputs[input] = 0
            self._writing.discard(input)
        self._turn_inputs.clear()
        self._open.clear()

    def _block(self, index: int, kind: str) -> tuple[list[Record], int]:
        """The number of the open block at this index, and its beginning where that was not seen."""
        number = self._open.get(index)
        if number is not None:
            return [], number
        self._blocks += 1
        self._open[index] = self._blocks
        return [self._record("block_start", block=self._blocks, index=index, kind=kind)], self._blocks

    def _started(self, input: GrowingInput) -> Record:
        self._blocks += 1
        self._inputs[input] = self._blocks
        self._writing.add(input)
        self._turn_inputs.append(input)
        whole = _object(input.block.get("input")) or None
        started: Record = self._record(
            "input_start",
            block=self._blocks,
            index=input.index,
            id=input.id,
            name=input.name,
            kind=input.kind,
            input=whole,
        )
        return started

    def _stopped(self, input: GrowingInput) -> list[Record]:
        """The end of an input, where it is not void and was not told of."""
        if input not in self._writing or input.outcome is None:
            return []
        self._writing.remove(input)
        self._adopted_chars.pop(input, None)
        error = str(input.error) if input.error is not None else None
        return [self._record("input_stop", block=self._inputs[input], outcome=input.outcome.value, error=error)]

    def _delta(self, block: int, fragment: str, patch: Patch, finished: Sequence[str]) -> Record:
        delta: Record = self._record(
            "input_delta", block=block, fragment=fragment, patch=patch, finished=list(finished)
        )
        return delta

    def _adopted(self, input: GrowingInput) -> list[Record]:
        """An input whose beginning was not seen: all that was written of it so far."""
        if input in self._inputs:
            return []  # it is void, or all of this was told of with its beginning
        return [self._started(input), *self._so_far(input)]

    def _so_far(self, input: GrowingInput) -> list[Record]:
        """All that was written of an input, in one record."""
        self._adopted_chars[input] = input.chars
        if not (input.chars and input.raw):
            return []
        finished = [name for name in input.partial if input.is_finished(name)]
        return [self._delta(self._inputs[input], input.raw, input.whole_patch(), finished)]

    def _of_call(self, call: ToolCall, type: str, **fields: Any) -> list[Record]:
        block = self._inputs.get(call.input)
        if block is None:  # it began before this did
            records = self._adopted(call.input)
            if call.input.outcome is not None:
                records += self._stopped(call.input)
            return [*records, self._record(type, block=self._inputs[call.input], **fields)]
        return [self._record(type, block=block, **fields)] if block else []


def _fault(error: BaseException | None) -> Fault | None:
    return None if error is None else {"type": type(error).__name__, "text": encodable(str(error))}


def _plain(value: Any) -> Any:
    """Something with a JSON form, whatever a tool, or a peer, made it of."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)
        if not isinstance(plain, str):
            json.dumps(plain)  # Python does not write an integer of many thousand digits
        return plain
    except Exception:  # a cycle, something too deep, a `__str__` that raises: any code may run in here
        return f"<{type(value).__name__}>"


def _object(value: Any) -> dict[str, Any]:
    """A JSON object; an empty one where it is something else, or has no JSON form."""
    plain = _plain(value)
    return plain if isinstance(plain, dict) else {}
