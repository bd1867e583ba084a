"""`report_failure`: exceptions that a tool did not mean for the model, in the log, without any value.

The model gets the text of such an exception, and the run continues. Without this, nobody else would learn of the bug.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import InputInterrupted
from ._response import members_of

_log = logging.getLogger(__name__)

_OWN: Final = str(Path(__file__).parents[1])
_MAX_FRAMES: Final = 20
_MAX_CLASSES: Final = 5


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """An exception of a tool, without its message, which may quote an argument.

    Attributes:
        tool: The name of the tool.
        error: The class of the exception; of a group, those of its members.
        frames: The places in the code, each as `file:line in function`; the innermost one last, at most 20. Those of
            this library are left out if there are others.
    """

    tool: str
    error: str
    frames: tuple[str, ...]

    def __str__(self) -> str:
        return f"the tool {self.tool!r:.80} raised {self.error}" + "".join(f"\n  {frame}" for frame in self.frames)


watchers: Final[list[Callable[[ToolFailure], object]]] = []
"""Called with each failure. The pytest plugin adds one for the time of a test."""


def report_failure(tool: str, error: BaseException | None) -> None:
    """Log an exception of a tool, unless it was made for the model."""
    failure = None if error is None else failure_of(tool, error)
    if failure is None:
        return
    _log.error("%s", failure)
    for watcher in watchers:
        watcher(failure)


def failure_of(tool: str, error: BaseException) -> ToolFailure | None:
    """Return the failure that an exception of a tool is; None for one that was made for the model.

    An input that ends early interrupts the tool that reads it. That is no failure of the tool.
    """
    if _BROUGHT in vars(error):
        brought = vars(error)[_BROUGHT]
        return brought and ToolFailure(tool, brought["error"], tuple(brought["frames"]))
    unexpected = [member for member in members_of(error) if not _is_expected(member)]
    if not unexpected:
        return None
    classes = [f"{type(each).__module__}.{type(each).__qualname__}".removeprefix("builtins.") for each in unexpected]
    more = [f"{len(classes) - _MAX_CLASSES} more"] if len(classes) > _MAX_CLASSES else []
    frames = _frames_of(error) if unexpected[0] is error else [*_frames_of(error), *_frames_of(unexpected[0])]
    return ToolFailure(tool, ", ".join([*classes[:_MAX_CLASSES], *more]), tuple(frames[-_MAX_FRAMES:]))


def _is_expected(error: BaseException) -> bool:
    # By the name: the anthropic package's helpers have a `ToolError` of their own.
    kinds = type(error).__mro__
    return isinstance(error, InputInterrupted) or any(kind.__name__ in ("ToolError", "InputError") for kind in kinds)


def _frames_of(error: BaseException) -> list[str]:
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        found.append((code.co_filename, f"{code.co_filename}:{line} in {code.co_qualname}"))
    others = [place for file, place in found if not file.startswith(_OWN)]
    return others or [place for _, place in found]


# --- between processes ------------------------------------------------------------------------------------------------

_BROUGHT: Final = "__eagerstream_failure__"


def failure_as_json(error: BaseException) -> dict[str, Any] | None:
    """Return what `bring_failure` needs where the exception is made anew."""
    failure = failure_of("", error)
    return None if failure is None else {"error": failure.error, "frames": [*failure.frames]}


def bring_failure(error: BaseException, failure: dict[str, Any] | None) -> None:
    """Let an exception that was made anew here be the failure that it was in its own process."""
    if failure is not None and not all(isinstance(text, str) for text in (failure["error"], *failure["frames"])):
        raise TypeError("the parts of a failure are texts")
    vars(error)[_BROUGHT] = failure
