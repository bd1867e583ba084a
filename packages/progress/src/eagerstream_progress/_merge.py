"""Fewer records with the same content: the deltas of a block become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, cast

from eagerstream import apply_patch, copy_json, merge_patches, steps_of

from ._record import Record

DELTA_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_delta": "fragment"}
"""Maps the type of a delta to the field that has its text."""

_CONTENTS: Final = {
    "block_stop": "content",
    "edit": "context",
    "input_start": "input",
    "tool_progress": "value",
    "tool_stop": "content",
    "unknown": "event",
}
"""Maps the type of another record to the field that may be large."""

OVERHEAD_CHARS: Final = 200
"""Size of a record without its texts, roughly."""


def size(record: Record) -> int:
    """Return the number of characters in a record, roughly."""
    fields: Mapping[str, Any] = record
    text = DELTA_TEXTS.get(record["type"])
    if text is not None:
        return OVERHEAD_CHARS + 2 * len(fields[text])  # the patch of an input's delta contains the text again
    content = _CONTENTS.get(record["type"])
    chars = OVERHEAD_CHARS if content is None else OVERHEAD_CHARS + text_size(fields[content])
    return chars + text_size(fields["data"]) if "data" in fields else chars


def text_size(value: Any) -> int:
    """Return the number of characters in a JSON value or in its text, roughly."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
            continue
        total += 8  # containers too: even empty ones take memory
        if isinstance(item, dict):
            total += sum(map(len, item))
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return total


def last_seq(record: Record) -> int:
    """Return the number of the last record that was merged into this one."""
    return cast("dict[str, Any]", record).get("to_seq") or record["seq"]


def merge_records(records: Iterable[Record]) -> list[Record]:
    """Merge the deltas of each block at the place of its first, for readers that get all records at once."""
    places: dict[int, list[dict[str, Any]]] = {}
    merged: list[Any] = []
    for record in records:
        if record["type"] not in DELTA_TEXTS:
            merged.append(record)
            continue
        delta = cast("dict[str, Any]", record)
        run = places.get(delta["block"])
        if run is None:
            run = places[delta["block"]] = []
            merged.append(run)
        run.append(delta)
    return [_joined(entry) if isinstance(entry, list) else entry for entry in merged]


def _joined(deltas: list[dict[str, Any]]) -> Record:
    first, last = deltas[0], deltas[-1]
    if len(deltas) == 1:
        return cast("Record", first)
    if any(delta.get("omitted_chars") for delta in deltas):  # deltas after an omitted text cannot be applied
        whole = _Delta(first)
        for delta in deltas:
            whole.add(delta)
        return whole.record()
    text = DELTA_TEXTS[first["type"]]
    joined = {
        **first,
        text: "".join(delta[text] for delta in deltas),
        "to_seq": last.get("to_seq") or last["seq"],
        "to_s": last.get("to_s") or last["at_s"],
        "count": sum(delta.get("count", 1) for delta in deltas),
    }
    if first["type"] == "input_delta":
        joined["patch"] = merge_patches(delta["patch"] for delta in deltas)
        joined["finished"] = []
        for delta in deltas:
            add_finished(joined["finished"], delta)
    return cast("Record", joined)


def repeated_fields(patch: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the names of the input's fields whose values a patch replaces, because their keys came twice.

    Such a field was finished, and may be growing again. Code that acts on finished fields waits for the input's end.
    """
    paths = [op["path"] for op in patch if op["op"] == "replace"]
    return {steps_of(path)[0] for path in paths if path.count("/") == 1}


def add_finished(finished: list[str], delta: Mapping[str, Any]) -> None:
    """Add the finished fields of one more delta. One that begins again must end there, too."""
    if again := repeated_fields(delta["patch"]):
        finished[:] = [name for name in finished if name not in again]
    finished += delta["finished"]


def in_parts(records: Iterable[Record], max_chars: int) -> Iterator[list[Record]]:
    """Yield the same records in parts of about `max_chars` characters.

    Long texts and thinking are cut into several deltas. A writer that expands each record holds one part instead of a
    complete snapshot.
    """
    return grouped(chain.from_iterable(_cut(cast("dict[str, Any]", each), max_chars) for each in records), max_chars)


def grouped(records: Iterable[Record], max_chars: int) -> Iterator[list[Record]]:
    """Yield whole records in groups of at least `max_chars` characters, except for the last."""
    group: list[Record] = []
    chars = 0
    for record in records:
        group.append(record)
        chars += size(record)
        if chars >= max_chars:
            yield group
            group, chars = [], 0
    if group:
        yield group


def _cut(record: dict[str, Any], max_chars: int) -> Iterator[Record]:
    name = DELTA_TEXTS.get(record["type"])
    if name is None or name == "fragment" or len(record[name]) <= max_chars:
        yield cast("Record", record)
        return
    text = record[name]
    for start in range(0, len(text), max_chars):
        yield cast("Record", {**record, name: text[start : start + max_chars]})


class _Delta:
    """All deltas of one block so far."""

    __slots__ = (
        *("chars", "count", "finished", "first", "has_value", "is_omitted", "omitted_chars", "texts"),
        *("to_s", "to_seq", "value"),
    )

    def __init__(self, first: dict[str, Any]) -> None:
        self.first = first
        self.chars = 0  # its size, roughly: the value of an input contains the text again
        self.texts: list[str] = []
        self.value: Any = None
        self.has_value = False
        self.finished: list[str] = []
        self.is_omitted = False
        self.omitted_chars = 0
        self.count = 0
        self.to_seq = 0
        self.to_s = 0.0

    def add(self, delta: dict[str, Any]) -> None:
        self.count += delta.get("count", 1)
        self.to_seq = delta.get("to_seq") or delta["seq"]
        self.to_s = delta.get("to_s") or delta["at_s"]
        text = delta[DELTA_TEXTS[delta["type"]]]
        if delta.get("omitted_chars"):
            self.omit()
            self.omitted_chars += delta["omitted_chars"]
        if self.is_omitted:
            self.omitted_chars += len(text)
            return
        self.texts.append(text)
        self.chars += 2 * len(text)
        if delta["type"] == "input_delta":
            add_finished(self.finished, delta)
            if delta["patch"]:
                self.value = apply_patch(self.value, delta["patch"])
                self.has_value = True

    def omit(self) -> None:
        self.is_omitted = True
        self.omitted_chars += sum(map(len, self.texts))
        self.texts.clear()
        self.finished.clear()
        self.chars = 0
        self.value = None
        self.has_value = False

    def record(self) -> Record:
        text = "".join(self.texts)
        self.texts = [text]
        name = DELTA_TEXTS[self.first["type"]]
        record = {**self.first, name: text, "to_seq": self.to_seq, "to_s": self.to_s, "count": self.count}
        if self.omitted_chars:
            record["omitted_chars"] = self.omitted_chars
        if self.first["type"] == "input_delta":
            value = copy_json(self.value)
            record["patch"] = [{"op": "add", "path": "", "value": value}] if self.has_value else []
            record["finished"] = list(self.finished)
        return cast("Record", record)


class MergedRecords:
    """The records of a run with the deltas of each block merged, without void records and outdated progress.

    Args:
        max_chars: Maximum size. Above it, the texts of the oldest records are omitted.

    Attributes:
        chars: Number of characters in the records, roughly.
    """

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self.chars = 0
        self._entries: list[Any] = []  # records and `_Delta`s; None for a removed one
        self._deltas: dict[int, _Delta] = {}  # by block
        self._progress: dict[int, int] = {}  # block to the index of its newest progress
        self._stop: int | None = None  # index of the end of the run, which another process may continue
        self._turn = 0  # index of the first record of this turn
        self._omitted = 0  # the texts of all earlier entries are omitted

    def add(self, record: Record) -> None:
        """Add the next record; O(its length)."""
        fields = cast("dict[str, Any]", record)
        if record["type"] in DELTA_TEXTS:
            delta = self._deltas.get(fields["block"])
            if delta is None:
                delta = self._deltas[fields["block"]] = _Delta(fields)
                self._entries.append(delta)
            before = delta.chars
            delta.add(fields)
            self.chars += delta.chars - before
        else:
            self.chars += size(record)
            if record["type"] == "turn_start":
                self._turn = len(self._entries)
            elif record["type"] == "run_stop":
                self._stop = len(self._entries)
            elif record["type"] == "run_resumed":
                self._turn = len(self._entries)
                if self._stop is not None:
                    self.chars -= size(self._entries[self._stop])
                    self._entries[self._stop] = None
                    self._stop = None
            elif record["type"] == "restarted" or (record["type"] == "message_start" and record["restarted"]):
                self._void()
            elif record["type"] == "tool_progress":
                earlier = self._progress.get(record["block"])
                if earlier is not None:
                    self.chars -= size(self._entries[earlier])
                    self._entries[earlier] = None
                self._progress[record["block"]] = len(self._entries)
            self._entries.append(fields)
        # The oldest texts are omitted first.
        while self.chars > self._max_chars and self._omitted < len(self._entries):
            entry = self._entries[self._omitted]
            if isinstance(entry, _Delta):
                self.chars -= entry.chars
                entry.omit()
            elif entry is not None and (content := _CONTENTS.get(entry["type"])) is not None:
                chars = size(entry) - OVERHEAD_CHARS
                self.chars -= chars
                omitted: Any = f"({chars} characters left out)"
                if entry["type"] in ("edit", "input_start"):
                    omitted = None
                elif isinstance(entry[content], dict):
                    omitted = {"type": entry[content].get("type"), "omitted_chars": chars}
                kept = {name: value for name, value in entry.items() if name != "data"}
                self._entries[self._omitted] = {**kept, content: omitted}
            self._omitted += 1

    def records(self) -> list[Record]:
        """Return the records in order. They share no container that may change."""
        return [
            entry.record() if isinstance(entry, _Delta) else cast("Record", entry)
            for entry in self._entries
            if entry is not None
        ]

    def _void(self) -> None:
        """Remove the records of this turn's blocks."""
        for place in range(self._turn, len(self._entries)):
            entry = self._entries[place]
            if entry is None:
                continue
            fields = entry.first if isinstance(entry, _Delta) else entry
            if "block" in fields:
                self.chars -= entry.chars if isinstance(entry, _Delta) else size(entry)
                self._deltas.pop(fields["block"], None)
                self._progress.pop(fields["block"], None)
                self._entries[place] = None
