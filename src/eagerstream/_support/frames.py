"""The places in the code that an exception has passed, and which of them are the library's own."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from pathlib import Path
from typing import Final

import anyio

OWN: Final = str(Path(__file__).parents[1])
"""The folder of the library."""

_WITH_US: Final = (OWN, contextlib.__file__, str(Path(anyio.__file__).parent))


def is_all_ours(error: BaseException) -> bool:
    """Return True if an exception has passed only the library, and what the library runs in: nothing of the user's."""
    frames = traceback.walk_tb(error.__traceback__)
    return all(frame.f_code.co_filename.startswith(_WITH_US) for frame, _ in frames)


def user_stacklevel() -> int:
    """Return the `stacklevel` of a warning of the calling function, for the line of the user that led to it."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_WITH_US):
        level += 1
        frame = frame.f_back
    return level - 1 if frame is not None else 2


def places(error: BaseException) -> list[str]:
    """Return the places, each as `file:line in function`, the innermost one last.

    Those of the library are left out if there are others.
    """
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        found.append((code.co_filename, f"{code.co_filename}:{line} in {code.co_qualname}"))
    others = [place for file, place in found if not file.startswith(OWN)]
    return others or [place for _, place in found]
