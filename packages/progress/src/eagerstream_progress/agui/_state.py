"""The calls of a run as one JSON value, and its changes as patches that a client of AG-UI can apply (RFC 6902)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from eagerstream import JSON, copy_json, pointer, steps_of

from .._exact import escaped_key, marked
from .._merge import text_size

Operation: TypeAlias = dict[str, Any]
"""`{"op": "add" | "replace" | "remove", "path": pointer, "value": JSON}`."""

_GROWTH: Final = 8
"""Fraction by which a growing string must be longer before it is sent again. RFC 6902 cannot append, so each time the
complete string is sent. In total that is nine times the string, compared with the square of its length otherwise.
"""

MAX_STATE_CHARS: Final = 1024 * 1024
"""Maximum text of all inputs in the state. The client copies its complete state for each patch, and refuses messages
over 10 MB (one character may take six bytes). The arguments of the calls contain the rest.
"""

_BARRED: Final = re.compile(r"/__proto__(?:/|$)|/constructor/prototype(?:/|$)")
"""Paths that the client refuses, together with the complete patch."""


@dataclass(slots=True)
class _Growing:
    """The string at the end of an input."""

    path: str
    pieces: list[str]
    chars: int
    sent_chars: int

    def text(self) -> str:
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]


@dataclass(slots=True)
class _Call:
    path: str
    chars: int = 0
    growing: _Growing | None = None
    placed: list[tuple[str, Any]] = field(default_factory=list)  # by the last fragment: a string in it may grow
    is_whole: bool = True  # False once it was too large; the rest is not in the state


@dataclass(slots=True)
class StateMirror:
    """The client's state, after it has applied the results of `take`.

    `{"toolCalls": {id: {"name", "input", "phase", "outcome", ...}}}`: `input` is None before the first fragment, then
    the partial. After each patch it is a partial that the input really had, without the keys that the client would
    refuse: `__proto__`, and `prototype` in `constructor`. They are in no patch: code that copies such an object
    carelessly would set the prototype of the copy. Integers that the client would round are marked, see `_exact.py`.
    """

    _calls: dict[str, _Call] = field(default_factory=dict)
    _dirty: dict[str, _Call] = field(default_factory=dict)  # calls whose strings have grown since they were sent
    _operations: list[Operation] = field(default_factory=list)
    _room: int = MAX_STATE_CHARS

    def start(self, id: str, fields: Mapping[str, JSON]) -> None:
        """Add a call."""
        call = self._calls[id] = _Call(pointer("toolCalls", id))
        self._operations.append({"op": "add", "path": call.path, "value": {**fields, "input": None}})

    def set(self, id: str, **fields: JSON) -> None:
        """Change other fields of a call."""
        call = self._calls[id]
        self._send(call)
        self._operations += (
            {"op": "add", "path": f"{call.path}/{name}", "value": value} for name, value in fields.items()
        )

    def patch(self, id: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """Apply the changes of an input."""
        call = self._calls[id]
        goes_on = False
        for operation in operations:
            if not call.is_whole:
                return
            path: str = operation["path"]
            if operation["op"] == "append":
                goes_on = False
                if not _BARRED.search(path):
                    self._append(call, path, operation["value"])
                continue
            if not goes_on:  # the strings left open by earlier fragments are closed
                self._send(call)
                call.growing = None
                call.placed.clear()
            goes_on = True
            if not _BARRED.search(path):
                self._place(call, operation["op"], path, operation["value"])
        if call.growing is not None and call.growing.chars > call.growing.sent_chars:
            self._dirty[id] = call

    def give_up(self, id: str) -> None:
        """Stop following an input whose next fragments do not fit. Its value stays and is marked."""
        if (call := self._calls[id]).is_whole:
            self._give_up(call)

    def remove(self, id: str) -> None:
        """Remove a void call."""
        call = self._calls.pop(id)
        self._dirty.pop(id, None)
        self._room += call.chars
        self._operations.append({"op": "remove", "path": call.path})

    def take(self) -> list[Operation]:
        """Return the patch that updates the client's state. Empty if there is nothing to send yet."""
        for call in self._dirty.values():
            growing = call.growing
            if growing is not None and growing.chars - growing.sent_chars >= max(1, growing.sent_chars // _GROWTH):
                self._send(call)
        self._dirty = {
            id: call
            for id, call in self._dirty.items()
            if call.growing and call.growing.chars > call.growing.sent_chars
        }
        operations, self._operations = self._operations, []
        return operations

    def _place(self, call: _Call, op: str, path: str, value: Any) -> None:
        name = path.rpartition("/")[2]
        if _barred_keys(value, name):  # otherwise it is not copied
            value = copy_json(value)
            for container, key in _barred_keys(value, name):
                del container[key]
        if self._has_room(call, text_size(value)):
            operation = {"op": op, "path": f"{call.path}/input{_marked_path(path)}", "value": marked(value)}
            self._operations.append(operation)
            if isinstance(value, str | dict | list):
                call.placed.append((path, value))

    def _append(self, call: _Call, path: str, text: str) -> None:
        if call.growing is None or call.growing.path != path:
            self._send(call)
            start = _find_string(call.placed, path)
            if start is None:  # records that do not fit together
                self._give_up(call)
                return
            call.growing = _Growing(path, [start], len(start), len(start))
        if self._has_room(call, len(text)):
            call.growing.pieces.append(text)
            call.growing.chars += len(text)

    def _send(self, call: _Call) -> None:
        """Send the growing string, if it has grown."""
        growing = call.growing
        if growing is None or growing.chars == growing.sent_chars:
            return
        growing.sent_chars = growing.chars
        path = f"{call.path}/input{_marked_path(growing.path)}"
        last = self._operations[-1] if self._operations else {}
        if last.get("path") == path:  # not sent yet: one operation is enough
            last["value"] = growing.text()
        else:
            self._operations.append({"op": "replace", "path": path, "value": growing.text()})

    def _has_room(self, call: _Call, chars: int) -> bool:
        if chars > self._room:
            self._give_up(call)
            return False
        self._room -= chars
        call.chars += chars
        return True

    def _give_up(self, call: _Call) -> None:
        self._send(call)
        call.growing, call.is_whole = None, False
        self._operations.append({"op": "add", "path": f"{call.path}/truncated", "value": True})


def _marked_path(path: str) -> str:
    """Return the path of a value after the keys around it are escaped as `marked` does."""
    return "/".join(map(escaped_key, path.split("/")))


def _find_string(placed: Sequence[tuple[str, Any]], path: str) -> str | None:
    """Return the string at `path`, if it is one of these values or inside one. The newest value wins."""
    for root, value in reversed(placed):
        if path == root or path.startswith(f"{root}/"):
            found = value
            for step in steps_of(path[len(root) :]):
                if isinstance(found, dict) and step in found:
                    found = found[step]
                elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
                    found = found[int(step)]
                else:
                    found = None
                    break
            if isinstance(found, str):
                return found
    return None


def _barred_keys(value: Any, name: str) -> list[tuple[dict[str, Any], str]]:
    """Return every object inside `value`, found under the key `name`, with a barred key, and that key."""
    found: list[tuple[dict[str, Any], str]] = []
    pending = [(name, value)]
    while pending:
        name, item = pending.pop()
        if isinstance(item, dict):
            barred = [key for key in item if key == "__proto__" or (key == "prototype" and name == "constructor")]
            found += ((item, key) for key in barred)
            pending += ((key, inner) for key, inner in item.items() if isinstance(inner, dict | list))
        elif isinstance(item, list):
            pending += (("", inner) for inner in item if isinstance(inner, dict | list))
    return found
