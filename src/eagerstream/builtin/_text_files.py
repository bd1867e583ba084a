"""`TextFiles`: text files in a jail, read and changed whole; shared by the tools that edit files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import ToolError
from ..tools import ToolErrorCode
from ._document import Document
from ._growing_file import Check
from ._jail import Jail
from ._paths import Parts


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
