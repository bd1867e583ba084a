"""The places in the code that an exception has passed, and which of them are the library's own."""

from __future__ import annotations

import inspect
import traceback
from types import FrameType
from typing import Final

_WHAT_WE_RUN_IN: Final = ("anyio", "contextlib")


def is_ours(frame: FrameType) -> bool:
    """Return True if the code is that of one of the library's packages."""
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return package == "eagerstream" or package.startswith("eagerstream_")


def _is_with_us(frame: FrameType) -> bool:
    return is_ours(frame) or str(frame.f_globals.get("__name__")).partition(".")[0] in _WHAT_WE_RUN_IN


def is_all_ours(error: BaseException) -> bool:
    """Return True if an exception has passed only the library, and what the library runs in: nothing of the user's."""
    frames = traceback.walk_tb(error.__traceback__)
    return all(_is_with_us(frame) for frame, _ in frames)


def user_stacklevel() -> int:
    """Return the `stacklevel` of a warning of the calling function, for the line of the user that led to it."""
    level = 1
    frame = inspect.currentframe()
    while frame is not None and _is_with_us(frame):
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
        found.append((is_ours(frame), f"{code.co_filename}:{line} in {code.co_qualname}"))
    others = [place for is_own, place in found if not is_own]
    return others or [place for _, place in found]
