"""`UIMessageEncoder`: the records of a run become the chunks of a UI message stream. Pure: no I/O, no clock.

The chunks are those that the `ai` package (5, 6 and 7) reads, with no field that its strictest schema does not know.
Where a form is ambiguous, what its reader does with it decides:

* A tool part is `dynamic-tool`, unless the program names the tool in `static_tools`: the type of a static part,
  `tool-<name>`, would be made of what a model wrote; and the reader keeps the input of a dynamic part that was invalid
  when a result comes, while that of a static one moves to `rawInput` and is then forgotten. `dynamic` stands on every
  chunk of a call, since version 5 looks for it on each.
* Every `toolCallId` is used once: the reader finds a part by it, and assistant-ui drops a second call of the same id.
* What a tool says before its input has ended goes out as transient `data-tool-progress`, and its result waits: each
  `tool-input-delta` sets the part back to `input-streaming` and takes its output away.
* Parts cannot be taken back before version 7 (`reset-step`). A turn that is begun anew ends its step with
  `data-restarted`: everything from the `step-start` before it is void. Its calls end as errors that say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ...wire import INVALID_JSON, JSON
from ..record import Record
from .values import MAX_DEPTH, DepthGauge, readable

Chunk: TypeAlias = dict[str, Any]
"""One chunk of a UI message stream: the data of one server-sent event."""

SDKVersion: TypeAlias = Literal[5, 6, 7]

_VOID: Final = "Void: the reply was begun anew."
_NOT_RUN: Final = "Not executed."
_NO_RESULT: Final = "No result came."
_CUT: Final = "The input was cut off."
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_SOURCES: Final = 200
_UNSET: Final = object()

_FINISH_REASONS: Final = {
    "completed": "stop",
    "stop_sequence": "stop",
    "truncated": "length",
    "refused": "content-filter",
    "limit": "tool-calls",  # as after the SDK's own limit of steps
    "error": "error",
}


def describe_error(error: Mapping[str, Any]) -> str:
    """The text of an `error` chunk: the class of the error and nothing else.

    What an exception says may name hosts, paths and people, and a page is read by anybody.
    """
    return f"The run failed ({error.get('type', 'error')})."


@dataclass(slots=True, eq=False)
class _Call:
    """A tool call, as far as it has been sent."""

    record: Mapping[str, Any]  # its input_start
    turn: int
    base: Chunk  # what all its chunks have
    has_ended: bool = False  # tool-input-available or tool-input-error was sent
    was_valid: bool = False
    has_result: bool = False
    was_denied: bool = False
    is_hidden: bool = False  # too deep to be shown growing
    fragments: list[str] = field(default_factory=list)
    gauge: DepthGauge = field(default_factory=DepthGauge)
    omitted_chars: int = 0  # of its input, which the log does not keep any more
    progress: Any = _UNSET
    result: Mapping[str, Any] | None = None  # a tool_stop that waits for the end of the input
    awaits: str | None = None  # the id of the approval, until it is decided
    was_asked: bool = False  # tool-approval-request was sent

    @property
    def is_of_server(self) -> bool:
        return bool(self.record["kind"] != "tool_use")


class UIMessageEncoder:
    """Fed with the records of one run, in order, it gives the chunks of one assistant message.

    ::

        encoder = UIMessageEncoder()
        chunks = [chunk for record in records for chunk in encoder.encode([record])] + encoder.close()

    Args:
        message_id: The id of the message; the id of the run where it is None. To go on with a message that the client
            has already, its id.
        static_tools: Names of tools that the page has types for: their parts are `tool-<name>`, all others
            `dynamic-tool`.
        sdk: The oldest version of the `ai` package that reads the stream. 5 knows no approvals as such (they are
            `data-approval` in every version); 7 can take back the parts of a turn that is begun anew.
        describe_error: The text for an error that ended the run (`{"type": ..., "text": ...}`).
    """

    def __init__(
        self,
        *,
        message_id: str | None = None,
        static_tools: Collection[str] = (),
        sdk: SDKVersion = 6,
        describe_error: Callable[[Mapping[str, Any]], str] = describe_error,
    ) -> None:
        self._message_id = message_id
        self._static_tools = frozenset(static_tools)
        self._sdk = sdk
        self._describe_error = describe_error
        self._run = ""
        self._has_begun = False
        self._has_stopped = False
        self._in_step = False
        self._step_is_empty = True
        self._turn = 0
        self._open: dict[int, str] = {}  # text and thinking blocks, and their kinds
        self._calls: dict[int, _Call] = {}  # of this turn, and of the server where no result came yet
        self._of_server: dict[str, _Call] = {}  # those of them that the API runs, by its id
        self._used_ids: set[str] = set()
        self._sources: dict[str, bool] = {}  # url: whether it is of this step
        self._restarts = 0
        self._out: list[Chunk] = []

    def encode(self, records: Iterable[Record]) -> list[Chunk]:
        """The chunks for the next records; often one for each, sometimes none."""
        for record in records:
            self._encode(record)
        return self._take()

    def close(self, error: Mapping[str, Any] | None = None) -> list[Chunk]:
        """What is missing where the records end without a `run_stop`; nothing otherwise. The stream is whole then.

        Args:
            error: Why they end, for `describe_error`.
        """
        if not self._has_stopped:
            self._stop({"status": "error", "error": error or {"type": "Interrupted"}})
        return self._take()

    def _take(self) -> list[Chunk]:
        out, self._out = self._out, []
        return out

    def _send(self, type: str, **fields: Any) -> None:
        self._out.append({"type": type, **fields})
        if self._in_step and not fields.get("transient"):
            self._step_is_empty = False

    # --- records ------------------------------------------------------------------------------------------------------

    def _encode(self, record: Mapping[str, Any]) -> None:
        if self._has_stopped:
            return
        match record["type"]:
            case "run_start":
                self._run = str(record["run"])
                self._begin(record)
            case "turn_start":
                self._start_step(record["turn"])
            case "message_start":
                if record["restarted"] and not self._step_is_empty:
                    self._void("interrupted")
            case "block_start":
                self._start_block(record["block"], record["kind"])
            case "text_delta":
                self._text(record["block"], "text", record)
            case "thinking_delta":
                self._text(record["block"], "thinking", record)
            case "block_stop":
                self._stop_block(record["block"], record["content"])
            case "input_start":
                self._start_input(record)
            case "input_delta":
                self._input_delta(record)
            case "input_stop":
                self._stop_input(record)
            case "tool_progress":
                self._progress(record)
            case "approval_start":
                self._ask(record)
            case "approval_stop":
                self._decided(record)
            case "tool_stop":
                self._result(record)
            case "turn_stop":
                self._stop_turn(record.get("error"))
            case "restarted":
                self._void(record["reason"])
            case "unknown":
                self._send("data-event", data=readable(record["event"]), transient=True)
            case "run_stop":
                self._stop(record)
            case _:
                pass  # message_stop, tool_start, and what a later version records: no form here

    def _begin(self, record: Mapping[str, Any]) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        known = {"run": record.get("run"), "model": record.get("model")}
        metadata = {name: value for name, value in known.items() if value is not None}
        chunk: Chunk = {"messageId": self._message_id or f"msg_{self._run}"} if self._message_id or self._run else {}
        self._send("start", **chunk, **({"messageMetadata": metadata} if metadata else {}))

    def _start_step(self, turn: int) -> None:
        self._begin({})
        self._stop_step()
        self._turn = turn
        self._send("start-step")
        self._in_step = self._step_is_empty = True
        # After a pause the results of the server's calls come in the next turn.
        self._calls = {block: call for block, call in self._calls.items() if call.is_of_server and not call.has_result}

    def _stop_step(self) -> None:
        if not self._in_step:
            return
        self._close_open()
        self._sources = dict.fromkeys(self._sources, False)
        self._in_step = False
        self._send("finish-step")

    def _close_open(self) -> None:
        """End what is still open in this step, so that no part of the page waits for ever."""
        for block, kind in list(self._open.items()):
            self._end_text(block, kind)
        for call in self._calls.values():
            if not call.has_ended:
                self._send_invalid(call, _CUT)
            if not call.has_result and not call.is_of_server:
                self._send_error(call, _NOT_RUN)

    def _close_void(self) -> None:
        for block, kind in list(self._open.items()):
            self._end_text(block, kind)
        for call in self._calls.values():
            if call.turn == self._turn and not call.has_ended:
                self._send_invalid(call, _VOID)
            if call.turn == self._turn and not call.has_result:
                self._send_error(call, _VOID)

    def _stop_turn(self, error: Mapping[str, Any] | None) -> None:
        if self._in_step and error is not None:
            self._close_open()
            self._send("data-interrupted", data={"turn": self._turn, "error": str(error.get("type"))})
        self._stop_step()

    def _void(self, reason: str) -> None:
        """The turn begins anew. What it has sent is taken back, or marked where it cannot be."""
        if not self._in_step:
            return
        data = {"turn": self._turn, "reason": str(reason)}
        if self._step_is_empty:
            self._send("data-restarted", data=data, transient=True)
            return
        self._restarts += 1
        if self._sdk >= 7:
            self._send("reset-step")
            self._send("data-restarted", data=data, transient=True)
        else:
            self._close_void()
            self._send("data-restarted", id=f"restarted-{self._run}-{self._restarts}", data=data)
            self._send("finish-step")
            self._send("start-step")
        self._open.clear()
        self._calls = {block: call for block, call in self._calls.items() if call.turn != self._turn}
        self._of_server = {id: call for id, call in self._of_server.items() if call.turn != self._turn}
        self._sources = {url: False for url, is_new in self._sources.items() if not is_new}
        self._step_is_empty = True

    def _stop(self, record: Mapping[str, Any]) -> None:
        self._begin({})
        self._close_open()
        for call in self._calls.values():
            if not call.has_result:
                self._send_error(call, _NO_RESULT)
        self._stop_step()
        self._has_stopped = True
        status, error = record["status"], record.get("error")
        metadata = {"status": status}
        if "usage" in record:
            metadata |= {"turns": record["turns"], "usage": readable(record["usage"])}
        if status == "cancelled":
            self._send("message-metadata", messageMetadata=metadata)
            self._send("abort")
        elif status == "error" or error is not None:
            # Before the error: the page's own reader stops there.
            self._send("message-metadata", messageMetadata=metadata)
            self._send("error", errorText=self._describe_error(error or {}))
            self._send("finish", finishReason="error")
        else:
            self._send("finish", finishReason=_FINISH_REASONS.get(status, "other"), messageMetadata=metadata)

    # --- text, thinking, other blocks ---------------------------------------------------------------------------------

    def _start_block(self, block: int, kind: str) -> None:
        if kind in ("text", "thinking") and block not in self._open:
            self._open[block] = kind
            self._send("text-start" if kind == "text" else "reasoning-start", id=_part_id(block, kind))

    def _text(self, block: int, kind: str, record: Mapping[str, Any]) -> None:
        self._start_block(block, kind)
        text: str = record[kind]
        if chars := record.get("omitted_chars"):
            text = f"({chars:,} characters are no longer kept)"
        if text:
            self._send("text-delta" if kind == "text" else "reasoning-delta", id=_part_id(block, kind), delta=text)

    def _end_text(self, block: int, kind: str, metadata: Mapping[str, Any] | None = None) -> None:
        del self._open[block]
        known = {"providerMetadata": {"anthropic": metadata}} if metadata else {}
        self._send("text-end" if kind == "text" else "reasoning-end", id=_part_id(block, kind), **known)

    def _stop_block(self, block: int, content: Mapping[str, Any]) -> None:
        kind = content.get("type")
        if kind == "text":
            self._start_block(block, kind)
            citations = content.get("citations")
            self._end_text(block, kind, {"citations": readable(citations)} if citations else None)
            self._cite(citations)
        elif kind == "thinking":
            self._start_block(block, kind)
            signature = content.get("signature")
            self._end_text(block, kind, {"signature": signature} if isinstance(signature, str) else None)
        elif kind == "redacted_thinking":
            self._start_block(block, "thinking")
            data = content.get("data")
            self._end_text(block, "thinking", {"redactedData": data} if isinstance(data, str) else None)
        elif (call := self._of_server.get(str(content.get("tool_use_id")))) is not None and not call.has_result:
            self._server_result(call, content)
        else:
            self._send("data-block", data=readable(dict(content)))

    def _cite(self, cited: object) -> None:
        """Web pages that a text or a search names become sources, each once."""
        for item in cited if isinstance(cited, list) else ():
            url = item.get("url") if isinstance(item, Mapping) else None
            # A page makes links of them: nothing but the web.
            if not isinstance(url, str) or not url.startswith(("https://", "http://")):
                continue
            if url in self._sources or len(self._sources) >= _MAX_SOURCES:
                continue
            self._sources[url] = True
            title = item.get("title")
            known = {"title": title} if isinstance(title, str) else {}
            self._send("source-url", sourceId=f"source-{self._run}-{len(self._sources)}", url=url, **known)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _start_input(self, record: Mapping[str, Any]) -> None:
        base: Chunk = {"toolCallId": self._unused_id(record)}
        if record["name"] not in self._static_tools:
            base["dynamic"] = True
        call = _Call(record, self._turn, base)
        if call.is_of_server:
            base["providerExecuted"] = True
            self._of_server[record["id"]] = call
        self._calls[record["block"]] = call
        self._send("tool-input-start", **base, toolName=record["name"])

    def _unused_id(self, record: Mapping[str, Any]) -> str:
        id: str = record["id"]
        if id in self._used_ids or not _ID.fullmatch(id) or id == "__proto__":
            id = f"call_{self._run}_{record['block']}"
        self._used_ids.add(id)
        return id

    def _input_delta(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.has_ended:
            return
        call.omitted_chars += record.get("omitted_chars", 0)
        if not (fragment := record["fragment"]):
            return
        call.fragments.append(fragment)
        if not call.is_hidden:
            call.is_hidden = call.gauge.feed(fragment) > MAX_DEPTH
        if not call.is_hidden:
            self._send("tool-input-delta", toolCallId=call.base["toolCallId"], inputTextDelta=fragment)

    def _stop_input(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.has_ended:
            return
        value = _whole(call) if record["outcome"] == "valid" else None
        if value is None:
            self._send_invalid(call, record.get("error") or _CUT)
        else:
            call.has_ended = call.was_valid = True
            call.fragments.clear()
            self._send("tool-input-available", **call.base, toolName=call.record["name"], input=readable(value))
        if call.result is not None:
            self._result(call.result)
            return
        if call.progress is not _UNSET:
            self._send("tool-output-available", **call.base, output=call.progress, preliminary=True)
        self._request_approval(call)

    def _send_invalid(self, call: _Call, why: str) -> None:
        call.has_ended = True
        wrapped = _wrapped(call)
        self._send("tool-input-error", **call.base, toolName=call.record["name"], input=wrapped, errorText=why)

    def _send_error(self, call: _Call, why: str) -> None:
        call.has_result = True
        self._send("tool-output-error", **call.base, errorText=why)

    def _progress(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.has_result:
            return
        call.progress = readable(record["value"])
        if call.has_ended:
            self._send("tool-output-available", **call.base, output=call.progress, preliminary=True)
        else:
            data = {"toolCallId": call.base["toolCallId"], "progress": call.progress}
            self._send("data-tool-progress", data=data, transient=True)

    def _ask(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.has_result:
            return
        call.awaits = f"{self._run}.{record['block']}"
        self._send_approval(call, state="requested")
        self._request_approval(call)

    def _request_approval(self, call: _Call) -> None:
        if self._sdk >= 6 and call.has_ended and call.awaits is not None and not call.was_asked:
            call.was_asked = True
            self._send("tool-approval-request", approvalId=call.awaits, toolCallId=call.base["toolCallId"])

    def _decided(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.awaits is None or call.has_result:
            return
        approved, reason = record["approved"], record.get("reason")
        known = {"reason": reason} if reason else {}
        call.was_denied = not approved
        self._send_approval(call, state="approved" if approved else "denied", **known)
        if self._sdk >= 7 and call.was_asked:
            self._send("tool-approval-response", approvalId=call.awaits, approved=approved, **known)
        call.awaits = None

    def _send_approval(self, call: _Call, **state: Any) -> None:
        data = {"approvalId": call.awaits, "toolCallId": call.base["toolCallId"], **state}
        self._send("data-approval", id=f"approval-{call.awaits}", data=data)

    def _result(self, record: Mapping[str, Any]) -> None:
        call = self._calls.get(record["block"])
        if call is None or call.has_result:
            return
        if not call.has_ended:
            call.result = record
            return
        if call.was_denied and call.was_asked:
            call.has_result = True
            self._send("tool-output-denied", toolCallId=call.base["toolCallId"])
        elif record["is_error"]:
            self._send_error(call, _words(record["content"]))
        else:
            if not call.was_valid and "dynamic" not in call.base:
                # The reader moved the input of the static part away, and would forget it.
                wrapped = _wrapped(call)
                self._send("tool-input-available", **call.base, toolName=call.record["name"], input=wrapped)
            call.has_result = True
            self._send("tool-output-available", **call.base, output=readable(record["content"]))

    def _server_result(self, call: _Call, block: Mapping[str, Any]) -> None:
        """The block itself is the output: with it the history can be sent again."""
        if not call.has_ended:
            self._send_invalid(call, _CUT)
        content = block.get("content")
        has_failed = block.get("is_error") is True or (
            isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
        )
        output = {name: value for name, value in block.items() if name != "tool_use_id"}
        if has_failed:
            self._send_error(call, json.dumps(output))
        else:
            call.has_result = True
            self._send("tool-output-available", **call.base, output=readable(output))
            self._cite(content)


def _part_id(block: int, kind: str) -> str:
    return f"{'text' if kind == 'text' else 'reasoning'}-{block}"


def _whole(call: _Call) -> dict[str, JSON] | None:
    """The input that ended valid; None where it cannot be told (a record that was changed)."""
    if call.omitted_chars:
        return {"omitted_chars": call.omitted_chars}
    if call.record["input"] is not None and not call.fragments:
        return dict(call.record["input"])
    try:
        value = json.loads("".join(call.fragments) or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _wrapped(call: _Call) -> dict[str, JSON]:
    """As an input that is not JSON stands in the history."""
    return {INVALID_JSON: "".join(call.fragments)}


def _words(content: object) -> str:
    """An error result as text."""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return str(content) or "(an error without words)"
