"""`Observer`: who sees the events of a stream or a run without taking part; and who is told of those that begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

E_contra = TypeVar("E_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class FeedEnd:
    """How a feed ended.

    Attributes:
        status: A value of `RunStatus`; of a single request `completed`, `cancelled` or `error`.
        turns: Replies received whole.
        usage: As the API has it.
        error: Its `type` and `text`, where something was raised; else None.
        violations: Number of violations of the protocol by the peer, as in `stream.violations`.
    """

    status: str
    turns: int
    usage: Mapping[str, Any]
    error: Mapping[str, str] | None
    violations: int = 0


class Observer(Protocol[E_contra]):
    """Sees the events of a feed as they come, before its consumer does; never takes part in it.

    It is called from the task in which a thing happens, which waits for it: it must return at once. One that raises is
    dropped, and told of in the log. What it sets of context variables holds in that task from then on, and in those
    that the task starts: at a `ToolStart` for the tool.

    With an attribute `wants_changes = True`, each `InputDelta` carries the changes that its fragment makes. With an
    attribute `wants_deltas = False`, it does without `InputDelta`s, which are not made if nobody wants them.
    """

    def take(self, events: Sequence[E_contra], /) -> object:
        """These events came, in this order; `InputDelta`s are not merged here.

        There are none if a chunk of a response brought only deltas that nobody wants.
        """
        ...

    def end(self, end: FeedEnd, /) -> object:
        """Nothing more comes."""
        ...


@runtime_checkable
class RequestObserver(Observer[E_contra], Protocol[E_contra]):
    """An `Observer` that is told of requests, too.

    Attributes:
        wants_deltas: False: it does without `InputDelta`s, which are not made where nobody wants any.
    """

    wants_deltas: bool

    def sending(self, request: Mapping[str, Any], /) -> object:
        """A request is about to be sent with these parameters, by the task that this is called in."""
        ...


OnFeed: TypeAlias = Callable[[Any], object]
"""Told of each feed, a `handover.EventFeed`, when it is entered."""

_everywhere: list[OnFeed] = []
_beginnings: ContextVar[tuple[OnFeed, ...]] = ContextVar("beginnings", default=())


@contextmanager
def on_feed(begins: OnFeed) -> Iterator[None]:
    """Within the block, in this task and those that it starts, each feed is shown to `begins` when it is entered."""
    token = _beginnings.set((*_beginnings.get(), begins))
    try:
        yield
    finally:
        _beginnings.reset(token)


def on_every_feed(begins: OnFeed) -> Callable[[], None]:
    """From now on each feed of this process is shown to `begins` when it is entered; what is given ends that."""
    _everywhere.append(begins)

    def stop() -> None:
        if begins in _everywhere:
            _everywhere.remove(begins)

    return stop


def beginnings() -> tuple[OnFeed, ...]:
    """Who is to be told of a feed that is entered here and now."""
    return (*_everywhere, *_beginnings.get())
