"""`EagerTextEditor`: a text editor that writes new files to disk as the model writes them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Unpack

import anyio
from anyio.to_thread import run_sync
from pydantic import Field

from eagerstream import TextEdit
from eagerstream._support.options import with_defaults
from eagerstream.errors import InputInterrupted, ToolError
from eagerstream.tools import Later, RunningCall, TextStream, Tool, ToolErrorCode, ToolOptions, ToolResponse

from .._growing_file import Draft, GrowingFile, require_whole
from .._jail import Jail
from .._paths import Parts
from .._text_files import in_words
from .._tool_options import group_of
from .commands import EditorCommands, created

_REPORT_S: Final = 0.1
"""Minimum time between progress reports."""

_NO_TEXT: Final = TextStream.of("")
_NO_STR: Final[Later[str | None]] = Later.of(None)
_NO_LINE: Final[Later[int | None]] = Later.of(None)
_NO_RANGE: Final[Later[list[int] | None]] = Later.of(None)


class EagerTextEditor(Tool):
    """A tool that lets the model view, create and edit the text files of a folder. New files grow as they are written.

        run(client, tools=[EagerTextEditor("project", root_name="/repo")], ...)

    It has the commands of `TextEditor` with a schema of our own, because the API streams only such inputs eagerly. A
    new file exists under its name from the first character, and everybody can watch it grow. An existing file is
    replaced in one step when the input is complete and valid. If the input is cut or invalid, or the call is rejected
    or cancelled, the new file and its new folders are removed. The other commands start when their input is complete.
    Progress reports are `{"path": str, "lines": int, "characters": int}`: the written part of a file.

    Args:
        root: The folder. It must exist.
        max_characters: Maximum number of characters of a file to show at once. `None` sets no bound.
        root_name: The model's name for the folder, for example `"/repo"`. Without it, paths are relative, or start with
            the folder's own path.
        keep_partial: If the input of a new file is cut or becomes invalid, or the call is cancelled, keep the written
            part. The model gets its length. An existing file stays unchanged. If the complete cut input arrived at
            once, the call never started, and there is no file.
        options: See `ToolOptions`. The default name is `text_editor`.

    Raises:
        UsageError: The folder is missing or cannot be opened, or an option is wrong.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        max_characters: int | None = None,
        root_name: str | None = None,
        keep_partial: bool = False,
        **options: Unpack[ToolOptions],
    ) -> None:
        self._jail = Jail(root, name=root_name)
        self._commands = EditorCommands(self._jail, max_characters=max_characters)
        self._keep_partial = keep_partial
        self._growing: dict[Parts, _Writing] = {}
        options = with_defaults(options, name="text_editor", group=group_of(self._jail.identity), edits=self._edits_of)
        super().__init__(self._edit, **options)

    async def _edit(
        self,
        command: Annotated[Literal["view", "create", "str_replace", "insert"], "What to do."],
        path: Annotated[str, "The file, or for view also a folder."],
        *,
        call: RunningCall | None,
        file_text: Annotated[TextStream, "For create, required: the whole content of the file."] = _NO_TEXT,
        view_range: Annotated[
            Later[Annotated[list[int], Field(min_length=2, max_length=2)] | None],
            "For view of a file: the first and the last line to show, counted from 1; -1 for the end of the file.",
        ] = _NO_RANGE,
        old_str: Annotated[
            Later[str | None], "For str_replace, required: the text to replace, which must be in the file exactly once."
        ] = _NO_STR,
        new_str: Annotated[
            Later[str | None], "For str_replace: the new text; without, the old one is removed."
        ] = _NO_STR,
        insert_line: Annotated[
            Later[int | None], "For insert, required: the line to insert after; 0 for the beginning of the file."
        ] = _NO_LINE,
        insert_text: Annotated[Later[str | None], "For insert, required: the lines to insert."] = _NO_STR,
    ) -> ToolResponse:
        """View, create and edit text files.

        create makes a file, or replaces the whole of one that is there; str_replace and insert change a part of one.
        """
        if command == "create":
            return await self._create(path, file_text, call)
        try:
            await self._require_whole(call)
        except InputInterrupted:
            raise ToolError("Nothing was changed.", code=ToolErrorCode.INVALID_FORMAT) from None
        given = {
            "command": command,
            "path": path,
            "view_range": await view_range,
            "old_str": await old_str,
            "new_str": await new_str,
            "insert_line": await insert_line,
            "insert_text": await insert_text,
        }
        return await run_sync(self._commands.run, given)

    def _edits_of(self, input: Mapping[str, Any]) -> TextEdit | None:
        edit = self._commands.edits(input)
        if edit is not None and edit.new == "file_text":
            writing = self._growing.get(self._jail.parts(input["path"]))
            if writing is not None and writing.creates:  # the file that was read is the new one
                return replace(edit, text="")
        return edit

    async def _create(self, path: str, text: TextStream, call: RunningCall | None) -> ToolResponse:
        parts = self._jail.parts(path)
        writing = self._growing[parts] = _Writing(self._jail, parts, call)
        try:
            await run_sync(writing.begin)
            try:
                async for piece in text:
                    await writing.write(piece)
                await self._require_whole(call)
                if not writing.characters:
                    value = None if call is None else call.input.value
                    is_missing = text is _NO_TEXT if value is None else "file_text" not in value
                    if is_missing:  # this does not mean an empty file
                        raise ToolError("Error: `file_text` is missing", code=ToolErrorCode.INVALID_PARAM)
            except InputInterrupted:
                return await run_sync(self._end_cut, writing, call)
            await run_sync(writing.commit)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(ToolError):
                await run_sync(self._end_cut, writing, call)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(writing.discard)
            self._growing.pop(parts, None)
        writing.report()
        return ToolResponse.success(created(writing.shown, replaced=writing.replaces))

    def _end_cut(self, writing: _Writing, call: RunningCall | None) -> ToolResponse:
        """End a file whose input will not be complete: keep the written part if `keep_partial` is set.

        Raises:
            ToolError: Nothing was kept.
        """
        is_rejected = call is not None and call.input.interrupted is not None
        if writing.replaces:
            raise ToolError(f"{writing.shown} is as it was before.", code=ToolErrorCode.INVALID_FORMAT)
        if not self._keep_partial or is_rejected:
            raise ToolError(f"Nothing was kept of {writing.shown}.", code=ToolErrorCode.INVALID_FORMAT)
        writing.commit()
        kept = f"{writing.lines} lines, {writing.characters} characters"
        return ToolResponse.partial("", reason=f"{writing.shown} was kept as far as it came: {kept}.")

    async def _require_whole(self, call: RunningCall | None) -> None:
        """Wait for the complete input, as `require_whole` does. An input that does not fit is a `ToolError`."""
        if call is not None and (fault := await require_whole(self, call)) is not None:
            raise ToolError(fault, code=ToolErrorCode.INVALID_PARAM)


class _Writing(Draft):
    """A file on its way to the disk, and its progress."""

    def __init__(self, jail: Jail, parts: Parts, call: RunningCall | None) -> None:
        super().__init__()
        self._jail = jail
        self._parts = parts
        self._call = call
        self._reported_s = float("-inf")
        self._ends_line = True
        self._line_ends = 0
        self.shown = jail.shown(parts)
        self.creates = False
        self.replaces = False
        self.characters = 0

    @property
    def lines(self) -> int:
        """Number of lines so far, including an unfinished one."""
        return self._line_ends + (not self._ends_line)

    def begin(self) -> None:
        """Open the file: under its own name, or as a replacement if the name is taken."""
        with self._step():
            try:
                self._file = self._jail.create(self._parts)
                self.creates = True
            except FileExistsError:
                self._file = self._jail.replace(self._parts)
                self.replaces = True

    async def write(self, piece: str) -> None:
        """Append text, and return after it was written."""
        await run_sync(self._append, piece)
        self.characters += len(piece)
        self._line_ends += piece.count("\n")
        self._ends_line = piece.endswith("\n")
        if anyio.current_time() >= self._reported_s + _REPORT_S:
            self.report()

    def report(self) -> None:
        """Report the progress."""
        self._reported_s = anyio.current_time()
        if self._call is not None:
            self._call.report({"path": self.shown, "lines": self.lines, "characters": self.characters})

    def commit(self) -> None:
        """Keep the file."""
        with self._step():
            self._opened.commit()
            self._is_over = True

    def discard(self) -> None:
        """Discard the file, as `Draft.discard` documents."""
        with suppress(OSError):  # the error that led here is reported instead
            super().discard()

    def _append(self, piece: str) -> None:
        with self._step():
            self._opened.write(piece.encode())

    @property
    def _opened(self) -> GrowingFile:
        if self._file is None:  # cancelled before it was opened
            raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
        return self._file

    @contextmanager
    def _step(self) -> Iterator[None]:
        missing = f"Error: {self.shown} cannot be created: a file stands in its way"
        with in_words(self.shown, missing=missing), super()._step():
            yield
