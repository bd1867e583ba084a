"""A second reading of tool inputs, from the events of a response: all of it again at each event, without any haste."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .reading_json import Reading

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_PROOF: Final = ("tool_use", "end_turn", "pause_turn", "tool_calls", "function_call", "stop", "STOP")
"""Stop reasons of a model that came to the end by itself, in this API and in others."""
_CUT: Final = (
    "max_tokens", "stop_sequence", "refusal", "model_context_window_exceeded", "length", "content_filter",
    "MAX_TOKENS", "SAFETY",
)  # fmt: skip


@dataclass
class Call:
    """A call of the message.

    Attributes:
        block: Its start.
        order: Place in the message.
        texts: Its fragments.
        lacks: True if a fragment is known to be lost.
        is_closed: True after its `content_block_stop`.
        outcome: None until it is known.
    """

    block: dict[str, Any]
    order: int
    texts: list[str] = field(default_factory=list)
    lacks: bool = False
    is_closed: bool = False
    outcome: str | None = None

    @property
    def raw(self) -> str:
        """The text so far."""
        return "".join(self.texts)

    @property
    def proves_nothing(self) -> bool:
        """True if there is no text: its end may come although the input was cut."""
        return not self.raw and not self.lacks and self.block.get("input") in ({}, None)


class Message:
    """The inputs of a message.

    Attributes:
        calls: In the order of their blocks.
        stop_reason: None until known.
        effects: For each event read, the ids that may start, and the outcomes that it settled.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.stop_reason: str | None = None
        self.effects: list[tuple[list[str], list[dict[str, str]]]] = []
        self._by_index: dict[int, Call | None] = {}  # the newest block of each index; None for no call
        self._early: set[int] = set()  # indexes of fragments that came before their block
        self._reason_is_early = False
        self._is_over = False
        self._id: Any = None
        self._repeated: dict[str, Any] | None = None

    def read(self, event: dict[str, Any]) -> None:
        """Read an event."""
        self.effects.append(([], []))
        if self._is_over:
            return
        match event["type"]:
            case "message_start":
                self._begin(event.get("message") or {})
            case "content_block_start":
                self._settle_closed(whole=True)
                self._open(event)
            case "content_block_delta":
                self._take(event.get("index"), event.get("delta"))
            case "content_block_stop":
                self._close(event.get("index"))
            case "message_delta":
                reason = event["delta"].get("stop_reason")
                if reason is not None:
                    self.stop_reason, self._reason_is_early = reason, False
                    self._settle_closed(whole=reason in _PROOF)
                    if reason in _PROOF:
                        self._settle_complete()
            case "message_stop":
                self._id = None
                self._settle_closed(whole=self.stop_reason in _PROOF)
                if self.stop_reason not in _CUT:
                    self._settle_complete(also_empty=self.stop_reason in _PROOF)
                self._cut()
            case "error":
                self._break_off()
                self._is_over = True
            case _:
                pass

    def end(self) -> None:
        """Read the end of the body."""
        self.effects.append(([], []))
        if self._is_over:
            return
        still = [one for one in self.calls if one.outcome is None and not one.is_closed]
        if self.stop_reason in _PROOF and not self._reason_is_early and all(one.proves_nothing for one in still):
            self._settle_closed(whole=True)
            self._settle_complete(also_empty=True)  # the body ended behind the model's own end
        self._break_off()

    def _break_off(self) -> None:
        self._settle_closed(whole=self.stop_reason in _PROOF and not self._reason_is_early)
        self._cut()

    def inputs(self) -> Iterator[dict[str, Any]]:
        """Yield the inputs of the message, as a case expects them."""
        for one in sorted(self.calls, key=lambda one: one.order):
            block = one.block
            told = {"id": block["id"], "name": block["name"], "type": block["type"], "outcome": one.outcome}
            value = json.loads(one.raw) if one.raw.strip() and one.outcome == "valid" else block.get("input") or {}
            yield {**told, "raw": one.raw, **({"value": value} if one.outcome == "valid" else {})}

    def _begin(self, message: dict[str, Any], *, anew: bool = False) -> None:
        if not anew and message.get("id") and message.get("id") == self._id and not message.get("content"):
            self._repeated = message
            return
        self._id = message.get("id")
        self._settle_closed(whole=self.stop_reason in _PROOF)
        self._cut()
        self.calls, self._by_index, self._early = [], {}, set()
        self.stop_reason = None
        for index, block in enumerate(message.get("content") or []):
            self._settle_closed(whole=True)
            self._open({"index": index, "content_block": block})
            self._close(index)
        self.stop_reason = message.get("stop_reason")
        self._reason_is_early = self.stop_reason is not None
        if self._reason_is_early:
            self._settle_closed(whole=self.stop_reason in _PROOF)

    def _open(self, event: dict[str, Any]) -> None:
        index, block = event.get("index"), event.get("content_block")
        if not isinstance(index, int) or not isinstance(block, dict):
            return
        repeated, self._repeated = self._repeated, None
        if repeated is not None and index in self._by_index:
            self._begin(repeated, anew=True)
        old = self._by_index.get(index)
        if old is not None and not old.is_closed and old.outcome is None:
            self._settle(old, whole=True)
        one = Call(block, len(self._by_index) + len(self.calls) if index in self._by_index else index)
        self._by_index[index] = one if block.get("type") in _CALLS else None
        if block.get("type") in _CALLS:
            one.lacks = index in self._early
            self.calls.append(one)

    def _take(self, index: Any, delta: Any) -> None:
        kind = delta.get("type") if isinstance(delta, dict) else None
        if kind not in (None, "input_json_delta"):
            return
        text = delta.get("partial_json") if isinstance(delta, dict) else None
        one = self._by_index.get(index) if isinstance(index, int) else None
        waiting = [each for each in self.calls if each.outcome is None]
        if text == "":
            return
        if isinstance(text, str) and one is not None and not one.is_closed and one.outcome is None:
            one.texts.append(text)
            self._settle_closed(whole=True)
        elif not isinstance(index, int):
            for each in waiting:
                each.lacks = True
        elif index in self._by_index:  # of a known block: only that one may lack it
            if one is not None and one.outcome is None:
                one.lacks = True
        else:  # of a block that never started, or with a wrong index: then an input without a text may lack it
            self._early.add(index)
            for each in waiting:
                each.lacks = each.lacks or each.proves_nothing

    def _close(self, index: Any) -> None:
        one = self._by_index.get(index) if isinstance(index, int) else None
        if one is not None and one.outcome is None and not one.is_closed:
            one.is_closed = True
            if not one.proves_nothing:
                self._settle(one, whole=True)

    def _settle_closed(self, *, whole: bool) -> None:
        for one in self.calls:
            if one.is_closed and one.outcome is None:
                self._settle(one, whole=whole)

    def _settle_complete(self, *, also_empty: bool = False) -> None:
        """Settle the calls whose blocks are open, and whose objects are complete: they are no prefix of another."""
        for one in self.calls:
            given = one.block.get("input")
            is_complete = _outcome(one.raw, given, whole=bool(one.raw or given or also_empty)) == "valid"
            if one.outcome is None and is_complete and not one.lacks:
                self._settle(one, whole=True)

    def _cut(self) -> None:
        for one in self.calls:
            if one.outcome is None:
                self._settle(one, whole=False)

    def _settle(self, one: Call, *, whole: bool) -> None:
        one.outcome = "invalid" if one.lacks else _outcome(one.raw, one.block.get("input"), whole=whole)
        may_start, settled = self.effects[-1]
        settled.append({"id": one.block["id"], "outcome": one.outcome})
        if one.outcome == "valid" and one.block["type"] == "tool_use":
            may_start.append(one.block["id"])


def _outcome(raw: str, given: Any, *, whole: bool) -> str:
    if given is not None and not isinstance(given, dict) and (not raw or given not in ("", [])):
        return "invalid"  # an empty list or text may be a placeholder
    if not raw:
        return "valid" if whole else "incomplete"
    first = raw.lstrip(" \t\n\r")[:1]
    state = Reading(raw).state
    if first not in ("", "{") or state == "invalid":
        return "invalid"
    if state == "partial":
        return "incomplete"
    if not _can_be_sent(json.loads(raw)):
        return "invalid"
    return "valid" if whole else "incomplete"


def _can_be_sent(value: Any) -> bool:
    """Return False for a number beyond doubles, and for two keys that only lone surrogates tell apart."""
    if isinstance(value, dict):
        keys = {key.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for key in value}
        return len(keys) == len(value) and all(map(_can_be_sent, value.values()))
    if isinstance(value, list):
        return all(map(_can_be_sent, value))
    return not (isinstance(value, float) and math.isinf(value))


def effects_of(events: Sequence[dict[str, Any]]) -> tuple[Message, list[tuple[list[str], list[dict[str, str]]]]]:
    """Read a response; return its message, and the effects of each event and of the end."""
    message = Message()
    for event in events:
        message.read(event)
    message.end()
    return message, message.effects
