"""Types for checkers: the messages of a request, and the output of a response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypeVar  # with defaults, which the one of Python has from 3.13 on

from eagerstream_wire import AssistantMessage

if TYPE_CHECKING:
    from anthropic.types import MessageParam

    # Without the messages of the beta API: with both, pyright took 4 s for each call of `run`, and 0.1 s with one.
    RequestMessage: TypeAlias = MessageParam | AssistantMessage
else:
    # The anthropic package takes long to import, and only type checkers need its types.
    RequestMessage: TypeAlias = dict[str, Any]

OutputT = TypeVar("OutputT", default=Any)
"""Of a class: `Run` alone is a run with any output."""
ValueT = TypeVar("ValueT", default=None)
"""Of a function: without `output=` there is none."""
