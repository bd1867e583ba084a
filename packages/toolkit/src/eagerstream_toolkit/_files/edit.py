"""`Edit` and `MultiEdit`: tools that replace pieces of a text file. They make all their edits or none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Final

import anyio.to_thread
from pydantic import Field
from typing_extensions import TypedDict

from eagerstream.tools import ToolErrorCode, ToolResponse

from .._paths import Parts
from .._text_files import NoSingleMatch
from .change import Change
from .shared import FileTool, Refused, SharedFiles
from .versions import Expected, Known, Version, Written

_MAX_EDITS: Final = 256


class Replacement(TypedDict):
    """One edit of several."""

    old_string: Annotated[str, Field(min_length=1, description="As in Edit, in what the edits before it left.")]
    new_string: Annotated[str, Field(description="What comes in its place.")]


class Edit(FileTool):
    """A tool that replaces one piece of a file.

    The piece must occur exactly once. A byte order mark, CRLF line ends and a missing last line end survive. If the
    file changed since it was read, or since the version that the model names, nothing is written (`CONFLICT`). The
    model need not read the file first: if it knows a piece that occurs once, it knows the text that it replaces.

    If a call is cancelled, it first finishes its edit.
    """

    _name = "Edit"
    _fields: ClassVar = {"new": "new_string", "old": "old_string"}

    async def _call(
        self,
        path: str,
        old_string: Annotated[str, Field(min_length=1)],
        new_string: str,
        file_mtime_ms: int | None = None,
    ) -> ToolResponse:
        """Replace a piece of a text file.

        Args:
            path: The file, relative to the root folder.
            old_string: What is replaced, exactly as Read shows it. It must be in the file once: take in as many of the
                lines around it as that needs.
            new_string: What comes in its place.
            file_mtime_ms: The file_mtime_ms of the version to edit, if it is not the one you read last. Nothing is
                written if the file has changed since.
        """
        edits: list[Replacement] = [{"old_string": old_string, "new_string": new_string}]
        return await _edit(self._files, path, edits, file_mtime_ms, is_single=True)


class MultiEdit(FileTool):
    """A tool that replaces several pieces of a file in order. Each edit sees the result of those before it.

    Either all edits are made or none. The rest is as for `Edit`.
    """

    _name = "MultiEdit"
    _fields: ClassVar = {"new": "new_string", "old": "old_string", "each": "edits"}

    async def _call(
        self,
        path: str,
        edits: Annotated[list[Replacement], Field(min_length=1, max_length=_MAX_EDITS)],
        file_mtime_ms: int | None = None,
    ) -> ToolResponse:
        """Replace several pieces of one text file, one after the other; all of them, or none if one cannot be made.

        Args:
            path: The file, relative to the root folder.
            edits: In order; each finds its old_string in what the edits before it left.
            file_mtime_ms: The file_mtime_ms of the version to edit, if it is not the one you read last. Nothing is
                written if the file has changed since.
        """
        return await _edit(self._files, path, edits, file_mtime_ms, is_single=False)


async def _edit(
    files: SharedFiles, path: str, edits: Sequence[Replacement], told_ms: int | None, *, is_single: bool
) -> ToolResponse:
    parts = files.jail.parts(path)
    known = files.known.get(parts)
    try:
        edit = partial(_edit_in_thread, files, parts, edits, known, told_ms, is_single=is_single)
        written, change = await anyio.to_thread.run_sync(edit)
    except (Refused, OSError) as error:
        return files.answer_to(error, parts)
    said = files.words.edited if is_single else files.words.edited_often
    data = {"modified": True, "changed_bytes": change, **files.was_written(parts, written)}
    if not is_single:
        data["num_edits"] = len(edits)
    return ToolResponse.success(said.format(path=files.jail.shown(parts), count=len(edits), change=change), data)


def _edit_in_thread(
    files: SharedFiles,
    parts: Parts,
    edits: Sequence[Replacement],
    known: Known | None,
    told_ms: int | None,
    *,
    is_single: bool,
) -> tuple[Written, int]:
    """Edit a file. Return the written version, and the change of its size in bytes."""
    content, found = files.jail.read(parts)
    version = Version.of(found)
    files.require_unchanged(parts, Expected(version, known, told_ms), version)
    document = files.document(parts, content)
    for index, edit in enumerate(edits):
        try:
            document = document.replaced(*document.only_place_of(edit["old_string"]), edit["new_string"])
        except NoSingleMatch as wrong:
            words, code, context = files.words, ToolErrorCode.INVALID_PARAM, {"matches": wrong.count}
            if is_single:
                raise files.refused(code, words.no_single_match, parts, context, count=wrong.count) from None
            context["edit_index"] = index
            what = words.no_single_match.format(count=wrong.count)
            raise files.refused(code, words.which_edit, parts, context, index=index, what=what) from None
    edited = document.encode()
    change = Change(files, parts)
    try:
        change.begin()
        change.write(edited)
        written = change.commit(Expected(version))
    finally:
        change.discard()
    return written, len(edited) - len(content)
