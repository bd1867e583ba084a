"""What an executor and a worker tell each other about one call.

    executor    Begin  (More* End)?  Interrupt?  Cancel?
    worker      Refused
                Started  Progress*  (Ended | Cancelled)

The input crosses as its raw text, never as parsed values: the worker reads it as the executor's own process would. What
tools made (values of progress, responses, exceptions) crosses as bytes inside the messages: see `crossing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..limits import Limits


@dataclass(frozen=True, slots=True)
class Begin:
    """Run a call.

    Attributes:
        block: The `tool_use` block as received at its start.
        index: Block index in the message.
        turn: Number of the turn, from 1.
        limits: Those of the run.
        text: The JSON text so far.
        whole: None while it is still written: the tool begins with what is there. Otherwise as in `End`.
        interrupted: Why nothing more of the input is wanted; None while it is.
    """

    block: Mapping[str, Any] = field(repr=False)
    index: int
    turn: int
    limits: Limits = field(repr=False)
    text: str = field(repr=False)
    whole: bool | None
    interrupted: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class More:
    """What has been written since."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class End:
    """The input has ended: closed by its block (`whole`), or cut off."""

    whole: bool


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Nothing more of the input is wanted, although it may still come: see `GrowingInput.interrupt`."""

    reason: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the tool; `Ended` or `Cancelled` follows.

    Attributes:
        unless_begun: Nothing, where the tool has been called already.
    """

    unless_begun: bool = False


ToWorker: TypeAlias = Begin | More | End | Interrupt | Cancel


@dataclass(frozen=True, slots=True)
class Started:
    """The tool is called now."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A value of progress, as `values.to_bytes` gives it."""

    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The input does not fit: the tool was not called."""

    text: str = field(repr=False)
    code: str
    error: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """The tool has answered, or raised.

    Attributes:
        response: The `ToolResponse`, as `response_as_bytes` gives it.
        raised: The response stands for an exception.
        error: What was raised, as `error_as_bytes` gives it.
        include_data: The response's data is for the model, too.
        blocked_s: The longest time, in seconds, for which it kept the worker's event loop.
    """

    response: bytes = field(repr=False)
    raised: bool = False
    error: bytes | None = field(default=None, repr=False)
    include_data: bool = False
    blocked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The tool was cancelled, as it was asked to be.

    Attributes:
        at_work: Its thread still runs: only the end of its process ends it.
    """

    at_work: bool = False


LastWord: TypeAlias = Refused | Ended | Cancelled
"""After one of these, nothing more is said of a call."""

FromWorker: TypeAlias = Started | Progress | LastWord
