"""`RunView`: the state of a run as its records tell it, for those who show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..wire import apply_patch, error_code_of
from ._fold import CallFold, CallPhase, Result, RunFold
from ._record import InputDeltaRecord, InputStartRecord, Record


@dataclass(slots=True, eq=False)
class CallView(CallFold):
    """One call, with its input as it is being written. Times are seconds since the run began; None: has not happened.

    Attributes:
        partial: The best-effort input; grows in place.
        bytes: The text of the input so far, in UTF-8.
        fragments: How many pieces it came in.
        finished: Fields of the input that are finished, in the order in which they were.
        result_text: The result as text, where there is one.
        first_item_s: When the first item of an array was known to be finished.
    """

    partial: dict[str, Any] = field(default_factory=dict, repr=False)
    bytes: int = 0
    fragments: int = 0
    finished: list[str] = field(default_factory=list, repr=False)
    result_text: str = field(default="", repr=False)
    first_fragment_s: float | None = None
    last_fragment_s: float | None = None
    first_item_s: float | None = None
    first_field_s: float | None = None
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

    def answer(self, result: Result, at_s: float | None = None) -> None:
        """End the call with a result."""
        CallFold.answer(self, result, at_s)
        block = result.content
        self.result_text = (
            error_code_of(block) or _text_of(block.get("content")) if self.is_server_side else _text_of(block)
        )


class RunView(RunFold[CallView]):
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
        super().__init__(self._begin_call)
        self.name: str | None = None
        self.started_at = ""
        self.status: str | None = None
        self.usage: dict[str, Any] = {}
        self.error: str | None = None
        self.at_s = 0.0
        self.calls: list[CallView] = []
        self._text = ""  # of the turns before this one
        self._turn_text: list[str] = []

    @property
    def text(self) -> str:
        """All text of the replies so far, each turn's on a line of its own; O(length)."""
        self._turn_text = ["".join(self._turn_text)]
        return self._text + self._turn_text[0]

    def feed(self, record: Record) -> CallView | None:
        """Take in one record; return the call that it changed, if it changed one."""
        self.at_s = max(self.at_s, record["at_s"])
        match record["type"]:
            case "run_start":
                self.name, self.started_at = record["name"], record["started_at"]
            case "turn_start":
                self._text = self.text + ("\n" if self.turn else "")
                self._turn_text.clear()
            case "restarted":
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
            case _:
                pass
        return super().feed(record)

    def void(self) -> None:
        """Forget the calls and the text of this turn."""
        super().void()
        self._turn_text.clear()
        self.calls = [call for call in self.calls if call.turn != self.turn]

    def _begin_call(self, record: InputStartRecord) -> CallView:
        call = CallView(record["block"], record["id"], record["name"], record["kind"], self.turn, record["at_s"])
        call.partial = record["input"] or {}
        self.calls.append(call)
        return call


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in (content if isinstance(content, list) else [content]) if isinstance(block, Mapping)]
    texts = [str(block.get("text")) if block.get("type") == "text" else f"[{block.get('type')}]" for block in blocks]
    return "\n".join(texts)
