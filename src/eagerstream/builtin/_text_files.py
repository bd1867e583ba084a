"""Text files in a jail: `Document` is one as an editor sees it, `TextFiles` reads and changes them whole."""

from __future__ import annotations

import codecs
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from ..errors import ToolError
from ..tools import ToolErrorCode
from ._growing_file import Check
from ._jail import Jail
from ._paths import Parts

_ENCODED_CHARS: Final = 64 * 1024
"""Characters that are encoded at a time where line ends differ: a list of all lines may take 60 times the file."""

_CARRIAGES: Final = bytes.maketrans(b"\0\n", b"\1\0")
_NO_LINE_ENDS: Final = bytes(set(range(256)) - set(b"\0\n"))


class NoSingleMatch(Exception):
    """A text that should be in a document once is not.

    Attributes:
        count: The number of places that it is in.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


@dataclass(frozen=True, slots=True)
class Document:
    r"""A text whose lines end with `\n`, and what stands in the file beside it.

    Attributes:
        text: The text; a carriage return in front of a line end is not in it.
        has_bom: The file begins with a byte order mark.
        carriages: For each line end, 1 where a carriage return stands in front of it, and 0 where none does.
    """

    text: str
    has_bom: bool
    carriages: bytes

    @classmethod
    def of(cls, content: bytes, *, shown: str) -> Self:
        """The document that a file holds; `shown` is what it is called towards the model.

        Raises:
            ToolError: It is no text in UTF-8.
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
        # Not line by line: a file of 16 MiB may hold as many.
        carriages = content.replace(b"\r\n", b"\0").translate(_CARRIAGES, _NO_LINE_ENDS)
        return cls(text.replace("\r\n", "\n"), has_bom, carriages)

    def encode(self) -> bytes:
        """The bytes of the file."""
        if not any(self.carriages):
            body = self.text
        elif all(self.carriages):
            body = self.text.replace("\n", "\r\n")
        else:
            body = "".join(self._ended())
        return (codecs.BOM_UTF8 if self.has_bom else b"") + body.encode()

    def _ended(self) -> Iterator[str]:
        """The text in pieces, each line with its own end."""
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
        """The same with all carriage returns in its text, where they are seen and can be edited."""
        return type(self)("".join(self._ended()), self.has_bom, bytes(len(self.carriages)))

    def only_place_of(self, sought: str) -> tuple[int, int]:
        """Return where a text begins and ends that is there once.

        Raises:
            NoSingleMatch: It is in no place, or in several, which may overlap, as `aa` in `aaa`.
        """
        sought = self.plain(sought)
        at, count = self.text.find(sought), self.text.count(sought)
        if count != 1 or self.text.find(sought, at + 1) != -1:
            raise NoSingleMatch(2 if count == 1 else count)
        return at, at + len(sought)

    def plain(self, text: str) -> str:
        """What a text of the model's is in here: where a carriage return ends lines, it need not say so, and may."""
        return text.replace("\r\n", "\n") if any(self.carriages) else text

    def replaced(self, start: int, end: int, new: str) -> Self:
        """The same with `new` in place of the characters from `start` to `end`; line ends around it stay as they are.

        Line ends in `new` are those that they replace, or where there are more, as the one before.
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
        """The same with `new` as further lines after that line, 0 for the beginning of the text.

        A text that did not end with a line end still does not.
        """
        is_open = bool(self.text) and not self.text.endswith("\n")
        if is_open and line == self.line_count:
            return self.replaced(len(self.text), len(self.text), "\n" + new.removesuffix("\n"))
        at = self._start_of(line)
        return self.replaced(at, at, new if new.endswith("\n") else f"{new}\n")

    @property
    def line_count(self) -> int:
        """Lines, the last one with or without an end."""
        return self.text.count("\n") + (bool(self.text) and not self.text.endswith("\n"))

    def lines(self) -> list[str]:
        """The lines, without their ends."""
        lines = self.text.split("\n")
        return lines if lines[-1] else lines[:-1]

    def _start_of(self, line: int) -> int:
        """Where the text goes on after so many lines."""
        at = 0
        for _ in range(line):
            at = self.text.index("\n", at) + 1
        return at


# --- files ------------------------------------------------------------------------------------------------------------


class Edit(NamedTuple):
    """A change of a file.

    Attributes:
        before: Its bytes before; None where there was no such file.
        after: Its bytes after.
        document: What it holds now.
    """

    before: bytes | None
    after: bytes
    document: Document


class TextFiles:
    """Text files in a jail. All of it blocks.

    Changes made through one object follow one another. Of those made otherwise, one between the reading and the writing
    is noticed, and nothing is written over it, but for the last instant before the new file takes its place.
    """

    def __init__(self, jail: Jail) -> None:
        self.jail = jail
        self._lock = threading.Lock()

    def document(self, parts: Parts) -> Document:
        """What a file holds.

        Raises:
            OSError, ToolError: As `Jail.read`; and it is no text in UTF-8.
        """
        return Document.of(self.jail.read(parts)[0], shown=self.jail.shown(parts))

    def edit(self, parts: Parts, change: Callable[[Document], Document]) -> Edit:
        """Put what `change` makes of a file in its place.

        Raises:
            OSError, ToolError: As `document` and `Jail.write`; it was changed meanwhile; what `change` raises.
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
        """Put a content in the place of what is there, if anything is, and give what that was.

        Args:
            parts: The file.
            content: What it is to hold.
            is_fit: Whether what is there may be replaced.

        Raises:
            OSError, ToolError: As `Jail.write`; what is there is not fit, or was changed meanwhile.
        """
        with self._lock:
            before, found = self._read(parts)
            if not is_fit(before):
                raise self._changed(parts)
            self.jail.write(parts, content, check=self._unchanged(parts, found))
        return before

    def remove(self, parts: Parts, *, is_fit: Callable[[bytes | None], bool]) -> None:
        """Remove a file whose content is fit for that.

        Raises:
            OSError, ToolError: As `Jail.remove`; it is not.
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
    """Faults of the system, told to a model: no path of this machine is in them.

    Args:
        shown: What the file is called towards the model.
        doing: What was to be done with it.
        missing: What is said of a file that is not there.
        exists: What is said of one that is there, and should not be.

    Raises:
        ToolError: In place of each `OSError`.
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
