"""`UIMessageEncoder`: turns the records of a run into the chunks of a UI message stream. No I/O, no clock.

Versions 5, 6 and 7 of the `ai` package read the chunks. They have no field that its strictest schema does not know.
If a form is ambiguous, the behaviour of its reader decides:

* A tool part is `dynamic-tool`, unless the program names the tool in `static_tools`. The type of a static part,
`tool-<name>`, would contain text of a model, and the reader keeps more of an invalid input in a dynamic part.
`_tool_part.py` has the rest about calls.
* Every `toolCallId` is used once: the reader finds a part by it, and assistant-ui drops a second call of the same id.
* Parts cannot be taken back before version 7 (`reset-step`). A restarted turn ends its step with `data-restarted`: all
parts since the last `step-start` are void. Its calls end as errors that say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from .._fold import RunFold
from .._record import InputStartRecord, Record
from ._tool_part import ToolPart
from ._values import TOOL_CALL_ID, readable

Chunk: TypeAlias = dict[str, Any]
"""One chunk of a UI message stream: the data of one server-sent event."""

SDKVersion: TypeAlias = Literal[5, 6, 7]

_VOID: Final = "Void: the response was restarted."
_NOT_RUN: Final = "Not executed."
_NO_RESULT: Final = "This call has no result."
_MAX_SOURCES: Final = 200

_FINISH_REASONS: Final = {
    "completed": "stop",
    "stop_sequence": "stop",
    "truncated": "length",
    "refused": "content-filter",
    "limit": "tool-calls",  # as after the SDK's own limit of steps
    "error": "error",
}


def describe_error(error: Mapping[str, Any]) -> str:
    """Return the text of an `error` chunk: only the class of the error.

    The message of an exception may name hosts, paths and people, and anyone may read the page.
    """
    return f"The run failed ({error.get('type', 'error')})."


class UIMessageEncoder:
    """Turns the records of one run, in order, into the chunks of one assistant message.

    ::

        encoder = UIMessageEncoder()
        chunks = [chunk for record in records for chunk in encoder.encode([record])] + encoder.close()

    Args:
        message_id: The id of the message. If None, it is made from the id of the run. To continue a message that the
            client has already, pass its id.
        static_tools: Names of tools that the page has types for. Their parts are `tool-<name>`, all others
            `dynamic-tool`.
        sdk: The oldest version of the `ai` package that reads the stream. Version 5 has no approvals of its own;
            `data-approval` is sent to every version. Version 7 can take back the parts of a restarted turn.
        describe_error: Returns the text for an error that ended the run (`{"type": ..., "text": ...}`).
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
        self._run = RunFold(self._start_call)
        self._has_begun = False
        self._has_stopped = False
        self._in_step = False
        self._step_is_empty = True
        self._open: dict[int, str] = {}  # text and thinking blocks, and their kinds
        self._used_ids: set[str] = set()
        self._sources: dict[str, bool] = {}  # url: True if it is new in this step
        self._source_count = 0
        self._restarts = 0
        self._out: list[Chunk] = []

    @property
    def waits_for(self) -> list[int]:
        """See `RunFold.waits_for`."""
        return self._run.waits_for

    def park(self) -> list[Chunk]:
        """Return the end of the message for now: it asks a person, who answers with another request."""
        self._park()
        return self._take()

    def _park(self) -> None:
        self._close_texts()
        for call in self._run.current.values():
            call.put_off()
        if self._in_step:
            self._in_step = False
            self._send("finish-step")
        self._send("finish", finishReason="tool-calls", messageMetadata={"status": "waiting"})

    def reopen(self) -> None:
        """Continue a message that the client has, up to what `park` returns. What was encoded is dropped."""
        self.park()
        self._has_begun = False
        self._begin()

    def encode(self, records: Iterable[Record]) -> list[Chunk]:
        """Return the chunks for the next records: often one for each, sometimes none."""
        for record in records:
            if self._has_stopped:
                break
            match record["type"]:  # before the calls of a turn are removed
                case "run_resumed":
                    self._stop_turn(None)
                case "turn_start":
                    self._begin()
                    self._stop_step()
                case "message_start" if record["restarted"] and not self._step_is_empty:
                    self._void("interrupted")
                case "restarted":
                    self._void(record["reason"])
                case _:
                    pass
            call = self._run.feed(record)
            match record["type"]:
                case "run_start":
                    self._begin()
                case "turn_start":
                    self._send("start-step")
                    self._in_step = self._step_is_empty = True
                case "block_start":
                    self._start_block(record["block"], record["kind"])
                case "text_delta":
                    self._text(record["block"], "text", record["text"], record.get("omitted_chars"))
                case "thinking_delta":
                    self._text(record["block"], "thinking", record["thinking"], record.get("omitted_chars"))
                case "block_stop" if call is not None:
                    self._cite(record["content"].get("content"))
                case "block_stop":
                    self._stop_block(record["block"], record["content"])
                case "turn_stop":
                    self._stop_turn(record["error"])
                case "unknown":
                    self._send("data-event", data=readable(record["event"]), transient=True)
                case "run_stop":
                    metadata = {
                        "status": record["status"],
                        "turns": record["turns"],
                        "usage": readable(record["usage"]),
                    }
                    self._stop(metadata, record["error"])
                case _:
                    pass  # calls send their own chunks; message_stop and later versions' records: no form here
        return self._take()

    def close(self, error: Mapping[str, Any] | None = None) -> list[Chunk]:
        """Return the chunks that are missing if the records ended without a `run_stop`; otherwise none.

        The stream is then complete.

        Args:
            error: The error that ended them, for `describe_error`.
        """
        if not self._has_stopped:
            self._stop({"status": "error"}, error or {"type": "Interrupted"})
        return self._take()

    def _take(self) -> list[Chunk]:
        out, self._out = self._out, []
        return out

    def _send(self, type: str, /, **fields: Any) -> None:
        self._out.append({"type": type, **fields})
        if self._in_step and not fields.get("transient"):
            self._step_is_empty = False

    # --- records ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        run, model = self._run.id, self._run.model
        message_id = self._message_id or (run and f"msg_{run}")
        chunk: Chunk = {"messageId": message_id} if message_id else {}
        metadata = {name: value for name, value in (("run", run), ("model", model)) if value}
        self._send("start", **chunk, **({"messageMetadata": metadata} if metadata else {}))

    def _stop_step(self) -> None:
        if not self._in_step:
            return
        self._close_open()
        self._sources = dict.fromkeys(self._sources, False)
        self._in_step = False
        self._send("finish-step")

    def _close_texts(self) -> None:
        for block, kind in list(self._open.items()):
            self._end_text(block, kind)

    def _close_open(self) -> None:
        """End all open parts of this step, so that no part of the page waits forever."""
        self._close_texts()
        for call in self._run.current.values():
            call.close_input()
            if not call.is_server_side:
                call.close(_NOT_RUN)

    def _stop_turn(self, error: Mapping[str, Any] | None) -> None:
        if self._in_step and error is not None:
            self._close_open()
            self._send("data-interrupted", data={"turn": self._run.turn, "error": str(error.get("type"))})
        self._stop_step()

    def _void(self, reason: str) -> None:
        """Restart the turn. Its parts are taken back, or marked if that is not possible."""
        if not self._in_step:
            return
        data = {"turn": self._run.turn, "reason": str(reason)}
        if self._step_is_empty:
            self._send("data-restarted", data=data, transient=True)
            return
        self._restarts += 1
        if self._sdk >= 7:
            self._send("reset-step")
            self._send("data-restarted", data=data, transient=True)
        else:
            self._close_texts()
            for call in self._run.current.values():
                if call.turn == self._run.turn:
                    call.close_input(_VOID)
                    call.close(_VOID)
            self._send("data-restarted", id=f"restarted-{self._run.id}-{self._restarts}", data=data)
            self._send("finish-step")
            self._send("start-step")
        self._open.clear()
        self._sources = {url: False for url, is_new in self._sources.items() if not is_new}
        self._step_is_empty = True

    def _stop(self, metadata: dict[str, Any], error: Mapping[str, Any] | None) -> None:
        self._begin()
        status = metadata["status"]
        if status == "waiting":  # for decisions in its journal
            for call in self._run.current.values():
                call.ask()
            self._park()
            self._has_stopped = True
            return
        self._close_open()
        for call in self._run.current.values():
            call.close(_NO_RESULT)
        self._stop_step()
        self._has_stopped = True
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

    def _text(self, block: int, kind: str, text: str, omitted_chars: int | None) -> None:
        self._start_block(block, kind)
        if omitted_chars:
            text = f"({omitted_chars:,} characters are no longer kept)"
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
        else:
            self._send("data-block", data=readable(dict(content)))

    def _cite(self, cited: object) -> None:
        """Send the web pages that a text or a search names as sources, each once."""
        for item in cited if isinstance(cited, list) else ():
            url = item.get("url") if isinstance(item, Mapping) else None
            # A page makes links of them: web addresses only.
            if not isinstance(url, str) or not url.startswith(("https://", "http://")):
                continue
            if url in self._sources or len(self._sources) >= _MAX_SOURCES:
                continue
            self._sources[url] = True
            self._source_count += 1
            title = item.get("title")
            known = {"title": title} if isinstance(title, str) else {}
            self._send("source-url", sourceId=f"source-{self._run.id}-{self._source_count}", url=url, **known)

    # --- calls --------------------------------------------------------------------------------------------------------

    def _start_call(self, record: InputStartRecord) -> ToolPart:
        id = record["id"]
        if id in self._used_ids or not TOOL_CALL_ID.fullmatch(id) or id == "__proto__":
            id = f"call_{self._run.id}_{record['block']}"
        self._used_ids.add(id)
        return ToolPart(
            record,
            self._run.turn,
            tool_call_id=id,
            approval_id=f"{self._run.id}.{record['block']}",
            dynamic=record["name"] not in self._static_tools,
            sdk=self._sdk,
            send=self._send,
        )


def _part_id(block: int, kind: str) -> str:
    return f"{'text' if kind == 'text' else 'reasoning'}-{block}"
