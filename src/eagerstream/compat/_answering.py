"""Which call of a run an older tool answers: it is given its arguments only, and its threads belong to the call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..tools import ToolCall

_answered: ContextVar[ToolCall | None] = ContextVar("answered", default=None)


@contextmanager
def answering(call: ToolCall) -> Iterator[None]:
    """What runs inside of this answers a call: where it is given up in a thread, its group waits for that."""
    token = _answered.set(call)
    try:
        yield
    finally:
        _answered.reset(token)


def answered_call() -> ToolCall | None:
    """The call that is being answered; None outside of a run."""
    return _answered.get()
