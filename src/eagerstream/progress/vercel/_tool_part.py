"""`ToolPart`: one call of a tool in a UI message, and the chunks that bring the client's part of it up to date.

What the client's reader does with a chunk decides where a form is ambiguous:

* It finds a part by its `toolCallId` and, in version 5, by `dynamic`, which therefore stands on every chunk of a call.
* Each `tool-input-delta` sets the part back to `input-streaming` and takes its output away, and so does the end of the
  input. What a tool says before that goes out as transient `data-tool-progress`, and its result waits.
* The input of a static part that was invalid moves to `rawInput`, and is forgotten where an output comes: then it is
  told once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...wire import INVALID_JSON, JSON, is_error_result
from .._exact import marked
from ._values import MAX_DEPTH, DepthGauge, readable

Send: TypeAlias = Callable[..., None]
"""Takes a chunk: its type, and its fields as keywords."""

_CUT: Final = "The input was cut off."
_UNSET: Final = object()


class ToolPart:
    """Fed with the records of one call.

    Args:
        record: Its `input_start`.
        tool_call_id: A `toolCallId` that no other call of the message has.
        approval_id: By which the client tells what a person decided.
        dynamic: The part is a `dynamic-tool`, not a `tool-<name>`.
        sdk: The oldest version of the `ai` package that reads the stream.
        send: Gets the chunks.

    Attributes:
        is_of_server: The API runs it.
        has_result: Nothing more is sent.
    """

    def __init__(
        self,
        record: Mapping[str, Any],
        *,
        tool_call_id: str,
        approval_id: str,
        dynamic: bool,
        sdk: int,
        send: Send,
    ) -> None:
        self.is_of_server: bool = record["kind"] != "tool_use"
        self.has_result = False
        self._given: dict[str, JSON] | None = record["input"]
        self._name: str = record["name"]
        self._id = {"toolCallId": tool_call_id}
        self._base: dict[str, Any] = {**self._id, **({"dynamic": True} if dynamic else {})}
        if self.is_of_server:
            self._base["providerExecuted"] = True
        self._approval_id = approval_id
        self._sdk = sdk
        self._send = send
        self._has_ended = False  # the input
        self._was_valid = False
        self._fragments: list[str] = []
        self._omitted_chars = 0  # of the input, which the log does not keep any more
        self._gauge = DepthGauge()
        self._is_hidden = False  # too deep to be shown growing
        self._progress: Any = _UNSET
        self._result: Mapping[str, Any] | None = None  # that waits for the end of the input
        self._is_asked = False  # a person, who has not answered yet
        self._asked_client = False  # tool-approval-request was sent
        self._was_denied = False
        send("tool-input-start", **self._base, toolName=self._name)

    # --- the input ----------------------------------------------------------------------------------------------------

    def input_delta(self, record: Mapping[str, Any]) -> None:
        """More of the input."""
        if self._has_ended:
            return
        self._omitted_chars += record.get("omitted_chars", 0)
        if not (fragment := record["fragment"]):
            return
        self._fragments.append(fragment)
        self._is_hidden = self._is_hidden or self._gauge.feed(fragment) > MAX_DEPTH
        if not self._is_hidden:
            self._send("tool-input-delta", **self._id, inputTextDelta=fragment)

    def input_stop(self, record: Mapping[str, Any]) -> None:
        """The input has ended."""
        if self._has_ended:
            return
        value = self._value() if record["outcome"] == "valid" else None
        if value is None:
            self._invalid(record.get("error") or _CUT)
        else:
            self._has_ended = self._was_valid = True
            self._fragments.clear()
            # A page shows it to whoever approves the call, and its numbers are doubles.
            self._send("tool-input-available", **self._base, toolName=self._name, input=readable(marked(value)))
        if self._result is not None:
            self.tool_stop(self._result)
            return
        if self._progress is not _UNSET:
            self._output(self._progress, preliminary=True)
        self._ask_client()

    def _value(self) -> dict[str, JSON] | None:
        """The input that ended valid; None where it cannot be told (a record in which secrets were masked)."""
        if self._omitted_chars:
            return {"omitted_chars": self._omitted_chars}
        if self._given is not None and not self._fragments:
            return self._given
        try:
            value = json.loads("".join(self._fragments) or "{}")
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def _invalid(self, why: str) -> None:
        self._has_ended = True
        self._send("tool-input-error", **self._base, toolName=self._name, input=self._wrapped, errorText=why)

    @property
    def _wrapped(self) -> dict[str, JSON]:
        """As an input that is not JSON stands in the history."""
        return {INVALID_JSON: "".join(self._fragments)}

    # --- the tool -----------------------------------------------------------------------------------------------------

    def tool_progress(self, record: Mapping[str, Any]) -> None:
        """The tool says something."""
        if self.has_result:
            return
        self._progress = readable(record["value"])
        if self._has_ended:
            self._output(self._progress, preliminary=True)
        else:
            self._send("data-tool-progress", data={**self._id, "progress": self._progress}, transient=True)

    def tool_stop(self, record: Mapping[str, Any]) -> None:
        """The call has its result."""
        if self.has_result:
            return
        if not self._has_ended:
            self._result = record
        elif self._was_denied and self._asked_client:
            self.has_result = True
            self._send("tool-output-denied", **self._id)
        elif record["is_error"]:
            self._error(_words(record["content"]))
        else:
            self._output(readable(record["content"]))

    def server_result(self, block: Mapping[str, Any]) -> None:
        """The block itself is the output: with it the history can be sent again."""
        if not self._has_ended:
            self._invalid(_CUT)
        output = {name: value for name, value in block.items() if name != "tool_use_id"}
        if is_error_result(block):
            self._error(json.dumps(output))
        else:
            self._output(readable(output))

    def close_input(self, why: str = _CUT) -> None:
        """Nothing more of the input comes."""
        if not self._has_ended:
            self._invalid(why)
            if self._result is not None:
                self.tool_stop(self._result)

    def close(self, why: str) -> None:
        """No result comes; a page must not wait for ever."""
        if not self.has_result:
            self._error(why)

    def _error(self, why: str) -> None:
        self.has_result = True
        self._send("tool-output-error", **self._base, errorText=why)

    def _output(self, output: JSON, *, preliminary: bool = False) -> None:
        if not preliminary:
            self.has_result = True
            if not self._was_valid and "dynamic" not in self._base:
                self._send("tool-input-available", **self._base, toolName=self._name, input=self._wrapped)
        known = {"preliminary": True} if preliminary else {}
        self._send("tool-output-available", **self._base, output=output, **known)

    # --- approval -----------------------------------------------------------------------------------------------------

    def approval_start(self) -> None:
        """A person is asked."""
        if not self.has_result:
            self._is_asked = True
            self._approval(state="requested")
            self._ask_client()

    def approval_stop(self, record: Mapping[str, Any]) -> None:
        """It was decided."""
        if not self._is_asked or self.has_result:
            return
        self._is_asked = False
        approved, reason = record["approved"], record.get("reason")
        self._was_denied = not approved
        known = {"reason": reason} if reason else {}
        self._approval(state="approved" if approved else "denied", **known)
        if self._sdk >= 7 and self._asked_client:
            self._send("tool-approval-response", approvalId=self._approval_id, approved=approved, **known)

    def _ask_client(self) -> None:
        if self._sdk >= 6 and self._has_ended and self._is_asked and not self._asked_client:
            self._asked_client = True
            self._send("tool-approval-request", approvalId=self._approval_id, **self._id)

    def _approval(self, **state: Any) -> None:
        data = {"approvalId": self._approval_id, **self._id, **state}
        self._send("data-approval", id=f"approval-{self._approval_id}", data=data)


def _words(content: object) -> str:
    """An error result as text."""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, Mapping))
        content = "\n".join(text for text in texts if isinstance(text, str))
    return str(content) or "(an error without words)"
