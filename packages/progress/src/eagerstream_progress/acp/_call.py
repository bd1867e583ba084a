"""`EditorCall`: one call of a run, and the session updates that show it in an editor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from eagerstream import JSON
from eagerstream._support.json_values import encodable

from .._fold import Result
from .._merge import repeated_fields, text_size
from .._record import InputDeltaRecord, InputStartRecord, Record
from .._view import CallView
from ._content import MAX_TEXT_CHARS, progress_content, result_contents, shown, text_content
from ._tools import ACPTool, Places, title_of

Send: TypeAlias = Callable[..., None]
"""Takes an update: its type, and its fields as keywords."""

GROWTH: Final = 4
"""Fraction by which an input must have grown before it is sent again. ACP has no patches, so each time the complete
value is sent. In total that is at most five times the input, compared with the square of its length otherwise.
"""

MIN_GROWTH_BYTES: Final = 16
"""Minimum growth of an input between two updates."""

MAX_PARTIAL_BYTES: Final = 64 * 1024
"""Maximum size of an input that is shown while it grows. A larger one is sent once more, at its end. The growing
values of one call are therefore at most 320 KiB of JSON, whatever its size.
"""


class EditorCall(CallView):
    """A call, and the updates that report it.

    Only finished fields become paths, titles and diffs. If a key comes twice, its field counts as finished at the end
    of a valid input, because a value that was finished is growing again.

    Args:
        record: Its `input_start`.
        turn: The turn in which it started.
        tool_call_id: A `toolCallId` that no other call of the session has.
        tool_of: Returns the way to show the call, from its finished fields.
        places: The folders in which files may be shown.
        send: Receives the updates.

    Attributes:
        has_ended: True if the editor knows its end. No more updates are sent.
    """

    def __init__(
        self,
        record: InputStartRecord,
        turn: int,
        *,
        tool_call_id: str,
        tool_of: Callable[[Mapping[str, JSON]], ACPTool],
        places: Places,
        send: Send,
    ) -> None:
        super().__init__(record["block"], record["id"], record["name"], record["kind"], turn, record["at_s"])
        self.partial = record["input"] or {}
        self.has_ended = False
        self._id = {"toolCallId": tool_call_id}
        self._tool_of = tool_of
        self._places = places
        self._send = send
        self._repeated: set[str] = set()
        self._diffs: list[dict[str, Any]] = []
        self._is_dirty = False
        self._sent_bytes = 0
        self._sent = self._look()  # the title, the kind and the locations that the editor has
        self._send("tool_call", **self._id, **self._sent, status="pending")

    @property
    def question(self) -> dict[str, Any]:
        """The call as a question for permission shows it. It has all fields: the person may see nothing else of it."""
        update = {**self._id, **self._look(), "status": "pending", "rawInput": shown(self.partial)}
        return update | ({"content": self._diffs} if self._diffs else {})

    def feed(self, record: Record) -> bool:
        """Add a record of this call, and send its changes. Return True if it changed the call."""
        if not super().feed(record):
            return False
        match record["type"]:
            case "tool_start":
                self._update(status="in_progress")
            case "tool_progress" if not self._diffs:  # contents are replaced: the diffs would be sent each time
                self._update(content=[progress_content(self.progress)])
            case _:
                pass
        return True

    def grow(self, record: InputDeltaRecord) -> None:
        """Add a delta to the input."""
        super().grow(record)
        self._repeated |= repeated_fields(record["patch"])
        self._is_dirty = True

    def flush(self) -> None:
        """Send what the last deltas have changed, if it is worth an update."""
        if not self._is_dirty or self.outcome is not None:
            return
        self._is_dirty = False
        look = self._look()
        fields = {name: value for name, value in look.items() if value != self._sent.get(name)}
        self._sent = look
        grown = self.bytes - self._sent_bytes
        if grown >= max(MIN_GROWTH_BYTES, self._sent_bytes // GROWTH) and self.bytes <= MAX_PARTIAL_BYTES:
            self._sent_bytes = self.bytes
            fields["rawInput"] = shown(self.partial)
        if fields:
            self._update(**fields)

    def end_input(self, outcome: str, error: str | None = None, at_s: float | None = None) -> None:
        """End the input."""
        super().end_input(outcome, error, at_s)
        if self.has_ended:
            return
        fields = self._fields
        if outcome == "valid":
            diffs = self._places.diffs(self._tool_of(fields), fields)
            self._diffs = encodable(diffs) if text_size(diffs) <= MAX_TEXT_CHARS else []
        omitted = {"rawInput": shown(self.partial)} if not self.omitted_chars else {}
        status = {"status": "in_progress"} if self.is_server_side and outcome == "valid" else {}
        self._update(**self._look(), **omitted, **status, **({"content": self._diffs} if self._diffs else {}))

    def answer(self, result: Result, at_s: float | None = None) -> None:
        """End the call with a result."""
        super().answer(result, at_s)
        self._end(result_contents(result.content), is_error=result.is_error)

    def close(self, why: str) -> None:
        """End a call without a result, so that an editor does not show it as running forever."""
        self._end([text_content(why)], is_error=True)

    def _end(self, contents: list[dict[str, Any]], *, is_error: bool) -> None:
        if not self.has_ended:
            self._update(status="failed" if is_error else "completed", content=[*self._diffs, *contents])
            self.has_ended = True

    def _update(self, **fields: Any) -> None:
        if not self.has_ended:
            self._send("tool_call_update", **self._id, **fields)

    @property
    def _fields(self) -> Mapping[str, JSON]:
        """The finished fields."""
        if self.outcome == "valid" or self._is_given:
            return self.partial
        # The names that matter are few, and an input may have very many fields.
        return _Finished(self.partial, self._known, self._repeated)

    @property
    def _is_given(self) -> bool:
        """True if the input came complete at its start."""
        return not self.fragments

    def _look(self) -> dict[str, Any]:
        """Return the title, the kind and the locations, from the finished fields."""
        fields = self._fields
        tool = self._tool_of(fields)
        names = tool.paths if tool.title is None else [tool.title]
        text = next((value for value in map(fields.get, names) if isinstance(value, str)), "")
        locations = self._places.locations(tool, fields)
        look = {"title": title_of(self.name, text), "kind": tool.kind}
        return look | ({"locations": locations} if locations else {})


class _Finished(Mapping[str, JSON]):
    """The finished fields of a growing input."""

    def __init__(self, partial: Mapping[str, JSON], finished: set[str], repeated: set[str]) -> None:
        self._partial, self._finished, self._repeated = partial, finished, repeated

    def __getitem__(self, name: str) -> JSON:
        if name in self._repeated or name not in self._finished:
            raise KeyError(name)
        return self._partial[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._partial if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
