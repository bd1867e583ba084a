"""`AGUIEncoder`: turns records of a run into events of AG-UI."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from eagerstream._support.terms import NOT_RUN

from .._endpoint import public_error
from .._fold import AFTER_INPUT, Result, RunFold
from .._pieces import Pieces
from .._record import Fault, InputStartRecord, Record
from ._content import (
    MAX_EVENT_CHARS,
    METADATA_KEY,
    bounded,
    omission,
    to_parts,
    token_usage,
    with_metadata,
)
from ._rebuilt import Call, Conversation, Message
from ._state import StateMirror

Event: TypeAlias = dict[str, Any]
"""An event of AG-UI in its JSON form: `{"type": "TEXT_MESSAGE_START", "messageId": ...}`."""

PROTOCOL_VERSION: Final = "1.0"

AWAITS_APPLICATION: Final = {"eagerstream": "awaits the application"}
"""Progress of a call that the application answers in the messages of its next run, see `frontend_tools`."""

RESPONSE_SCHEMA: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The answer to an interrupt."""

_NO_RESULT: Final = "This call has no result."
_VOID: Final = "Void: the response with this call was restarted."
_MAX_NAME_CHARS: Final = 1_000
_UNSAFE_IDS: Final = frozenset({"", "__proto__", "constructor", "prototype"})


class AGUIEncoder:
    """Turns the records of one run into the events of AG-UI, as dicts; no I/O.

    - A turn is a step.
    - Text before and after a call in one response are two assistant messages, so that text and calls keep their order.
      A call belongs to the message that it follows.
    - Thinking is reasoning. Its signature, or its redacted data, is the encrypted value.
    - Tool progress is a custom event with the name of its record. Blocks and events without a form in AG-UI are raw
      events.
    - A call that waits for a person ends the run with an interrupt (`park`), once the run does nothing else.
    - The state contains each input as it grows (`StateMirror`).
    - If a response restarts, its open parts are ended, and a snapshot of the messages removes them.

    The last event is exactly one `RUN_FINISHED` or `RUN_ERROR`.

    Args:
        thread_id, run_id: The client's ids. If None, the run's own id.
        messages: The conversation that the client has already, as it sent it. A snapshot of the messages needs it.
        state: The state that the client has already, if it is an object. Its fields stay, except `toolCalls`.
    """

    def __init__(
        self,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        state: object = None,
    ) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._conversation = Conversation(messages)
        self._base = dict(state) if isinstance(state, Mapping) else {}
        self._out: list[Event] = []
        self._is_started = False
        self.is_ended: bool = False
        """True if the last event has been returned."""
        self._run = RunFold(self._begin_call)
        self._state = StateMirror()
        self._step: str | None = None
        self._segment: Message | None = None  # message for the text and calls of this response
        self._segments: set[str] = set()  # their ids
        self._text: Message | None = None  # the open text
        self._reasoning: dict[int, Message] = {}  # the open reasoning
        self._ids = self._conversation.given_call_ids
        self._pieces = Pieces(MAX_EVENT_CHARS)
        self._is_in_message = False

    @property
    def awaits_application(self) -> bool:
        """True if only the application's calls are left in this turn. A run cancelled now counts as successful."""
        calls = [call for call in self._conversation.turn_calls if not call.is_server_side]
        return (
            not self._is_in_message
            and any(call.is_pending for call in calls)
            and all(call.is_pending or call.is_answered for call in calls)
        )

    @property
    def waits_for(self) -> list[int]:
        """See `RunFold.waits_for`."""
        return self._run.waits_for

    def park(self) -> list[Event]:
        """Return the end of the run as the client sees it: interrupts, which its next request answers."""
        self._interrupt(self.waits_for)
        return self._given_out()

    def reopen(self) -> None:
        """Continue where `park` has ended. What was encoded is dropped: the client has it."""
        self.park()
        self._state.take()
        self.is_ended = self._is_started = False
        self._start()

    def encode(self, records: Iterable[Record]) -> list[Event]:
        """Return the events of the next records. Several records at once make fewer events.

        The first records may be the snapshot of a run that has already started. A later snapshot needs a new encoder.
        """
        for record in records:
            if self.is_ended:
                break
            self._take(record)
        self._tell_state()
        return self._given_out()

    def fail(self, message: str, *, code: str | None = None) -> list[Event]:
        """End the stream with an error. Return the remaining events; none if the stream has ended."""
        if not self.is_ended:
            self._start()
            self._close_all()
            self._end({"type": "RUN_ERROR", "message": message, **({"code": code} if code else {})})
        return self._given_out()

    def _given_out(self) -> list[Event]:
        out, self._out = self._out, []
        return out

    def _emit(self, type: str, **fields: Any) -> None:
        self._out.append({"type": type, **fields})

    def _tell_state(self) -> None:
        if not self.is_ended and (operations := self._state.take()):
            self._emit("STATE_DELTA", delta=operations)

    def _take(self, record: Record) -> None:
        if record["type"] in ("turn_start", "run_resumed"):
            self._end_turn()  # the one before
        call = self._run.feed(record)
        match record["type"]:
            case "run_start":
                self._start()
            case "turn_start":
                self._begin_turn(record["turn"])
            case "message_start":
                if record["restarted"]:
                    self._void()
                self._segment = None
                self._is_in_message = True
            case "block_start":
                if record["kind"] != "text":
                    self._close_text()
                if record["kind"] in ("thinking", "redacted_thinking"):
                    self._begin_reasoning(record["block"], record["kind"])
            case "text_delta":
                self._add_text(record["block"], record["text"] + omission(record))
            case "thinking_delta":
                if (message := self._reasoning.get(record["block"])) is not None:
                    thinking = record["thinking"] + omission(record)
                    message.text.append(thinking)
                    for piece in self._pieces.cut(record["block"], thinking):
                        self._emit("REASONING_MESSAGE_CONTENT", messageId=message.id, delta=piece)
            case "block_stop" if call is not None:
                self._tell_result(call)
            case "block_stop" if record["block"] in self._reasoning:
                self._end_reasoning(record["block"], record["content"])
            case "block_stop":
                kind = record["content"].get("type")
                if kind == "text":
                    if self._text is not None and isinstance(citations := record["content"].get("citations"), list):
                        self._text.metadata.setdefault("citations", []).extend(citations)
                elif kind not in ("thinking", "redacted_thinking"):
                    self._raw(record["content"])
            case "message_stop":
                self._end_message()
            case "turn_stop":
                self._end_turn()
                if (error := record["error"]) is not None:
                    self._custom("interrupted", turn=record["turn"], error=public_error(error))
            case "restarted":
                self._void()
                error = record["error"]
                fields = {"turn": record["turn"], "reason": record["reason"], "delayS": record["delay_s"]}
                self._custom("restarted", **fields, **({"error": public_error(error)} if error else {}))
            case "unknown":
                self._raw(record["event"])
            case "run_stop":
                self._end_run(record["status"], record["turns"], record["usage"], record["error"])
            case _:
                if call is not None:
                    self._take_of(call, record)

    def _take_of(self, call: Call, record: Record) -> None:
        """Encode a record that has changed a call."""
        match record["type"]:
            case "input_delta":
                self._add_arguments(call, record["fragment"])
                if record.get("omitted_chars"):
                    call.metadata["omittedChars"] = record["omitted_chars"]
                    self._state.give_up(call.client_id)
                self._state.patch(call.client_id, record["patch"])
            case "input_stop":
                self._end_input(call)
            case "tool_start":
                self._state.set(call.client_id, phase="running")
            case "tool_progress":
                if call.progress == AWAITS_APPLICATION:
                    call.is_pending = True
                    self._state.set(call.client_id, phase="pending")
                else:
                    self._custom("tool_progress", toolCallId=call.client_id, value=call.progress)
            case "approval_start":
                self._state.set(call.client_id, phase="approval")
            case "approval_stop":
                self._state.set(call.client_id, phase="waiting")
            case "tool_stop":
                self._tell_result(call)
            case _:
                pass  # its start

    # --- runs and turns -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        self._thread_id = self._run.id if self._thread_id is None else self._thread_id
        self._run_id = self._run.id if self._run_id is None else self._run_id
        self._emit("RUN_STARTED", threadId=self._thread_id, runId=self._run_id, protocolVersion=PROTOCOL_VERSION)
        # The client that continues a run has its calls, or sends a state without them.
        calls = {call.client_id: call.as_state() for call in self._conversation.calls}
        known = self._base.get("toolCalls") if calls else None
        self._emit(
            "STATE_SNAPSHOT", snapshot={**self._base, "toolCalls": calls | (known if isinstance(known, dict) else {})}
        )

    def _begin_turn(self, turn: int) -> None:
        self._conversation.begin_turn(turn)
        self._step = f"turn {turn}"
        self._emit("STEP_STARTED", stepName=self._step)

    def _end_turn(self) -> None:
        self._end_message()
        for call in self._conversation.turn_calls:
            if not call.is_server_side:
                self._answer(call, Result(call.block, NOT_RUN, is_error=True))
        if self._step is not None:
            self._emit("STEP_FINISHED", stepName=self._step)
            self._step = None

    def _end_message(self) -> None:
        self._close_all()
        self._segment = None
        self._is_in_message = False

    def _interrupt(self, blocks: Iterable[int]) -> None:
        """End the run for the client, with questions about these calls."""
        self._end_message()
        if self._step is not None:
            self._emit("STEP_FINISHED", stepName=self._step)
            self._step = None
        interrupts = [self._question(self._run.current[block]) for block in blocks]
        ended = {"type": "RUN_FINISHED", "threadId": self._thread_id, "runId": self._run_id}
        self._end(ended | {"outcome": {"type": "interrupt", "interrupts": interrupts}})

    def _question(self, call: Call) -> dict[str, Any]:
        return {
            "id": f"{self._run.id}.{call.block}.{call.id.replace('.', '_')}",
            "reason": "tool_call",
            "message": f"May {call.name} run with this input?",
            "toolCallId": call.client_id,
            "responseSchema": RESPONSE_SCHEMA,
        }

    def _end_run(self, status: str, turns: int, usage: Mapping[str, Any], error: Fault | None) -> None:
        if status == "waiting" and (asked := [call.block for call in self._run.current.values() if call.may_be_asked]):
            self._interrupt(asked)  # a journal keeps the run until somebody decides
            return
        self._end_turn()
        calls = self._conversation.calls
        for call in calls:
            self._answer(call, Result(call.block, _NO_RESULT, is_error=True))
        counts = {"usage": [tokens]} if (tokens := token_usage(usage, self._run.model)) else {}
        if status == "error":
            told = public_error(error or {"type": "Error", "text": "The run failed."})
            self._end({"type": "RUN_ERROR", "message": told["text"], "code": told["type"], **counts})
            return
        ended: Event = {"type": "RUN_FINISHED", "threadId": self._thread_id, "runId": self._run_id, **counts}
        pending = [call.client_id for call in calls if call.is_pending]
        if status == "cancelled" and not pending:
            self._end(ended | {"outcome": {"type": "cancelled"}})
            return
        result = {"status": "pending" if pending else status, "turns": turns, "stopReason": self._run.stop_reason}
        outcome = {"type": "success", **({"pendingToolCallIds": pending} if pending else {})}
        self._end(ended | {"result": result, "outcome": outcome})

    def _end(self, event: Event) -> None:
        self._tell_state()
        self._out.append(event)
        self.is_ended = True

    # --- text and thinking --------------------------------------------------------------------------------------------

    def _add_text(self, block: int, text: str) -> None:
        if self._text is None:
            segment = self._segment
            if segment is None or segment.is_closed or segment.calls:
                segment = self._new_segment(block)
            self._text = segment
            self._emit("TEXT_MESSAGE_START", messageId=segment.id, role="assistant")
        self._text.text.append(text)
        for piece in self._pieces.cut(block, text):
            self._emit("TEXT_MESSAGE_CONTENT", messageId=self._text.id, delta=piece)

    def _close_text(self) -> None:
        if (message := self._text) is None:
            return
        self._text = None
        message.is_closed = True
        self._emit("TEXT_MESSAGE_END", messageId=message.id, **with_metadata(message.metadata))

    def _begin_reasoning(self, block: int, kind: str) -> None:
        if self._conversation.blanks:
            message = self._conversation.blanks.pop(0)
        else:
            message = Message(self._message_id(block), is_reasoning=True)
            self._conversation.messages.append(message)
        self._segment = None  # the next blocks follow it
        message.metadata = {"type": kind} if kind != "thinking" else {}
        self._reasoning[block] = message
        self._emit("REASONING_START", messageId=message.id)
        self._emit("REASONING_MESSAGE_START", messageId=message.id, role="reasoning", **with_metadata(message.metadata))

    def _end_reasoning(self, block: int, content: Mapping[str, Any]) -> None:
        message = self._reasoning.pop(block)
        value = content.get("signature") or content.get("data")
        if isinstance(value, str) and len(value) <= MAX_EVENT_CHARS:
            message.encrypted_value = value
            self._emit("REASONING_ENCRYPTED_VALUE", subtype="message", entityId=message.id, encryptedValue=value)
        self._emit("REASONING_MESSAGE_END", messageId=message.id)
        self._emit("REASONING_END", messageId=message.id)

    def _new_segment(self, block: int) -> Message:
        id = self._message_id(block)
        if id in self._segments:  # text that continues after a call: a peer wrote both at once
            id = f"{id}-{len(self._segments)}"
        self._segments.add(id)
        self._segment = Message(id)
        self._conversation.messages.append(self._segment)
        return self._segment

    # --- calls --------------------------------------------------------------------------------------------------------

    def _begin_call(self, record: InputStartRecord) -> Call:
        self._close_text()
        block, id, kind = record["block"], record["id"], record["kind"]
        if id in _UNSAFE_IDS or id in self._ids:
            id = self._message_id(block, "call")
        self._ids.add(id)
        message = self._segment or self._new_segment(block)
        call = Call(
            block,
            record["id"],
            record["name"][:_MAX_NAME_CHARS],
            kind,
            self._run.turn,
            record["at_s"],
            given=record["input"],
            client_id=id,
            message=message,
            metadata={"kind": kind} if kind != "tool_use" else {},
        )
        message.calls.append(call)
        self._emit(
            "TOOL_CALL_START",
            toolCallId=id,
            toolCallName=call.name,
            parentMessageId=message.id,
            **with_metadata(call.metadata),
        )
        self._state.start(id, {"name": call.name, "kind": kind, "phase": "writing"})
        if call.given:
            self._state.patch(id, [{"op": "add", "path": "", "value": call.given}])
        return call

    def _add_arguments(self, call: Call, text: str) -> None:
        call.arguments.append(text)
        for piece in self._pieces.cut(call.block, text):
            self._emit("TOOL_CALL_ARGS", toolCallId=call.client_id, delta=piece)

    def _end_input(self, call: Call) -> None:
        if call.outcome == "valid" and not any(call.arguments) and not call.omitted_chars:
            # The input came complete at its start, or is empty.
            self._add_arguments(call, json.dumps(call.given or {}, ensure_ascii=False))
        if half := self._pieces.rest(call.block):
            self._emit("TOOL_CALL_ARGS", toolCallId=call.client_id, delta=half)
        self._emit("TOOL_CALL_END", toolCallId=call.client_id, **with_metadata(call.metadata))
        phase = "running" if call.tool_start_s is not None else AFTER_INPUT[str(call.outcome)].value
        self._state.set(call.client_id, outcome=call.outcome, phase=phase)
        self._tell_result(call)

    def _tell_result(self, call: Call) -> None:
        """Send the result, if the input has ended."""
        if (result := call.result) is None or call.outcome is None:
            return
        if call.is_server_side and isinstance(result.content, Mapping):
            inner = result.content.get("content", "")
            text = inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)
            result = result._replace(content=text)
        self._answer(call, result)

    def _answer(self, call: Call, result: Result) -> None:
        """Send a result, unless the call has one or the application answers it."""
        if call.is_answered or call.is_pending:
            return
        message: Event = {
            "id": self._message_id(result.block, "result"),
            "toolCallId": call.client_id,
            "role": "tool",
            "content": to_parts(result.content),
        }
        if result.is_error:
            message["metadata"] = {METADATA_KEY: {"isError": True}}
        self._conversation.answer(call, message)
        told = {name: value for name, value in message.items() if name != "id"}
        self._emit("TOOL_CALL_RESULT", messageId=message["id"], **told)
        self._state.set(call.client_id, phase="failed" if result.is_error else "done")

    # --- what is void -------------------------------------------------------------------------------------------------

    def _void(self) -> None:
        """Remove the parts of this turn."""
        self._end_message()
        void = self._conversation.void()
        if void is None:
            return
        if void.snapshot is None:
            for call in void.calls:
                self._answer(call, Result(call.block, _VOID, is_error=True))
            return
        for call in void.calls:
            self._ids.discard(call.client_id)
            self._state.remove(call.client_id)
        self._emit("MESSAGES_SNAPSHOT", messages=void.snapshot)

    def _close_all(self) -> None:
        self._close_text()
        for block in [*self._reasoning]:
            self._end_reasoning(block, {})
        for call in self._conversation.turn_calls:
            if call.outcome is None:
                call.end_input("incomplete")
                self._end_input(call)

    # --- events -------------------------------------------------------------------------------------------------------

    def _message_id(self, block: int, suffix: str = "") -> str:
        """Return an id, unique in the conversation and equal for all watchers. `_history` finds responses by it."""
        return f"{self._run.id}.{self._run.turn}.{block}{'.' if suffix else ''}{suffix}"

    def _custom(self, name: str, **value: Any) -> None:
        self._emit("CUSTOM", name=name, value=bounded(value))

    def _raw(self, event: object) -> None:
        self._emit("RAW", event=bounded(event), source="anthropic")
