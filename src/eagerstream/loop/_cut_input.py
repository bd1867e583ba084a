"""`CutInput`: the input of a call that was cut off, and the request for its rest.

The model is asked to call `continue_input`. The text that it writes there begins with the last characters that have
arrived. They are so many that they occur only once in the cut text, which proves the place at which it continues. What
the input lacks behind that text follows container by container, from the innermost one outwards. `Seam` checks both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from eagerstream_wire import ToolInput
from eagerstream_wire._values import find

TOOL_NAME: Final = "continue_input"
DEFINITION: Final[dict[str, Any]] = {
    "name": TOOL_NAME,
    "description": (
        "Writes the rest of the input of another call, which was cut off. Call it only if the result of a call asks "
        "for it, and as that result says."
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The rest of the unfinished text, after its last characters."},
            "rest": {
                "type": "array",
                "items": {"type": ["object", "array"]},
                "description": "What is missing behind it: a list or an object for each unfinished part.",
            },
        },
        "required": ["text", "rest"],
    },
}

_ANCHOR_CHARS: Final = 60
"""Characters that the model repeats, at least. It may forget to, and write them because they come once more."""
_MOST_ANCHOR_CHARS: Final = 1_000

_OBJECT: Final = re.compile(r"[ \t\r\n]*\{")
_STRING: Final = r'"(?:[^"\\]++|\\.?)*+'
_STRING_OR_MARK: Final = re.compile(rf'{_STRING}"?|[\[\]{{}},]', re.DOTALL)
_STRING_OR_SPACE: Final = re.compile(rf'({_STRING}"?)|\s+', re.DOTALL)
_COMPLETE_ITEM: Final = re.compile(rf'{_STRING}"|true|false|null', re.DOTALL)
_COMPLETE_FIELD: Final = re.compile(rf'{_STRING}":(?:{_COMPLETE_ITEM.pattern})', re.DOTALL)
_HALF_CHARS: Final = 12
"""More than half a surrogate pair can have."""
_WHOLE_UNITS: Final = re.compile(
    # A high surrogate is whole once it is known if its low half follows.
    r"(?:[^\\]++|\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r"|\\u[dD][89abAB]..(?=[^\\]|\\[^u]|\\u[0-9a-fA-F]{4}))*+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CutInput:
    """An input that was cut off, as far as it has come.

    Attributes:
        value: The part of it that shows.
        path: The place of the innermost unfinished container.
        key: The place of the unfinished text in it; None if the input was cut between two values.
        text: That text.
        anchor: The last characters of the text, with which its rest begins. They occur in it once.
        half: Half of an escape, or of a surrogate pair, at the end of the text.
        member: The part of a member that was being written outside of a text, without white space.
        is_due: Another member must follow, or the rest of this one.
        needs_comma: It does so after a comma.
        closers: The brackets of the unfinished containers, from the innermost one outwards.
    """

    value: dict[str, Any] = field(repr=False)
    path: tuple[str | int, ...] = field(repr=False)
    key: str | int | None = field(repr=False)
    text: str = field(repr=False)
    anchor: str = field(repr=False)
    half: str
    member: str = field(repr=False)
    is_due: bool
    needs_comma: bool
    closers: str

    @classmethod
    def of(cls, input: ToolInput) -> Self | None:
        """Return the state of an input that was cut off; None if it cannot be continued.

        That is so if nothing of it has come, if it is complete or no JSON, and if the end of its unfinished text occurs
        in it more than once.
        """
        path, value = input.open_path, input.partial
        if path is None or input.error is not None or _OBJECT.match(input.raw) is None:
            return None
        key, text, half, anchor = None, "", "", ""
        member, is_complete, is_due = "", True, False
        if isinstance(found := find(value, path), str):
            *containers, key = path
            path, text = tuple(containers), found
            if (length := _anchor_length(text)) is None:
                return None
            half, anchor = _half(input.raw), text[len(text) - length :]
        kinds = [type(find(value, path[:depth])) for depth in range(len(path), -1, -1)]
        if key is None:
            mark, member = _last_member(input.raw)
            whole = _COMPLETE_FIELD if kinds[0] is dict else _COMPLETE_ITEM
            # Behind a number, white space proves that it has no further digit.
            is_ended = input.raw[-1].isspace() and member[-1:].isdigit()
            is_complete = mark in ("]", "}") or whole.fullmatch(member) is not None or is_ended
            is_due = not is_complete and (bool(member) or mark == ",")
        return cls(
            value=value,
            path=path,
            key=key,
            text=text,
            anchor=anchor,
            half=half,
            member="" if is_complete else member,
            is_due=is_due,
            needs_comma=is_complete,
            closers="".join("}" if kind is dict else "]" for kind in kinds),
        )

    def members(self, number: int) -> Any:
        """Return the unfinished container of a closer: what of it has arrived."""
        return find(self.value, self.path[: len(self.path) - number])

    def request(self) -> str:
        """Return the text that asks the model for the rest."""
        parts = [
            "The input of this call was cut off. What has arrived is kept, as you see it above.",
            f"Call {TOOL_NAME} now, once, to write the rest and nothing else.",
        ]
        if self.key is None:
            parts.append('`text`: "".')
        elif self.anchor != self.text:
            parts.append(
                f"`text`: the rest of the unfinished text at {_place((*self.path, self.key))}. Begin with exactly the "
                "characters between the tags, which are its last ones, and continue it to its end:\n"
                f"<last>{self.anchor}</last>"
            )
        else:
            whole = f"`text`: the complete text at {_place((*self.path, self.key))}, from its beginning"
            parts.append(f"{whole}, which is:\n<last>{self.anchor}</last>" if self.text else f"{whole}.")
        parts.append(f"`rest`: a list of {len(self.closers)}:")
        for number, closer in enumerate(self.closers, 1):
            place = self.path[: len(self.path) - number + 1]
            kind = "an object with the fields" if closer == "}" else "a list of the items"
            where = f"of {_place(place)}" if place else "of the call (its parameters)"
            begins = ", beginning with the one that was being written" if number == 1 and self.is_due else ""
            parts.append(f"{number}. {kind} {where} that are still missing{begins}; empty if there are none.")
        return "\n".join(parts)


def whole_units(written: str) -> str:
    """Return the content of a JSON string without the half of an escape, or of a surrogate pair, at its end."""
    found = _WHOLE_UNITS.match(written)
    return "" if found is None else found[0]


def _last_member(raw: str) -> tuple[str, str]:
    """Return the last bracket or comma, and the text behind it without white space."""
    mark, start = "", 0
    for found in _STRING_OR_MARK.finditer(raw):
        if found[0][0] != '"':
            mark, start = found[0], found.end()
    return mark, _STRING_OR_SPACE.sub(lambda found: found[1] or "", raw[start:])


def _half(raw: str) -> str:
    """Return the half of an escape, or of a surrogate pair, at the end of an unfinished string."""
    start = max(0, len(raw) - _HALF_CHARS)
    while start > 0 and raw[start - 1] == "\\":  # whether a backslash is escaped depends on all before it
        start -= 1
    end = raw[start:]
    return end[len(whole_units(end)) :]


def _anchor_length(text: str) -> int | None:
    """Return the number of characters at the end of a text that prove its place; None if they would be too many.

    They occur in it once, and begin with a line or a word if one is near.
    """
    length = _ANCHOR_CHARS
    while length <= _MOST_ANCHOR_CHARS:
        start = len(text) - length
        if start <= 0:
            return len(text)
        if text.find(text[start:]) == start:
            for mark in ("\n", " "):
                if (before := text.rfind(mark, max(0, start - _ANCHOR_CHARS), start)) >= 0:
                    return len(text) - before - 1
            return length
        length *= 2
    return None


def _place(path: Sequence[str | int]) -> str:
    """Return a path as a model reads it: `edits[2].new_text`; an odd key is written as in JSON."""
    return "".join(
        f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{json.dumps(step)}]" for step in path
    ).lstrip(".")
