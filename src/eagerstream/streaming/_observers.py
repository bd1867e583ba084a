"""`Observer`: sees the events of a stream or a run without taking part. `on_feed`: sees each feed that is entered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

E_contra = TypeVar("E_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class FeedEnd:
    """The end of a feed.

    Attributes:
        status: A value of `RunStatus`; for a single request `completed`, `cancelled` or `error`.
        turns: Number of complete responses.
        usage: The usage in the form of the API.
        error: `type` and `text` of the error that was raised; None if there was none.
        violations: Number of violations of the protocol by the peer, as in `stream.violations`.
        limit: The option whose bound has ended a run; None if none has.
        cost: The cost of the usage, as the option `price` of a run counts it; 0 without one.
    """

    status: str
    turns: int
    usage: Mapping[str, Any]
    error: Mapping[str, str] | None
    violations: int = 0
    limit: str | None = None
    cost: float = 0.0


class Observer(Protocol[E_contra]):
    """Sees the events of a feed as they come, before its consumer does; never takes part in it.

    It is called from the task in which the event happens, which waits for it: it must return at once. If it raises, it
    is dropped, with a warning in the log. Context variables that it sets hold in that task from then on, and in the
    tasks that it starts: at a `ToolStart`, for the tool.

    With an attribute `wants_changes = True`, the `InputDelta`s carry the changes that their fragments make. Those of an
    input in one call of `take` may leave them to the last of them. With an attribute `wants_deltas = False`, the
    observer needs no `InputDelta`s, which are not made if nobody wants them. With an attribute `wants_chunks = True`,
    it is also shown each chunk of a response without events, as an empty sequence. With an attribute
    `wants_pings = True`, it is shown each `Ping`.
    """

    # Synchronous, and in the same task. A queue to another task could fill up, and a trace has to set its context in
    # the task that sends the request or starts the tool (test_what_is_set_holds_for_the_request_and_for_the_tool).

    def take(self, events: Sequence[E_contra], /) -> object:
        """Take events that came, in their order; `InputDelta`s are not merged here."""
        ...

    def end(self, end: FeedEnd, /) -> object:
        """Take the end: nothing more comes."""
        ...


# A protocol of its own: an observer that has no use for requests need not have the method.
@runtime_checkable
class RequestObserver(Observer[E_contra], Protocol[E_contra]):
    """An `Observer` that sees requests, too.

    Attributes:
        wants_deltas: False: it needs no `InputDelta`s, which are not made if nobody wants any.
    """

    wants_deltas: bool

    def sending(self, request: Mapping[str, Any], /) -> object:
        """Take the parameters of a request that is about to be sent, by the task that this is called in."""
        ...


OnFeed: TypeAlias = Callable[[Any], object]
"""Called with each feed, an `EventFeed`, when it is entered."""

# Two scopes. Tracing of a process wants every feed. A hub wants the feeds of one task, and those that the tools of that
# task start: these tasks are the ones that inherit a context variable.
_everywhere: list[OnFeed] = []
_beginnings: ContextVar[tuple[OnFeed, ...]] = ContextVar("beginnings", default=())


@contextmanager
def on_feed(begins: OnFeed) -> Iterator[None]:
    """Show each feed that is entered within the block, by this task or those that it starts, to `begins`."""
    token = _beginnings.set((*_beginnings.get(), begins))
    try:
        yield
    finally:
        _beginnings.reset(token)


def on_every_feed(begins: OnFeed) -> Callable[[], None]:
    """Show each feed of this process to `begins` when it is entered, until the returned function is called."""
    _everywhere.append(begins)

    def stop() -> None:
        if begins in _everywhere:
            _everywhere.remove(begins)

    return stop


def beginnings() -> tuple[OnFeed, ...]:
    """Return the callbacks for a feed that is entered here and now."""
    return (*_everywhere, *_beginnings.get())
