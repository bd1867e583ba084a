"""`Write`: a tool that starts to write a file before the model has finished its content."""

from __future__ import annotations

from typing import ClassVar, Final

import anyio
import anyio.to_thread

from eagerstream.errors import InputInterrupted
from eagerstream.tools import Later, RunningCall, TextStream, ToolErrorCode, ToolResponse

from .._growing_file import require_whole
from .change import Change
from .shared import FileTool, Refused
from .versions import Expected

_BUFFER_CHARS: Final = 64 * 1024
_NOT_TOLD: Final[Later[int | None]] = Later.of(None)


class Write(FileTool):
    """A tool that writes complete files.

    The content goes to a temporary file as it arrives. When the input is complete and valid, that file replaces the old
    one in one step. If the input is cut, nothing of it stays. Readers of the file see the old content or the new one.

    If a file changed since it was read, or since the version that the model names, nothing is written (`CONFLICT`). The
    content is written unchanged: UTF-8, with the model's line ends.

    If a call is cancelled before the exchange, it leaves nothing behind.
    """

    _name = "Write"
    _fields: ClassVar = {"new": "content"}

    async def _call(
        self,
        path: str,
        content: TextStream,
        file_mtime_ms: Later[int | None] = _NOT_TOLD,
        call: RunningCall | None = None,
    ) -> ToolResponse:
        """Write a whole file: make a new one, or replace one that you have read.

        Folders that do not exist are made. To change a part of a file, edit it instead.

        Args:
            path: The file, relative to the root folder.
            content: All of its text.
            file_mtime_ms: The file_mtime_ms of the version to replace, if it is not the one you read last. Nothing is
                written if the file has changed since.
        """
        files = self._files
        parts = files.jail.parts(path)
        known = files.known.get(parts)
        is_early = call is not None and call.input.outcome is None
        change = Change(files, parts)
        try:
            found = await anyio.to_thread.run_sync(change.begin)
            await _fill(change, content)
            told_ms = await file_mtime_ms
            if call is not None and is_early and await require_whole(self, call) is not None:
                raise InputInterrupted((), "the call is not valid")
            if files.require_read and found is not None and known is None and told_ms is None:
                raise files.refused(ToolErrorCode.CONFLICT, files.words.unread, parts)
            written = await anyio.to_thread.run_sync(change.commit, Expected(found, known, told_ms))
        except InputInterrupted:
            return files.refused(ToolErrorCode.INVALID_FORMAT, files.words.not_whole, parts).response
        except (Refused, OSError) as error:
            return files.answer_to(error, parts)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(change.discard)
        data = {"written": True, **files.was_written(parts, written)}
        text = files.words.wrote.format(path=files.jail.shown(parts), size=written.version.size)
        return ToolResponse.success(text, data)


async def _fill(change: Change, content: TextStream) -> None:
    """Write the content as it arrives, in blocks: a step into a thread costs more than most fragments."""
    pieces: list[str] = []
    chars = 0
    async for piece in content:
        pieces.append(piece)
        chars += len(piece)
        if chars >= _BUFFER_CHARS:
            await anyio.to_thread.run_sync(change.write, "".join(pieces).encode())
            pieces.clear()
            chars = 0
    await anyio.to_thread.run_sync(change.write, "".join(pieces).encode())
