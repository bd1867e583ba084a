"""`Read`: a tool that shows a model the lines of a text file, or the entries of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import anyio.to_thread
from pydantic import Field

from eagerstream._support.terms import text_block
from eagerstream.tools import ToolErrorCode, ToolResponse

from .._jail import Entry
from .._paths import Parts
from .shared import FileTool, Refused
from .versions import Version

DEFAULT_LIMIT: Final = 2000
MAX_PAGE_BYTES: Final = 51_200
_MAX_ENTRIES: Final = 10_000
_MAX_OFFSET: Final = 1_000_000_000


class Read(FileTool):
    """A tool that reads files and lists folders.

    A result has at most 51,200 bytes of a file. If the end was cut, the result is `PARTIAL` and says how to continue.
    If the model asked for fewer lines, it is a success. The tool remembers the version that it read. `Write` and `Edit`
    then refuse to change a file that another program has changed since.

    Cancelling a call abandons it: no version is remembered.
    """

    _name = "Read"
    _read_only = True

    async def _call(
        self,
        path: str,
        offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] = 0,
        limit: Annotated[int, Field(ge=1)] = DEFAULT_LIMIT,
    ) -> ToolResponse:
        """Read a text file, or list what is in a folder.

        The content of a file follows its first line as it is, without line numbers. In a list, a name that ends with /
        is a folder, one that ends with @ a symbolic link, which cannot be followed; others have their size in bytes.

        Args:
            path: The file or the folder, relative to the root folder, which is "." itself.
            offset: Lines (or entries) to leave out in front.
            limit: Lines (or entries) to show at most.
        """
        files = self._files
        parts = files.jail.parts(path)
        try:
            version, response = await anyio.to_thread.run_sync(self._look, parts, offset, limit, abandon_on_cancel=True)
        except (Refused, OSError) as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                files.known.forget(parts)  # if the model knows that it is missing, it may make it again
            return files.answer_to(error, parts)
        if version is not None:
            files.known.was_read(parts, version)
        return response

    def _look(self, parts: Parts, offset: int, limit: int) -> tuple[Version | None, ToolResponse]:
        try:
            content, found = self._files.jail.read(parts)
        except IsADirectoryError:
            return None, self._listing(parts, offset, limit)
        version = Version.of(found)
        return version, self._page(parts, content, version, offset, limit)

    def _page(self, parts: Parts, content: bytes, version: Version, offset: int, limit: int) -> ToolResponse:
        words, path = self._files.words, self._files.jail.shown(parts)
        document = self._files.document(parts, content)
        total = document.line_count
        if 0 < offset >= total:
            context = {"total_lines": total}
            raise self._files.refused(ToolErrorCode.INVALID_PARAM, words.past_end, parts, context, offset=offset)
        page = page_of(StringIO(document.text, newline="\n"), offset, limit)
        text = words.read.format(
            path=path, lines=page.lines, total=total, offset=offset, size=version.size, mtime=version.mtime_ms
        )
        data = {
            "content": page.content,
            "lines": page.lines,
            "total_lines": total,
            "size": version.size,
            "file_mtime_ms": version.mtime_ms,
            "file_size_bytes": version.size,
            "offset": offset,
            "limit": limit,
        }
        return self._answer(text, data, page, offset, limit)

    def _listing(self, parts: Parts, offset: int, limit: int) -> ToolResponse:
        jail = self._files.jail
        wanted = min(limit, _MAX_ENTRIES)
        walk = jail.walk(parts, depth=1, max_entries=offset + wanted + 1)
        entries = list(islice(walk, offset, None))
        lines = (
            f"{_name_of(entry)}{'/' if entry.is_folder else '@' if entry.is_link else f' {entry.size}'}\n"
            for entry in entries
        )
        page = page_of(lines, 0, wanted)
        path = jail.shown(parts)
        data = {
            "path": path,
            "is_directory": True,
            "entries": [_data_of(entry) for entry in entries[: page.lines]],
            "offset": offset,
            "limit": limit,
        }
        text = self._files.words.listed.format(path=path, count=page.lines, offset=offset)
        return self._answer(text, data, page, offset, limit)

    def _answer(self, text: str, data: dict[str, Any], page: Page, offset: int, limit: int) -> ToolResponse:
        # The file's content gets a block of its own: it cannot pass for the tool's words.
        content = [text_block(page.content)]
        reasons = []
        if page.is_cut:
            reasons.append(self._files.words.long_line.format(line=offset, max=MAX_PAGE_BYTES))
        is_as_asked = page.lines == limit != DEFAULT_LIMIT
        if page.has_more and not is_as_asked:
            reasons.append(self._files.words.more.format(next=offset + page.lines))
        if reasons:
            return ToolResponse.partial(text, data, reason=". ".join(reasons), content=content)
        return ToolResponse.success(text, data, content=content)


def _data_of(entry: Entry) -> dict[str, Any]:
    kind = "directory" if entry.is_folder else "link" if entry.is_link else "file"
    return {"name": _name_of(entry), "type": kind, "size": entry.size}


def _name_of(entry: Entry) -> str:
    """Return an entry's name on one line."""
    name = entry.parts[-1]
    return name if name.isprintable() else ascii(name)


class Page(NamedTuple):
    """Some lines of a text.

    Attributes:
        content: The text, at most `MAX_PAGE_BYTES`.
        lines: Number of lines.
        has_more: True if more lines follow.
        is_cut: True if the page is one line without its end.
    """

    content: str
    lines: int
    has_more: bool
    is_cut: bool


def page_of(lines: Iterable[str], offset: int, limit: int) -> Page:
    """Return at most `limit` lines after the first `offset`."""
    shown: list[str] = []
    room = MAX_PAGE_BYTES
    is_cut = False
    for line in islice(lines, offset, None):
        encoded = line.encode()
        if len(shown) == limit or (shown and len(encoded) > room):
            return Page("".join(shown), len(shown), has_more=True, is_cut=is_cut)
        if len(encoded) > room:
            line = encoded[:room].decode(errors="ignore")
            is_cut = True
        shown.append(line)
        room -= len(encoded)
    return Page("".join(shown), len(shown), has_more=False, is_cut=is_cut)
