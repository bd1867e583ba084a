"""Files that are written whole or not at all, and read whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import UsageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write a file to, which takes its place when the block ends.

    Where the block raises, or is cancelled, what was written goes, and what was at `path` stays.

    Raises:
        OSError: It cannot take its place.
    """
    beside = path.with_name(f"{path.name}.part")
    try:
        yield beside
        beside.replace(path)
    except BaseException:
        with suppress(OSError):  # it may not be there; what went wrong before is told
            beside.unlink()
        raise


def read_whole(path: Path, *, max_bytes: int) -> bytes:
    """What is in a file that somebody gave.

    Raises:
        UsageError: It cannot be read, or is larger than that, with which no more of it was read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise UsageError(f"{path}: larger than {max_bytes:,} bytes")
    return content
