"""`RunRecorder`: makes records from the events of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

from pydantic_core import to_jsonable_python

from eagerstream import (
    BlockStart,
    BlockStop,
    CitationDelta,
    InputDelta,
    InputStart,
    InputStop,
    MessageStart,
    MessageStop,
    Ping,
    TextDelta,
    ThinkingDelta,
    UnknownEvent,
    merge_patches,
)
from eagerstream._support.json_values import encodable, is_deeper
from eagerstream.errors import UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.limits import DEFAULT_LIMITS
from eagerstream.loop import (
    MessageDelivered,
    Restarted,
    RunEvent,
    SubRunStart,
    SubRunStop,
    ToolProgress,
    ToolStart,
    ToolStop,
    TurnStart,
    TurnStop,
)
from eagerstream.streaming import FeedEnd, OutputDelta
from eagerstream.tools import Tool, ToolCall

from ._edits import EditFinder
from ._joined import RecordsEnd
from ._record import VERSION, Fault, Record, without_contents
from ._summary import Summaries

_PING_S: Final = 1.0
"""Seconds between two records of pings at least."""

_STREAMED: Final = {"text": "text", "thinking": "thinking"}
"""Maps the type of a block to its field that comes in deltas."""


class RunRecorder:
    """An observer that makes records from the events of a run.

    It never affects the run. Consecutive deltas of a block in one call of `take` are one record. The `InputDelta`s must
    carry their changes, see `Observer`. After a response is restarted, later events about its calls are skipped.

    Args:
        put: Receives the records as they are made.
        id: The id of the run. If None, a new id is made.
        name: A name for people.
        model: The model that the run asks for.
        turn: The current turn if the run is observed late; 0 before the first turn. None for a single request: it has
            no turns, and each of its messages counts as one.
        resumed_after: `Run.resumed_after`.
        after: The end of the earlier records of the run, which these continue.
        seq: The number before that of the first record, if they continue no others. A larger one keeps the numbers
            apart from those that an earlier process gave.
        clock: Returns monotonic seconds.
        close: Called when no more records come: at the end, or if recording fails.
        summaries: If given, the records have no contents: nothing that the model or a tool wrote, except for the lines
            that these summaries make of calls. The line of a call is in the only field of its input, `summary`.
        data: True: the records of results have the structured data of the responses, too.
        tool_of: Returns the tool of a call, which may say what text file the call edits. None: there are no records of
            edits. With summaries, there are none either. It needs an event loop.
    """

    wants_deltas = wants_changes = wants_pings = True

    def __init__(
        self,
        put: Callable[[Sequence[Record]], object],
        *,
        id: str | None = None,
        name: str | None = None,
        model: str | None = None,
        turn: int | None = None,
        resumed_after: int | None = None,
        after: RecordsEnd | None = None,
        seq: int = 0,
        clock: Callable[[], float] = time.monotonic,
        close: Callable[[], object] = lambda: None,
        summaries: Summaries | None = None,
        data: bool = False,
        tool_of: Callable[[GrowingInput], Tool | None] | None = None,
    ) -> None:
        self.id: str = id or uuid4().hex
        """The id of the run."""
        self._put = put
        self._clock = clock
        self._close = close
        self._summaries = summaries
        self._has_data = data and summaries is None
        self._edits = EditFinder(tool_of, self._tell_edit) if tool_of is not None and summaries is None else None
        self._told: dict[GrowingInput, str] = {}  # the line of each call that is being written, if there are summaries
        end = after or RecordsEnd(seq)
        self._start_s = clock() - end.at_s
        self._seq = end.seq
        self._new: list[Any] = []  # records that are not passed to `put` yet
        self._blocks = end.block
        self._turn = turn or 0
        self._has_ended = False
        self._begins_turns = None if turn is None else False  # if each message counts as a turn; None: not known yet
        self._open: dict[int, int] = {}  # index in the message to number of the block
        self._inputs: dict[GrowingInput, int] = {}  # the number of the block; 0 if it is void
        self._turn_inputs: list[GrowingInput] = []
        self._writing: set[GrowingInput] = set()  # inputs that are still growing
        self._next_ping_s = 0.0  # earlier ones are not recorded
        self._adopted_chars: dict[GrowingInput, int] = {}  # of inputs seen late: characters in their first record
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        resumed = {} if resumed_after is None else {"resumed_after": resumed_after}
        if after is None:
            self._add("run_start", run=self.id, started_at=started_at, name=name, model=model, **resumed)
        else:
            self._add("run_resumed", started_at=started_at, gap_s=after.gap_s(started_at), **resumed)
        if turn:
            self._add("turn_start", turn=turn)
        self._put_new()

    def take(self, events: Sequence[RunEvent]) -> None:
        """Make records from events. After the end, events are ignored.

        Errors of `put` pass through, after a call of `close`.

        Raises:
            UsageError: A second fragment of an input came without a patch: the events carry no changes.
        """
        if self._has_ended:
            return
        try:
            deltas: list[Any] = []  # consecutive ones of one block
            source: Any = None  # the input, text or thinking that they belong to
            event: Any
            for event in events:
                before = source
                kind = type(event)
                if kind is InputDelta:
                    source = event.input
                elif kind is TextDelta or (kind is ThinkingDelta and event.thinking):
                    source = kind, event.index
                elif kind is OutputDelta:
                    continue  # its text has come as a `TextDelta` right before it
                else:
                    source = None
                if deltas and source != before:
                    self._record_deltas(deltas)
                    deltas = []
                if source is None:
                    self._record(event)
                else:
                    deltas.append(event)
            if deltas:
                self._record_deltas(deltas)
            if self._summaries is not None:
                self._put_new()
            elif self._new:  # here, not in a method: every chunk comes here
                new, self._new = self._new, []
                self._put(new)
        except Exception:
            self._close()
            raise

    def end(self, end: FeedEnd) -> None:
        """Record the end of the run, and call `close`."""
        if self._has_ended:
            return
        error = {"type": end.error["type"], "text": end.error["text"]} if end.error else None
        fields = {"status": end.status, "turns": end.turns, "usage": _object(end.usage), "error": error}
        more = {"limit": end.limit} if end.limit is not None else {}
        costs = {"cost": round(end.cost, 9)} if end.cost else {}
        self._add("run_stop", **fields, violations=end.violations, **more, **costs)
        self._put_new()
        self._has_ended = True
        self._close()

    def block_of(self, call: ToolCall) -> int | None:
        """Return the number of a call's block. None if the call is void or not of this run."""
        return self._inputs.get(call.input) or None

    def call_id(self, block: int) -> str:
        """Return the API's id of the call with this block.

        Raises:
            KeyError: There is none.
        """
        for input, number in list(self._inputs.items()):
            if number == block:
                return input.id
        raise KeyError(block)

    def note(self, call: ToolCall, type: Literal["approval_start", "approval_stop"], **fields: Any) -> None:
        """Record something about a call that is not an event. Calls of other runs are ignored."""
        block = self.block_of(call)
        if block is not None and not self._has_ended:
            self._add(type, block=block, **fields)
            self._put_new()

    def _add(self, type: str, /, **fields: Any) -> None:
        self._seq += 1
        at_s = round(self._clock() - self._start_s, 6)
        self._new.append({"v": VERSION, "seq": self._seq, "at_s": at_s, "type": type, **fields})

    def _put_new(self) -> None:
        new, self._new = self._new, []
        if self._summaries is not None:
            new = [without_contents(record) for record in new]
        if new:
            self._put(new)

    def _record_deltas(self, deltas: list[Any]) -> None:
        """Record consecutive deltas of one block as one.

        Raises:
            UsageError: See `take`.
        """
        delta, count = deltas[0], {}
        if len(deltas) > 1:
            delta, count = _merged(deltas), {"count": len(deltas)}
        if isinstance(delta, InputDelta):
            input, patch = delta.input, delta.patch
            if self._summaries is not None:
                self._summarize(input)
                return
            is_followed = patch is not None and not self._adopted_chars and input in self._writing
            if is_followed or self._continues(delta):
                # The same as in `_add`. Nearly all records are made here.
                self._seq += 1
                record = {
                    "v": VERSION,
                    "seq": self._seq,
                    "at_s": round(self._clock() - self._start_s, 6),
                    "type": "input_delta",
                    "block": self._inputs[input],
                    "fragment": delta.fragment,
                    "patch": patch,
                    "finished": list(delta.finished),
                    **count,
                }
                self._new.append(record)
                if self._edits is not None and input in self._edits.calls:
                    self._edits.grow(input, delta.finished)
        elif isinstance(delta, TextDelta):
            self._add("text_delta", block=self._block(delta.index, "text"), text=delta.text, **count)
        else:
            self._add("thinking_delta", block=self._block(delta.index, "thinking"), thinking=delta.thinking, **count)

    def _record(self, event: RunEvent) -> None:
        match event:
            case InputDelta() | TextDelta() | OutputDelta() | ThinkingDelta() | CitationDelta():
                pass  # see `take`; a thinking without text is a token count, and a citation is in its block
            case BlockStart(index=index, block=opened):
                self._open.pop(index, None)
                self._block(index, str(opened.get("type", "")))
            case BlockStop(index=index, block=whole):
                kind = str(whole.get("type", ""))
                block = self._block(index, kind)
                del self._open[index]
                content = {name: _plain(value) for name, value in whole.items() if name != _STREAMED.get(kind)}
                self._add("block_stop", block=block, content=content)
            case InputStart(input=input):
                self._start(input)
            case InputStop(input=input):
                self._adopt(input)
                self._stop(input)
            case MessageStart(message=message, restarted=restarted):
                self._start_message(message, restarted=restarted)
            case MessageStop(message=message, stop_reason=reason):
                self._add("message_stop", stop_reason=reason, usage=_object(message.get("usage")))
                if self._begins_turns:
                    self._add("turn_stop", turn=self._turn, error=None)
            case TurnStart(turn=turn):
                self._begins_turns = False
                self._begin_turn(turn)
            case MessageDelivered():
                pass  # the record of the request has its messages
            case TurnStop(turn=turn, error=error):
                self._add("turn_stop", turn=turn, error=_fault(error))
            case ToolStart(call=call):
                self._add_of_call(call, "tool_start")
            case ToolProgress(call=call, value=value):
                self._add_of_call(call, "tool_progress", value=_plain(value))
            case ToolStop(call=call):
                told = _plain((call.result or {}).get("content", ""))
                if self._summaries is not None:
                    told = self._summaries.of_call(call)
                more: dict[str, Any] = {} if call.repaired is None else {"repaired": True}
                if call.was_cancelled:
                    more["cancelled"] = True
                data = _object(call.response.data) if self._has_data and call.response is not None else {}
                if data and not is_deeper(data, DEFAULT_LIMITS.max_depth):  # no deeper one could be loaded from a file
                    more["data"] = data
                self._add_of_call(call, "tool_stop", ran=call.ran, is_error=call.is_error, content=told, **more)
                if self._edits is not None:
                    self._edits.stop(call.input)
            case SubRunStart(call=call, run=run, model=model):
                self._add_of_call(call, "sub_run_start", run=run, model=model)
            case SubRunStop(call=call, run=run, status=status, turns=turns, usage=usage):
                ended = {"run": run, "status": status.value, "turns": turns, "usage": _object(usage)}
                self._add_of_call(call, "sub_run_stop", **ended)
            case Restarted(turn=turn, reason=reason, error=error, delay_s=delay_s):
                self._void()
                self._add("restarted", turn=turn, reason=reason, delay_s=round(delay_s, 6), error=_fault(error))
            case Ping():
                if self._clock() >= self._next_ping_s:
                    self._next_ping_s = self._clock() + _PING_S
                    self._add("ping")
            case UnknownEvent(data=data):
                self._add("unknown", event=_object(data))

    def _start_message(self, message: Mapping[str, Any], *, restarted: bool) -> None:
        if restarted:
            self._void()
        elif self._begins_turns is not False:
            self._begins_turns = True
            self._begin_turn(self._turn + 1)
        self._open.clear()
        id, model = str(message.get("id", "")), str(message.get("model", ""))
        self._add("message_start", id=id, model=model, restarted=restarted)

    def _begin_turn(self, turn: int) -> None:
        self._turn = turn
        self._turn_inputs.clear()
        self._open.clear()
        self._add("turn_start", turn=turn)

    def _void(self) -> None:
        for input in self._turn_inputs:
            self._inputs[input] = 0
            if self._edits is not None:
                self._edits.stop(input)
            self._writing.discard(input)
            self._told.pop(input, None)
            self._adopted_chars.pop(input, None)
        self._turn_inputs.clear()
        self._open.clear()

    def _block(self, index: int, kind: str) -> int:
        """Return the number of the open block at this index. If its start was not seen, record the start now."""
        if index not in self._open:
            self._blocks += 1
            self._open[index] = self._blocks
            self._add("block_start", block=self._blocks, index=index, kind=kind)
        return self._open[index]

    def _start(self, input: GrowingInput) -> None:
        self._blocks += 1
        self._inputs[input] = self._blocks
        self._writing.add(input)
        self._turn_inputs.append(input)
        head = {"index": input.index, "id": input.id, "name": input.name, "kind": input.kind}
        whole = _object(input.block.get("input")) or None if self._summaries is None else None
        self._add("input_start", block=self._blocks, **head, input=whole)
        if self._edits is not None:
            self._edits.start(input)

    def _stop(self, input: GrowingInput) -> None:
        """Record the end of an input, unless the input is void or its end was recorded."""
        if input in self._writing and input.outcome is not None:
            if self._summaries is not None:
                self._summarize(input)
            self._told.pop(input, None)
            self._writing.remove(input)
            self._adopted_chars.pop(input, None)
            error = str(input.error) if input.error is not None else None
            self._add("input_stop", block=self._inputs[input], outcome=input.outcome.value, error=error)

    def _continues(self, delta: InputDelta[GrowingInput]) -> bool:
        """Return True if a delta continues the recorded part of its input.

        If not, the input is void, or it was seen late and the delta is in its first record.
        """
        input = delta.input
        if input not in self._inputs:
            self._adopt(input)
            return False
        if input not in self._writing or self._adopted_chars.get(input) == input.chars:
            return False
        if delta.patch is None:
            if input in self._adopted_chars:
                raise UsageError("the events carry no changes: observe the run, or make them with reports=True")
            self._add_so_far(input)
            return False
        return True

    def _adopt(self, input: GrowingInput) -> None:
        """Record an input whose start was not seen, with all of its text so far."""
        if input not in self._inputs:
            self._start(input)
            self._add_so_far(input)

    def _summarize(self, input: GrowingInput) -> None:
        """Record the line of a call that is being written, if it has changed."""
        assert self._summaries is not None
        if input not in self._inputs:
            self._start(input)
        if input not in self._writing:
            return
        line = self._summaries.of(input)
        if self._told.get(input) != line:
            self._told[input] = line
            patch = [{"op": "replace", "path": "", "value": {"summary": line}}]
            self._add("input_delta", block=self._inputs[input], fragment="", patch=patch, finished=[])

    def _add_so_far(self, input: GrowingInput) -> None:
        """Record all of an input's text so far at once."""
        if self._summaries is not None:
            self._summarize(input)
            return
        self._adopted_chars[input] = input.chars
        if input.chars and input.raw:
            finished = [name for name in input.partial if input.is_finished(name)]
            fields = {"fragment": input.raw, "patch": input.whole_patch(), "finished": finished}
            self._add("input_delta", block=self._inputs[input], **fields)
            if self._edits is not None:
                self._edits.grow(input, finished)

    def _tell_edit(self, input: GrowingInput, fields: dict[str, Any]) -> None:
        """Record an edit of a call. The event loop calls this, which must see no exception."""
        block = self._inputs.get(input)
        if not block or self._has_ended:
            return
        self._add("edit", block=block, **_object(fields))
        try:
            self._put_new()
        except Exception:
            self._has_ended = True
            self._close()

    def _add_of_call(self, call: ToolCall, type: str, **fields: Any) -> None:
        if call.input not in self._inputs:  # it started before the observation
            self._adopt(call.input)
            self._stop(call.input)
        block = self._inputs[call.input]
        if block:
            self._add(type, block=block, **fields)


def _merged(deltas: list[Any]) -> TextDelta | ThinkingDelta | InputDelta[GrowingInput]:
    """Return one delta in place of consecutive ones of one block."""
    first = deltas[0]
    if isinstance(first, TextDelta):
        return TextDelta(first.index, "".join([delta.text for delta in deltas]))
    if isinstance(first, ThinkingDelta):
        return ThinkingDelta(first.index, "".join([delta.thinking for delta in deltas]))
    patches = [delta.patch for delta in deltas]
    return InputDelta(
        first.input,
        "".join([delta.fragment for delta in deltas]),
        None if None in patches else merge_patches(patches),
        # A field whose key comes twice may have begun again since it finished.
        [name for delta in deltas for name in delta.finished if first.input.is_finished(name)],
    )


def _fault(error: BaseException | None) -> Fault | None:
    return None if error is None else {"type": type(error).__name__, "text": encodable(str(error))}


def _plain(value: Any) -> Any:
    """Return the JSON form of a value. Its origin does not matter: a tool or a peer."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)
        if not isinstance(plain, str):
            json.dumps(plain)  # Python refuses to write integers with thousands of digits
        return plain
    # A cycle, too much depth, or a `__str__` that raises: any code may run in here.
    except Exception:
        return f"<{type(value).__name__}>"


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object. It is empty if the value is something else or has no JSON form."""
    plain = _plain(value)
    return plain if isinstance(plain, dict) else {}
