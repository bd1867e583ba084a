"""`ToolPart`: one tool call in a UI message, and the chunks that update the client's part of it.

If a form is ambiguous, the behaviour of the client's reader decides:

* It finds a part by its `toolCallId` and, in version 5, by `dynamic`. Every chunk of a call therefore has both.
* Each `tool-input-delta` sets the part back to `input-streaming` and removes its output. The end of the input does too.
Earlier progress of a tool is sent as transient `data-tool-progress`, and its result waits.
* The invalid input of a static part moves to `rawInput`, and is lost when an output comes. It is then sent again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from eagerstream import INVALID_JSON, JSON

from .._exact import marked
from .._fold import CallFold, Result
from .._record import InputDeltaRecord, InputStartRecord, Record
from ._values import MAX_DEPTH, DepthGauge, readable

Send: TypeAlias = Callable[..., None]
"""Takes a chunk: its type, and its fields as keywords."""

_CUT: Final = "The input was cut off."
_UNSET: Final = object()


class ToolPart(CallFold):
    """A call, and the chunks that report it to the client.

    Args:
        record: Its `input_start`.
        turn: The turn in which it started.
        tool_call_id: A `toolCallId` that no other call of the message has.
        approval_id: The id that the client sends with a person's decision.
        dynamic: The part is a `dynamic-tool`, not a `tool-<name>`.
        sdk: The oldest version of the `ai` package that reads the stream.
        send: Receives the chunks.

    Attributes:
        has_output: True if the client has its result. No more chunks are sent.
    """

    def __init__(
        self,
        record: InputStartRecord,
        turn: int,
        *,
        tool_call_id: str,
        approval_id: str,
        dynamic: bool,
        sdk: int,
        send: Send,
    ) -> None:
        super().__init__(record["block"], record["id"], record["name"], record["kind"], turn, record["at_s"])
        self.given = record["input"]
        self.has_output = False
        self._id = {"toolCallId": tool_call_id}
        self._base: dict[str, Any] = {**self._id, **({"dynamic": True} if dynamic else {})}
        if self.is_server_side:
            self._base["providerExecuted"] = True
        self._approval_id = approval_id
        self._sdk = sdk
        self._send = send
        self._was_valid = False
        self._fragments: list[str] = []
        self._gauge = DepthGauge()
        self._is_hidden = False  # too deep to be shown while it grows
        self._progress: Any = _UNSET
        self._asked_client = False  # tool-approval-request was sent
        self._was_denied = False
        send("tool-input-start", **self._base, toolName=self.name)

    def feed(self, record: Record) -> bool:
        """Add a record of this call, and send its changes. Return True if it changed the call."""
        if not super().feed(record):
            return False
        match record["type"]:
            case "input_stop" if self.result is None:
                if self._progress is not _UNSET:
                    self._output(self._progress, preliminary=True)
                self._ask_client()
            case "tool_progress":
                self._progress = readable(self.progress)
                if self.outcome is not None:
                    self._output(self._progress, preliminary=True)
                else:
                    data = {**self._id, "progress": self._progress}
                    self._send("data-tool-progress", data=data, transient=True)
            case "approval_start":
                self._approval(state="requested")
                self._ask_client()
            case "approval_stop":
                self._was_denied = not record["approved"]
                known = {"reason": record["reason"]} if record["reason"] else {}
                self._approval(state="denied" if self._was_denied else "approved", **known)
                if self._sdk >= 7 and self._asked_client:
                    answer = {"approvalId": self._approval_id, "approved": record["approved"], **known}
                    self._send("tool-approval-response", **answer)
            case _:
                pass
        return True

    # --- the input ----------------------------------------------------------------------------------------------------

    def grow(self, record: InputDeltaRecord) -> None:
        """Add a delta to the input."""
        super().grow(record)
        if not (fragment := record["fragment"]):
            return
        self._fragments.append(fragment)
        self._is_hidden = self._is_hidden or self._gauge.feed(fragment) > MAX_DEPTH
        if not self._is_hidden:
            self._send("tool-input-delta", **self._id, inputTextDelta=fragment)

    def end_input(self, outcome: str, error: str | None = None, at_s: float | None = None) -> None:
        """End the input."""
        super().end_input(outcome, error, at_s)
        value = self._value() if outcome == "valid" else None
        if value is None:
            why = error or _CUT
            self._send("tool-input-error", **self._base, toolName=self.name, input=self._wrapped, errorText=why)
        else:
            self._was_valid = True
            self._fragments.clear()
            # A page shows it to the person who approves the call, and its numbers are doubles.
            self._send("tool-input-available", **self._base, toolName=self.name, input=readable(marked(value)))
        if self.result is not None:
            self._tell_result(self.result)

    def _value(self) -> dict[str, JSON] | None:
        """Return the valid input; None if it cannot be parsed (secrets in the record were masked)."""
        if self.omitted_chars:
            return {"omitted_chars": self.omitted_chars}
        if self.given is not None and not self._fragments:
            return self.given
        try:
            value = json.loads("".join(self._fragments) or "{}")
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    @property
    def _wrapped(self) -> dict[str, JSON]:
        """The form in which the history contains an input that is not JSON."""
        return {INVALID_JSON: "".join(self._fragments)}

    # --- the tool -----------------------------------------------------------------------------------------------------

    def answer(self, result: Result, at_s: float | None = None) -> None:
        """End the call with a result. The client gets it after the input has ended."""
        super().answer(result, at_s)
        if self.outcome is not None:
            self._tell_result(result)
        elif self.is_server_side:
            self.end_input("incomplete")

    def _tell_result(self, result: Result) -> None:
        content = result.content
        if self.has_output:
            return
        if self.is_server_side and isinstance(content, Mapping):
            # The block itself is the output, so that the history can be sent again.
            output = {name: value for name, value in content.items() if name != "tool_use_id"}
            if result.is_error:
                self._error(json.dumps(output))
            else:
                self._output(readable(output))
        elif self._was_denied and self._asked_client:
            self.has_output = True
            self._send("tool-output-denied", **self._id)
        elif result.is_error:
            self._error(_words(content))
        else:
            self._output(readable(content))

    def close_input(self, why: str = _CUT) -> None:
        """End an input that was cut."""
        if self.outcome is None:
            self.end_input("incomplete", why)

    def close(self, why: str) -> None:
        """End a call without a result, so that a page does not wait forever."""
        if not self.has_output:
            self.result = Result(self.block, why, is_error=True)
            self._error(why)

    def _error(self, why: str) -> None:
        self.has_output = True
        self._send("tool-output-error", **self._base, errorText=why)

    def _output(self, output: JSON, *, preliminary: bool = False) -> None:
        if not preliminary:
            self.has_output = True
            if not self._was_valid and "dynamic" not in self._base:
                self._send("tool-input-available", **self._base, toolName=self.name, input=self._wrapped)
        known = {"preliminary": True} if preliminary else {}
        self._send("tool-output-available", **self._base, output=output, **known)

    # --- approval -----------------------------------------------------------------------------------------------------

    def put_off(self) -> None:
        """Say that the call comes behind those about which a person is asked.

        A page that sends its decisions by itself waits until all calls of the message have an output or a decision.
        """
        if self.outcome is not None and not (self.is_asked or self.has_output or self.is_server_side):
            self._output({"waits": True}, preliminary=True)

    def ask(self) -> None:
        """Ask the client about a call that a journal keeps until somebody decides."""
        if self._was_valid and self.result is None and self.tool_start_s is None and not self.is_server_side:
            self.is_asked = True
            self._ask_client()

    def _ask_client(self) -> None:
        if self._sdk >= 6 and self.outcome is not None and self.is_asked and not self._asked_client:
            self._asked_client = True
            self._send("tool-approval-request", approvalId=self._approval_id, **self._id)

    def _approval(self, **state: Any) -> None:
        data = {"approvalId": self._approval_id, **self._id, **state}
        self._send("data-approval", id=f"approval-{self._approval_id}", data=data)


def _words(content: object) -> str:
    """Return an error result as text."""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return str(content) or "(an error without text)"
