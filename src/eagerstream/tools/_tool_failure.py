"""`ToolFailure`: an exception that a tool did not mean for the model. It is logged, without any value.

The model gets the text of such an exception, and the run continues. Without this, nobody else would learn of the bug.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from .._support.error_groups import members_of
from .._support.frames import places
from ..errors import InputInterrupted

_log = logging.getLogger(__name__)

_MAX_FRAMES: Final = 20
_MAX_CLASSES: Final = 5
_BROUGHT: Final = "__eagerstream_failure__"


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

    @classmethod
    def of(cls, tool: str, error: BaseException) -> Self | None:
        """Return the failure that an exception of a tool is; None for one that was made for the model.

        An input that ends early interrupts the tool that reads it. That is no failure of the tool.
        """
        if _BROUGHT in vars(error):
            brought = vars(error)[_BROUGHT]
            return brought and cls(tool, brought["error"], tuple(brought["frames"]))
        # By the name: the anthropic package's helpers have a `ToolError` of their own.
        unexpected = [
            member
            for member in members_of(error)
            if not isinstance(member, InputInterrupted)
            and not any(kind.__name__ in ("ToolError", "InputError") for kind in type(member).__mro__)
        ]
        if not unexpected:
            return None
        classes = [
            f"{type(each).__module__}.{type(each).__qualname__}".removeprefix("builtins.") for each in unexpected
        ]
        more = [f"{len(classes) - _MAX_CLASSES} more"] if len(classes) > _MAX_CLASSES else []
        frames = places(error) if unexpected[0] is error else [*places(error), *places(unexpected[0])]
        return cls(tool, ", ".join([*classes[:_MAX_CLASSES], *more]), tuple(frames[-_MAX_FRAMES:]))

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as plain data, for `bring`."""
        return {"error": self.error, "frames": [*self.frames]}

    @staticmethod
    def bring(error: BaseException, failure: dict[str, Any] | None) -> None:
        """Let an exception that was made anew in this process be the failure that it was in its own.

        Args:
            error: The exception.
            failure: From `to_dict`; None if it was made for the model.

        Raises:
            TypeError: A part of the failure is no text.
        """
        if failure is not None and not all(isinstance(text, str) for text in (failure["error"], *failure["frames"])):
            raise TypeError("the parts of a failure are texts")
        vars(error)[_BROUGHT] = failure


_watchers: Final[list[Callable[[ToolFailure], object]]] = []


def watch_failures(callback: Callable[[ToolFailure], object]) -> Callable[[], None]:
    """Call a function with each failure of a tool in this process, after it was logged: to count or to report bugs.

    Args:
        callback: It runs in the task of the call, and must neither block nor raise.

    Returns:
        A function that ends this.
    """
    _watchers.append(callback)

    def stop() -> None:
        if callback in _watchers:
            _watchers.remove(callback)

    return stop


def report_failure(tool: str, error: BaseException | None) -> None:
    """Log an exception of a tool at `ERROR`, unless it was made for the model or is None.

    `run` and `EarlyCalls` do this for each call. Use it where you call tools yourself.
    """
    failure = None if error is None else ToolFailure.of(tool, error)
    if failure is None:
        return
    _log.error("%s", failure)
    for watcher in [*_watchers]:
        watcher(failure)
