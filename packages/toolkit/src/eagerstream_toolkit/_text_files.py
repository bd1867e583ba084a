"""Text files in a jail. `Document` is a file's content for editing; `TextFiles` reads and replaces complete files."""

from __future__ import annotations

import codecs
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from eagerstream import TextEdit
from eagerstream.errors import ToolError
from eagerstream.tools import ToolErrorCode

from ._growing_file import Check
from ._jail import Jail
from ._paths import Parts

_ENCODED_CHARS: Final = 64 * 1024
"""Characters to encode at a time if line ends are mixed. A list of all lines can take 60 times the file's size."""

_CARRIAGES: Final = bytes.maketrans(b"\0\n", b"\1\0")
_NO_LINE_ENDS: Final = bytes(set(range(256)) - set(b"\0\n"))


class NoSingleMatch(Exception):
    """A text that does not occur exactly once in a document.

    Attributes:
        count: The number of non-overlapping matches, but at least 2 if matches overlap.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True, slots=True)
class Document:
    r"""A text with `\n` line ends, and the details needed to write the file back.

    Attributes:
        text: The text, without the carriage returns in front of line ends.
        has_bom: The file starts with a byte order mark.
        carriages: One byte for each line end: 1 if a carriage return precedes it, else 0.
    """

    text: str
    has_bom: bool
    carriages: bytes

    @classmethod
    def of(cls, content: bytes, *, shown: str) -> Self:
        """Parse a file's content. `shown` is its name in texts for the model.

        Raises:
            ToolError: The content is not UTF-8 text, or contains NUL.
        """
        has_bom = content.startswith(codecs.BOM_UTF8)
        try:
            text = content.removeprefix(codecs.BOM_UTF8).decode()
        except UnicodeDecodeError:
            raise ToolError(f"Error: {shown} is not a text file in UTF-8", code=ToolErrorCode.BINARY_FILE) from None
        if "\0" in text:
            raise ToolError(f"Error: {shown} is a binary file", code=ToolErrorCode.BINARY_FILE)
        if "\r\n" not in text:
            return cls(text, has_bom, bytes(text.count("\n")))
        # Not line by line: a file of 16 MiB can have 16 million lines.
        carriages = content.replace(b"\r\n", b"\0").translate(_CARRIAGES, _NO_LINE_ENDS)
        return cls(text.replace("\r\n", "\n"), has_bom, carriages)

    def encode(self) -> bytes:
        """Return the file's bytes."""
        if not any(self.carriages):
            body = self.text
        elif all(self.carriages):
            body = self.text.replace("\n", "\r\n")
        else:
            body = "".join(self._ended())
        return (codecs.BOM_UTF8 if self.has_bom else b"") + body.encode()

    def _ended(self) -> Iterator[str]:
        """Yield the text in pieces, with each line's own end."""
        line = 0
        for at in range(0, len(self.text), _ENCODED_CHARS):
            *lines, last = self.text[at : at + _ENCODED_CHARS].split("\n")
            carriages = self.carriages[line : line + len(lines)]
            ended = (
                f"{each}\r\n" if carriage else f"{each}\n" for each, carriage in zip(lines, carriages, strict=True)
            )
            yield "".join((*ended, last))
            line += len(lines)

    def verbatim(self) -> Self:
        """Return a copy that keeps all carriage returns in its text, so that they can be seen and edited."""
        return type(self)("".join(self._ended()), self.has_bom, bytes(len(self.carriages)))

    def only_place_of(self, sought: str) -> tuple[int, int]:
        """Return the start and the end of a text that occurs exactly once.

        Raises:
            NoSingleMatch: It does not occur, or occurs several times. Matches may overlap, as `aa` in `aaa`.
        """
        sought = self.plain(sought)
        at, count = self.text.find(sought), self.text.count(sought)
        if count != 1 or self.text.find(sought, at + 1) != -1:
            raise NoSingleMatch(2 if count == 1 else count)
        return at, at + len(sought)

    def plain(self, text: str) -> str:
        """Return a model's text as it occurs in `text`: without CRLF, if the document has any."""
        return text.replace("\r\n", "\n") if any(self.carriages) else text

    def replaced(self, start: int, end: int, new: str) -> Self:
        """Return a copy with `new` in place of the characters from `start` to `end`. Other line ends stay.

        Line ends in `new` take the style of those that they replace. Additional ones take the style of the line end
        before.
        """
        new = self.plain(new)
        first = self.text.count("\n", 0, start)
        last = first + self.text.count("\n", start, end)
        count = new.count("\n")
        kept = self.carriages[first:last]
        neighbour = self.carriages[max(0, last - 1) : last] or self.carriages[:1] or b"\0"
        fresh = kept[:count] + neighbour * (count - len(kept))
        text = self.text[:start] + new + self.text[end:]
        return type(self)(text, self.has_bom, self.carriages[:first] + fresh + self.carriages[last:])

    def inserted(self, line: int, new: str) -> Self:
        """Return a copy with `new` inserted as lines after `line`. 0 inserts at the start of the text.

        If the text had no final line end, the result has none either.
        """
        is_open = bool(self.text) and not self.text.endswith("\n")
        if is_open and line == self.line_count:
            return self.replaced(len(self.text), len(self.text), "\n" + new.removesuffix("\n"))
        at = 0
        for _ in range(line):
            at = self.text.index("\n", at) + 1
        return self.replaced(at, at, new if new.endswith("\n") else f"{new}\n")

    @property
    def line_count(self) -> int:
        """Number of lines. The last one counts with or without a line end."""
        return self.text.count("\n") + (bool(self.text) and not self.text.endswith("\n"))

    def lines(self) -> list[str]:
        """Return the lines without their ends."""
        lines = self.text.split("\n")
        return lines if lines[-1] else lines[:-1]


# --- files ------------------------------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """A change to a file: its bytes before and after, and its new content."""

    before: bytes
    after: bytes
    document: Document


class TextFiles:
    """Text files in a jail. All methods block.

    Changes through one object run one at a time. If another program changes a file between our read and our write, the
    write is refused. A race remains in the last instant before the new file takes its place.
    """

    def __init__(self, jail: Jail) -> None:
        self.jail = jail
        self._lock = threading.Lock()

    def document(self, parts: Parts) -> Document:
        """Return a file's content.

        Raises:
            OSError, ToolError: As `Jail.read`.
            ToolError: The file is not UTF-8 text.
        """
        return Document.of(self.jail.read(parts)[0], shown=self.jail.shown(parts))

    def text_edit(
        self, path: object, *, new: str, old: str | None = None, each: str | None = None, after_line: int | None = None
    ) -> TextEdit | None:
        """Return what a tool's option `edits` does about this path. It reads the file once, and raises nothing.

        None if the path is invalid or leads out of the jail. If the file cannot be read, the edit has no text.
        """
        try:
            parts = self.jail.parts(path)
        except ToolError:
            return None
        try:
            text: str | None = self.document(parts).text
        except FileNotFoundError:
            text = ""
        except (OSError, ToolError):
            text = None
        return TextEdit(path=self.jail.shown(parts), new=new, old=old, each=each, after_line=after_line, text=text)

    def edit(self, parts: Parts, change: Callable[[Document], Document]) -> Edit:
        """Replace a file with the result of `change`.

        Raises:
            OSError, ToolError: As `document` and `Jail.write`, or from `change`.
            ToolError: Another program changed the file meanwhile.
        """
        with self._lock:
            before, found = self.jail.read(parts)
            document = change(Document.of(before, shown=self.jail.shown(parts)))
            after = document.encode()
            self.jail.write(parts, after, check=self._unchanged(parts, found))
        return Edit(before, after, document)

    def put(
        self, parts: Parts, content: bytes, *, is_fit: Callable[[bytes | None], bool] = lambda _: True
    ) -> bytes | None:
        """Replace or make a file, if its old content `is_fit`. Return that content, or `None` if it was missing.

        Raises:
            OSError, ToolError: As `Jail.read` and `Jail.write`.
            ToolError: The old content may not be replaced, or another program changed the file meanwhile.
        """
        with self._lock:
            before, found = self._read(parts)
            if not is_fit(before):
                raise self._changed(parts)
            self.jail.write(parts, content, check=self._unchanged(parts, found))
        return before

    def remove(self, parts: Parts, *, is_fit: Callable[[bytes | None], bool]) -> None:
        """Remove a file if its content allows that.

        Raises:
            OSError, ToolError: As `Jail.read` and `Jail.remove`.
            ToolError: `is_fit` returned False.
        """
        with self._lock:
            if not is_fit(self._read(parts)[0]):
                raise self._changed(parts)
            self.jail.remove(parts)

    def _read(self, parts: Parts) -> tuple[bytes | None, os.stat_result | None]:
        try:
            return self.jail.read(parts)
        except FileNotFoundError:
            return None, None

    def _unchanged(self, parts: Parts, before: os.stat_result | None) -> Check:
        def check(now: os.stat_result | None) -> None:
            if _mark(now) != _mark(before):
                raise self._changed(parts)

        return check

    def _changed(self, parts: Parts) -> ToolError:
        return ToolError(
            f"Error: {self.jail.shown(parts)} was changed by somebody else. View it, and try again.",
            code=ToolErrorCode.CONFLICT,
        )


def _mark(found: os.stat_result | None) -> tuple[int, ...] | None:
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@contextmanager
def in_words(
    shown: str, *, doing: str = "write to", missing: str = "Error: File not found", exists: str = ""
) -> Iterator[None]:
    """Raise a `ToolError` in place of each `OSError`, with a text for the model that has no path of this machine.

    `doing` is the verb for a refused action. `missing` and `exists` are the texts about a file that is missing, or
    should not exist.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise ToolError(missing, code=ToolErrorCode.NOT_FOUND) from None
    except PermissionError:
        said = f"Error: Permission denied. Cannot {doing} file."
        raise ToolError(said, code=ToolErrorCode.PERMISSION_DENIED) from None
    except IsADirectoryError:
        raise ToolError(f"Error: {shown} is a directory", code=ToolErrorCode.IS_DIRECTORY) from None
    except FileExistsError:
        raise ToolError(exists or f"Error: {shown} already exists", code=ToolErrorCode.ALREADY_EXISTS) from None
    except OSError as error:
        raise ToolError(f"Error: {shown}: {os.strerror(error.errno or 0)}") from None
