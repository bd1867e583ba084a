"""`RunView`: the state of a run, built from its records, for code that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from eagerstream import apply_patch
from eagerstream._support.terms import error_code_of
from eagerstream._support.wording import clean, count_text, duration_text, gap_text, usage_texts

from ._diff import CallDiff
from ._fold import CallFold, CallPhase, Result, RunFold, SubRunFold
from ._lines import TextLines
from ._merge import repeated_fields
from ._record import InputDeltaRecord, InputStartRecord, Record

_QUIET_S: Final = 5
"""Seconds without anything of a response after which that is said."""

_OF_RESPONSES: Final = frozenset(
    {
        *("turn_start", "message_start", "block_start", "text_delta", "thinking_delta", "block_stop"),
        *("input_start", "input_delta", "input_stop"),
    }
)


@dataclass(slots=True, eq=False)
class CallView(CallFold):
    """One call, with its growing input. Times are seconds since the start of the run; None if it has not happened.

    Attributes:
        partial: The best-effort input. It grows in place.
        bytes: Size of the input's text so far, in UTF-8.
        fragments: Number of fragments of the input.
        finished: Names of the input's finished fields, in the order in which they finished.
        result_text: The result as text; empty if there is none.
        first_fragment_s, last_fragment_s: Times of the first and the last fragment.
        first_item_s: Time at which the first item of an array was known to be finished.
        first_field_s: Time at which the first field was finished.
        text_lines: The places of the lines in the texts that are shown with line numbers, by field.
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
    text_lines: dict[str, TextLines] = field(default_factory=dict, repr=False, init=False)
    _diff: CallDiff | None = field(default=None, repr=False, init=False)
    _raw: list[str] = field(default_factory=list, repr=False)
    _known: set[str] = field(default_factory=set, repr=False)  # the set of `finished`, which may be very long

    @property
    def raw(self) -> str:
        """The JSON text so far; O(length)."""
        self._raw = ["".join(self._raw)]
        return self._raw[0]

    @property
    def writing_s(self) -> float:
        """Seconds between the first fragment and the last."""
        if self.first_fragment_s is None or self.last_fragment_s is None:
            return 0.0
        return self.last_fragment_s - self.first_fragment_s

    @property
    def diff(self) -> CallDiff | None:
        """The diff of the text file that the call edits, up to now. None if it is not known; O(what is new)."""
        if self._diff is None and self.edits:
            self._diff = CallDiff(self.edits)
        is_known = self._diff is not None and self._diff.read(
            self.partial, self._known, is_valid=self.outcome == "valid"
        )
        return self._diff if is_known else None

    def grow(self, record: InputDeltaRecord) -> None:
        """Add a delta to the input.

        Raises:
            ValueError: The patch does not fit the input.
        """
        last_s = record.get("to_s", record["at_s"])
        omitted_chars = record.get("omitted_chars", 0)
        self.fragments += record.get("count", 1)
        self.bytes += len(record["fragment"].encode(errors="surrogatepass")) + omitted_chars
        self.last_fragment_s = last_s
        if self.first_fragment_s is None:
            self.first_fragment_s = record["at_s"]
        if self.omitted_chars or omitted_chars:  # the next fragments do not fit the kept ones
            self.omitted_chars: int = self.omitted_chars + (omitted_chars or len(record["fragment"]))
            self.partial = {}
            self.finished.clear()
            self._raw.clear()
        else:
            self._raw.append(record["fragment"])
            if record["patch"]:
                self.partial = apply_patch(self.partial, record["patch"])
                for name in repeated_fields(record["patch"]) & self._known:
                    self._known.remove(name)
                    self.finished.remove(name)
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


@dataclass(slots=True, eq=False)
class TextView:
    """A block of text or thinking, as far as it has come.

    Attributes:
        kind: `"text"` or `"thinking"`.
        turn: The number of its turn.
        chars: Its length.
        is_over: True if no more of it comes.
    """

    kind: str
    turn: int
    chars: int = 0
    is_over: bool = False
    _pieces: list[str] = field(default_factory=list, repr=False)

    @property
    def text(self) -> str:
        """The text so far; O(length)."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, text: str) -> None:
        """Add a piece."""
        self._pieces.append(text)
        self.chars += len(text)

    def tail(self, chars: int) -> str:
        """Return the last characters; the cost does not grow with the text."""
        pieces: list[str] = []
        missing = chars
        for piece in reversed(self._pieces):
            if missing <= 0:
                break
            pieces.append(piece)
            missing -= len(piece)
        return "".join(reversed(pieces))[-chars:]


class RunView(RunFold[CallView]):
    """The state of a run, built from its records: each call, and the time of each event.

    Calls and text of restarted responses are removed.

    Attributes:
        id, name, started_at: As in the first record.
        model: The model of the last response.
        turn: The current turn, from 1.
        calls: The calls in the order in which their inputs started.
        items: The same calls, and the texts, in the order in which they started.
        usage: The usage of the last response. After the end, the usage of the complete run.
        status: None until the run has ended.
        limit: The option whose bound has ended the run; None if none has.
        cost: The cost of the usage; None if it is not counted, and until the run has ended.
        error: Message of the error that ended the run, or of the last interruption.
        at_s: The time of the last record.
        quiet_since_s: The time of the request that is answered now, or of what came of its answer last; None between a
            response and the next request.
        ping_s: The time of the last sign of life of the API; None before the first.
        gaps: What is said about each gap after which the run was resumed.
    """

    def __init__(self) -> None:
        super().__init__(self._begin_call)
        self.name: str | None = None
        self.started_at: str = ""
        self.status: str | None = None
        self.usage: dict[str, Any] = {}
        self.limit: str | None = None
        self.cost: float | None = None
        self.error: str | None = None
        self.at_s: float = 0.0
        self.quiet_since_s: float | None = None
        self.ping_s: float | None = None
        self.gaps: list[str] = []
        self.calls: list[CallView] = []
        self.items: list[CallView | TextView] = []
        self._texts: dict[int, TextView] = {}  # of this turn, by block

    @property
    def text(self) -> str:
        """The text of all responses so far. Each turn starts on a new line; O(length)."""
        texts: dict[int, list[str]] = {}
        for item in self.items:
            if isinstance(item, TextView) and item.kind == "text":
                texts.setdefault(item.turn, []).append(item.text)
        return "\n".join("".join(pieces) for pieces in texts.values())

    def feed(self, record: Record) -> CallView | None:
        """Add one record. Return the call that it changed, if any."""
        self.at_s = max(self.at_s, record["at_s"])
        if record["type"] in _OF_RESPONSES:
            self.quiet_since_s = cast("dict[str, Any]", record).get("to_s") or record["at_s"]
        match record["type"]:
            case "ping":
                self.ping_s = record["at_s"]
            case "run_start":
                self.name, self.started_at = record["name"], record["started_at"]
            case "run_resumed":
                self.status = self.error = self.quiet_since_s = None
                self.gaps.append(gap_text(record["gap_s"]))
                for call in self.calls:
                    if not call.phase.is_final:
                        call.phase = CallPhase.CUT
            case "turn_start":
                self._texts.clear()
            case "restarted":
                self.quiet_since_s = record["at_s"] + record["delay_s"]
                self.error = record["error"]["text"] if record["error"] else None
            case "block_start" if record["kind"] in ("text", "thinking"):
                self._text_of(record["block"], record["kind"])
            case "text_delta":
                self._text_of(record["block"], "text").add(record["text"])
            case "thinking_delta":
                self._text_of(record["block"], "thinking").add(record["thinking"])
            case "block_stop" if record["block"] in self._texts:
                self._texts[record["block"]].is_over = True
            case "message_stop":
                self.quiet_since_s = None
                self.usage = record["usage"]
            case "turn_stop":
                self.quiet_since_s = None
            case "run_stop":
                self.quiet_since_s = None
                self.status, self.limit, self.cost = record["status"], record.get("limit"), record.get("cost")
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
        """Remove the calls and the text of this turn."""
        super().void()
        self._texts.clear()
        self.calls = [call for call in self.calls if call.turn != self.turn]
        self.items = [item for item in self.items if item.turn != self.turn]

    def _text_of(self, block: int, kind: str) -> TextView:
        text = self._texts.get(block)
        if text is None:
            text = self._texts[block] = TextView(kind, self.turn)
            self.items.append(text)
        return text

    def _begin_call(self, record: InputStartRecord) -> CallView:
        call = CallView(record["block"], record["id"], record["name"], record["kind"], self.turn, record["at_s"])
        call.partial = record["input"] or {}
        self.calls.append(call)
        self.items.append(call)
        return call


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in (content if isinstance(content, list) else [content]) if isinstance(block, Mapping)]
    texts = [str(block.get("text")) if block.get("type") == "text" else f"[{block.get('type')}]" for block in blocks]
    return "\n".join(texts)


def quiet_text(view: RunView, now_s: float) -> str | None:
    """Return what is said of a silence in the response that is awaited: a model that thinks, or a dead connection.

    None while something comes, and if no response is awaited.
    """
    if view.quiet_since_s is None or now_s - view.quiet_since_s < _QUIET_S:
        return None
    text = f"quiet for {duration_text(int(now_s - view.quiet_since_s))}"
    if view.ping_s is not None and view.ping_s > view.quiet_since_s:
        text += f", alive {duration_text(int(now_s - view.ping_s))} ago"
    return text


def thinking_text(text: TextView) -> str:
    """Return what is said of thinking that has ended."""
    return f"thinking  {count_text(text.chars, 'character')}"


def sub_run_text(sub_run: SubRunFold) -> str:
    """Return a sub-run in one line, without control characters."""
    parts = [clean(sub_run.model, 60), clean(sub_run.status, 40)]
    if sub_run.usage:
        parts += [count_text(sub_run.turns, "turn"), *usage_texts(sub_run.usage)]
    return " · ".join(parts)
