"""`FencedJSON`: finds the JSON in the text of a model that was asked for JSON by its prompt."""

from __future__ import annotations

import re
from typing import Final

_FENCE_TICKS: Final = 3
_MAX_LABEL_CHARS: Final = 100
_BLANK: Final = re.compile(r"[ \t\r]*+")
_MARKS: Final = "`~"
_MARK_OR_LINE_END: Final = re.compile(r"[`~\n]")
_WHITE_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_JSON: Final = re.compile(r"""\{\s*+["}]|\[\s*+[\[{"]|\[\s*\n""")
"""The start of JSON behind prose. A line of prose may start with `[1]` or `{x}`."""

NO_JSON: Final = "the text has no JSON: it starts with no bracket, and has no fenced block"
TWO_BLOCKS: Final = "the text has more than one fenced block"
OPEN_FENCE: Final = "the fenced block was never closed"


class FencedJSON:
    """Passes on the JSON of a text, as it arrives: the text in its one fenced block, or all of it.

    If the text starts with `{` or `[`, all of it is the JSON. Otherwise, it is the contents of the fenced block, or all
    from a line on that starts as an object, or as a list of objects, lists or strings. A fence is a line that starts
    with three or more backticks or tildes; the first one may have a label, for example `json`. After other text in its
    line, only the label `json` makes a fence of it, because prose may quote backticks. A line of JSON never starts with
    a backtick, as its strings have no line breaks, so the first such line is the end of the block.

    `feed` costs O(length of the piece), and the cuts of the text change nothing.

    Attributes:
        fault: The reason why the text has no JSON that could be meant; None while there is none.
    """

    # A state for each kind of place, and the number of backticks read last: they may be cut anywhere. Nothing else is
    # kept, except a label of up to 100 characters, or as much of what may be the start of JSON.

    def __init__(self) -> None:
        self.fault: str | None = None
        self._is_whole = False  # all of the text is the JSON
        self._has_started = False  # a character other than white space has come
        self._blocks = 0
        self._fence = 0  # backticks of the open fence; 0 outside a block
        self._ticks = 0  # backticks or tildes read last
        self._mark = ""  # which of the two
        self._opening = ""  # a bracket at the start of a line, and the white space behind it
        self._label: str | None = None  # the text after the backticks, until the end of the line
        self._is_blank = True  # the line has only white space so far
        self._was_blank = True  # it had, before the backticks

    def feed(self, piece: str) -> str:
        """Return the JSON in the next piece of the text."""
        if self._is_whole:
            return piece
        if not self._has_started:
            start = piece.lstrip(" \t\r\n")
            self._has_started = bool(start)
            if start[:1] in ("{", "["):
                self._is_whole = True
                return start
        found: list[str] = []
        at = 0
        while at < len(piece) and self.fault is None:
            at = self._read_block(piece, at, found) if self._fence else self._read_prose(piece, at)
            if self._is_whole:
                return f"{self._opening}{piece[at:]}"
        return "".join(found)

    def close(self) -> str | None:
        """End the text; return the reason why its JSON is not complete, if it is known here."""
        if self.fault is None and not self._is_whole and not self._blocks:
            self.fault = NO_JSON
        return OPEN_FENCE if self._fence else None

    def _read_prose(self, text: str, at: int) -> int:
        if self._label is not None:
            return self._read_label(text, at, self._label)
        if self._opening:
            return self._read_opening(text, at)
        if text[at] in _MARKS and (self._ticks < _FENCE_TICKS or text[at] == self._mark):
            is_more = self._ticks > 0 and text[at] == self._mark
            if not is_more:
                self._was_blank = self._is_blank and not self._ticks
                self._is_blank = self._was_blank
                self._mark = text[at]
            self._ticks = self._ticks + 1 if is_more else 1
            return at + 1
        if self._ticks >= _FENCE_TICKS:
            self._label = ""
            return at
        self._is_blank = self._is_blank and not self._ticks
        self._ticks = 0
        if text[at] == "\n":
            self._is_blank = True
            return at + 1
        if self._is_blank and not self._blocks:
            blank = _BLANK.match(text, at)
            start = blank.end() if blank else at
            if text[start : start + 1] in ("{", "["):
                self._opening = text[start]
                return start + 1
        found = _MARK_OR_LINE_END.search(text, at)
        end = found.start() if found else len(text)
        self._is_blank = self._is_blank and not text[at:end].strip(" \t\r")
        return end

    def _read_opening(self, text: str, at: int) -> int:
        space = _WHITE_SPACE.match(text, at, at + _MAX_LABEL_CHARS - len(self._opening))
        end = space.end() if space else at
        self._opening += text[at:end]
        is_short = len(self._opening) < _MAX_LABEL_CHARS
        if end == len(text) and is_short:
            return end
        if is_short and _JSON.match(self._opening + text[end]):
            self._is_whole = True
        else:
            self._is_blank = "\n" in self._opening
            self._opening = ""
        return end

    def _read_label(self, text: str, at: int, label: str) -> int:
        found = _MARK_OR_LINE_END.search(text, at)
        end = found.start() if found else len(text)
        label += text[at:end]
        is_short = len(label) <= _MAX_LABEL_CHARS
        if found is None and is_short:
            self._label = label
            return end
        if text[end : end + 1] == "\n" and is_short and (self._was_blank or label.strip().lower() == "json"):
            self._blocks += 1
            if self._blocks > 1:
                self.fault = TWO_BLOCKS
            else:
                self._fence = self._ticks
            self._is_blank = True
            end += 1
        else:
            self._is_blank = False
        self._label = None
        self._ticks = 0
        return end

    def _read_block(self, text: str, at: int, found: list[str]) -> int:
        if self._is_blank:
            blank = None if self._ticks else _BLANK.match(text, at)
            end = blank.end() if blank else at
            found.append(text[at:end])
            if end == len(text):
                return end
            if text[end] == self._mark:
                self._ticks += 1
                if self._ticks == self._fence:
                    self._fence = self._ticks = 0
                    self._is_blank = False
                return end + 1
            found.append(self._mark * self._ticks)  # too few for a fence: the parser reports them
            self._ticks = 0
            self._is_blank = False
            at = end
        end = text.find("\n", at) + 1
        self._is_blank = end > 0
        found.append(text[at : end or len(text)])
        return end or len(text)
