"""`Faults`: chooses the fault for each request."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, Final

from eagerstream._support.checks import check_count, check_fraction
from eagerstream._support.terms import assistant_messages
from eagerstream.errors import UsageError
from eagerstream.recordings import Recording

from ._faults import BYTEWISE, ERROR_STATUS, INSTEAD, UNANSWERED, Fault, FaultKind
from ._framing import framing_of

MAX_HISTORIES: Final = 10_000
"""Maximum number of histories whose attempts are counted. The least recently requested is forgotten first."""

# Errors of a valid request: a retry may succeed.
_PASSING_ERRORS: Final = ("rate_limit_error", "api_error", "timeout_error", "overloaded_error")
_RETRY_AFTER_S: Final = 1
_UNANSWERED_RATE: Final = 0.2
# Statuses of a proxy that could not reach its upstream.
_PAGE_STATUSES: Final = (502, 503, 504)

DRAWN_KINDS: Final = tuple(kind for kind in FaultKind if kind not in (FaultKind.STALL, FaultKind.ENDLESS))
"""Default kinds of `Faults.random`. The two others last until the client gives up."""


class Faults:
    """A schedule of faults for requests. The server asks it once for each response that would be complete.

    ::

        Faults({0: [Fault(FaultKind.HTTP_ERROR, status=529), Fault(FaultKind.RESET, after_bytes=700)]})

    lets the first turn fail twice and then succeed. The n-th request with the same `messages` gets the n-th fault of
    its turn. `None` in the list lets that attempt succeed, and so does the end of the list. Marks of `cache_control`
    and other fields of the request make no difference. A schedule may be used from several threads, and by several
    servers.

    Args:
        turns: The faults by turn, counted from 0: the number of assistant messages in the history, as in `Scenario`.
        max_histories: Maximum number of different `messages` whose attempts are counted. The attempts of the least
            recent then start again at 0.

    Raises:
        UsageError: A turn is not an integer of at least 0, a fault is not a `Fault`, or `max_histories` is less than 1.
    """

    def __init__(
        self, turns: Mapping[int, Sequence[Fault | None]] | None = None, *, max_histories: int = MAX_HISTORIES
    ) -> None:
        self._turns = {turn: tuple(faults) for turn, faults in (turns or {}).items()}
        for turn, faults in self._turns.items():
            check_count("a turn", turn, least=0)
            for fault in faults:
                if fault is not None and not isinstance(fault, Fault):
                    raise UsageError(f"turn {turn}: expected faults, not {fault!r}")
        check_count("max_histories", max_histories)
        self._lottery: _Lottery | None = None
        self._max_histories = max_histories
        self._attempts: OrderedDict[bytes, int] = OrderedDict()
        self._injected: Counter[FaultKind] = Counter()
        self._lock = threading.Lock()

    @classmethod
    def random(
        cls,
        seed: int | str,
        rate: float = 0.05,
        kinds: Collection[FaultKind] | None = None,
        *,
        max_histories: int = MAX_HISTORIES,
    ) -> Faults:
        """Return a schedule in which any response may fail, as the seed decides.

        The fault of a request follows from the seed, its `messages` and the number of times they were sent before. It
        does not depend on concurrent requests, and the same seed repeats the same faults for the same conversations.
        Errors are drawn from those that may be gone at the next attempt: 429 with and without retry-after, 500, 504,
        529.

        Args:
            seed: The same seed gives the same faults.
            rate: Share of responses that fail, 0 to 1.
            kinds: The kinds to draw from. `None` means all but `STALL` and `ENDLESS`, which last until the client gives
                up.
            max_histories: As for the class.

        Raises:
            UsageError: `rate` is out of range, `kinds` has no kind of fault, or `max_histories` is less than 1.
        """
        faults = cls(max_histories=max_histories)
        faults._lottery = _Lottery(seed, rate, DRAWN_KINDS if kinds is None else kinds)
        return faults

    def fresh(self) -> Faults:
        """Return the same schedule with no attempt counted, for another server or test."""
        faults = Faults(self._turns, max_histories=self._max_histories)
        faults._lottery = self._lottery
        return faults

    @property
    def injected(self) -> Counter[FaultKind]:
        """Number of faults of each kind that were given out, in a new counter."""
        with self._lock:
            return self._injected.copy()

    def draw(self, request: Mapping[str, Any], recording: Recording) -> Fault | None:
        """Return the fault for a request, and count the attempt. `None` lets the complete response through.

        Args:
            request: The body of the request, `{"messages": [...], ...}`.
            recording: The response without a fault.
        """
        history = history_digest(request)
        attempt = self._count(history)
        if self._lottery is not None:
            fault = self._lottery.draw(history, attempt, recording)
        else:
            faults = self._turns.get(assistant_messages(request), ())
            fault = faults[attempt] if attempt < len(faults) else None
        if fault is not None:
            with self._lock:
                self._injected[fault.kind] += 1
        return fault

    def _count(self, history: bytes) -> int:
        """Return the number of earlier attempts of `history`, and count this one."""
        with self._lock:
            attempt = self._attempts.pop(history, 0)
            self._attempts[history] = attempt + 1  # which also makes it the latest
            if len(self._attempts) > self._max_histories:
                self._attempts.popitem(last=False)
        return attempt


class _Lottery:
    """Faults that a seed decides."""

    def __init__(self, seed: int | str, rate: float, kinds: Collection[FaultKind]) -> None:
        check_fraction("a rate of faults", rate)
        self._seed = seed
        self._rate = rate
        self._kinds = [kind for kind in FaultKind if kind in kinds]  # the order of a set differs between processes
        if not self._kinds:
            raise UsageError("there is no kind of fault to draw from")

    def draw(self, history: bytes, attempt: int, recording: Recording) -> Fault | None:
        random = Random(f"{self._seed} {history.hex()} {attempt}")
        if random.random() >= self._rate:
            return None
        kind = random.choice(self._kinds)
        match kind:
            case FaultKind.HTTP_ERROR:
                status = ERROR_STATUS[random.choice(_PASSING_ERRORS)]
                wait_s = random.choice((None, _RETRY_AFTER_S)) if status == 429 else None
                return Fault(kind, status=status, retry_after_s=wait_s)
            case FaultKind.HTML_PAGE:
                return Fault(kind, status=random.choice(_PAGE_STATUSES))
            case _ if kind in INSTEAD:
                return Fault(kind)
            case _ if kind in UNANSWERED and random.random() < _UNANSWERED_RATE:
                return Fault(kind, before_headers=True)
            case _ if kind in BYTEWISE:
                return Fault(kind, after_bytes=random.randint(0, len(recording.body)))
            case _:
                events = sum(1 for _ in framing_of(recording).events(recording.body))
                error_type = random.choice(_PASSING_ERRORS) if kind is FaultKind.ERROR_EVENT else None
                return Fault(kind, after_events=random.randint(0, events), error_type=error_type)


# --- attempts of the same request -------------------------------------------------------------------------------------


def history_digest(request: Mapping[str, Any]) -> bytes:
    """Return 16 bytes for the messages. Messages that differ only in `cache_control` get the same bytes."""
    return hashlib.blake2b(plain_history(request).encode(), digest_size=16).digest()


def plain_history(request: Mapping[str, Any]) -> str:
    """Return the messages as JSON in one form, without `cache_control`."""
    messages = request.get("messages")
    plain = [_unmarked(message, levels=2) for message in messages] if isinstance(messages, list) else messages
    return json.dumps(plain, sort_keys=True)


def _unmarked(holder: Any, *, levels: int) -> Any:
    """Return a message or block without its marks, and without those in `levels` levels of its `content`.

    A text becomes a block, because only a block can be marked. Only two levels can be marked: blocks of messages, and
    blocks of tool results. In an input, a key of that name is the model's own.
    """
    if not isinstance(holder, dict):
        return holder
    plain = {name: value for name, value in holder.items() if name != "cache_control"}
    content = plain.get("content")
    if isinstance(content, str):
        plain["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list) and levels:
        plain["content"] = [_unmarked(block, levels=levels - 1) for block in content]
    return plain
