"""`MessageThreads`: the double keeps conversations, as the API does with its beta of message threads.

Sources: the API's page on message threads, and `lib/threads` of the anthropic package, version 2.12. The statuses of
refusals other than `thread_not_found` are not documented; clients look at the `error_code`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Literal, TypeAlias, get_args

from eagerstream._support.checks import check_choice, check_seconds
from eagerstream.errors import EagerStreamError
from eagerstream.recordings import Chunk, Recording

from ._framing import framing_of
from ._injection import slice_chunks, time_at
from ._one_piece import final_message
from ._platforms import Refused
from ._received import ReceivedRequest

THREADS_BETA: Final = "message-threads-2026-08-12"
NO_THREADS: Final = "thread: Extra inputs are not permitted"
"""The API's words for a thread if there are none."""

ThreadSupport: TypeAlias = Literal["full", "refuses", "ignores"]
"""The ways in which a server treats threads: it keeps them, it refuses the unknown field, or it ignores the field."""

_KEPT_S: Final = 300.0
_MAX_THREADS: Final = 1_000
_MAX_BREAKPOINTS: Final = 3
_CREATE_ONLY: Final = ("system", "tools")


@dataclass(slots=True)
class _Kept:
    """A conversation up to a response."""

    fields: Mapping[str, Any]
    messages: Sequence[Any]
    used_s: float
    continued_by: ReceivedRequest | None = None


class MessageThreads:
    """The conversations that a `ReplayServer` keeps, by the ids of its responses.

    Args:
        support: `"full"`, `"refuses"` as a platform without threads, or `"ignores"` as some gateways.
        unsupported: Reasons to refuse every thread, such as `"hipaa"`, in the API's words.
        kept_s: Seconds after which a conversation is forgotten.
        keeps_lost: A response that broke off counts as sent: its request cannot be made again by continuing.
        clock: Returns the time in seconds.

    Raises:
        UsageError: `support` is unknown, or `kept_s` is no number of seconds.
    """

    def __init__(
        self,
        support: ThreadSupport = "full",
        *,
        unsupported: Sequence[str] = (),
        kept_s: float = _KEPT_S,
        keeps_lost: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_choice("support", support, get_args(ThreadSupport))
        check_seconds("kept_s", kept_s)
        self.support: ThreadSupport = support
        self.unsupported: list[str] = [*unsupported]
        self.kept_s: float = kept_s
        self.keeps_lost: bool = keeps_lost
        self.clock: Callable[[], float] = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Forget every conversation, as the API may at any time."""
        with self._lock:
            self._kept.clear()

    def complete(self, body: dict[str, Any], betas: Sequence[str], received: ReceivedRequest) -> dict[str, Any]:
        """Return the body with the complete conversation, and without its thread.

        Raises:
            Refused: The API would refuse the thread.
        """
        thread = body.get("thread")
        if thread is None:
            return body
        rest = {name: value for name, value in body.items() if name != "thread"}
        if self.support == "ignores":
            return rest
        if self.support == "refuses" or THREADS_BETA not in betas:
            raise Refused(400, "invalid_request_error", NO_THREADS)
        # Imports pydantic, which readers of recordings do not need.
        from eagerstream import count_breakpoints

        unsupported = [*self.unsupported]
        if sum(count_breakpoints(body.get(name)) for name in ("tools", "system", "messages")) > _MAX_BREAKPOINTS:
            unsupported.append("cache_control")
        if unsupported:
            details = {"error_code": "thread_unsupported_request", "unsupported": unsupported}
            raise Refused(400, "invalid_request_error", "This request cannot be a part of a thread.", details)
        match thread:
            case {"type": "create"}:
                return rest
            case {"type": "continue", "previous_message_id": str(id)}:
                with self._lock:
                    return self._continued(id, rest, received)
            case _:
                raise Refused(400, "invalid_request_error", "thread: Input should be 'create' or 'continue'")

    def _continued(self, id: str, body: dict[str, Any], received: ReceivedRequest) -> dict[str, Any]:
        if not isinstance(body.get("messages"), list):
            raise Refused(400, "invalid_request_error", "messages: Input should be a valid list")
        kept = self._kept.get(id)
        if kept is None or self.clock() - kept.used_s > self.kept_s:
            raise _refused("thread_not_found", 404, "not_found_error")
        for name in _CREATE_ONLY:
            if name in body:
                raise Refused(400, "invalid_request_error", f"{name}: cannot be set when a thread is continued")
        if body.get("model") != kept.fields["model"]:
            raise _refused("thread_fingerprint_mismatch")
        # A request that was answered with an error has continued nothing.
        if kept.continued_by is not None and kept.continued_by.status in (None, 200):
            is_over = kept.continued_by.ended
            raise _refused("thread_already_continued" if is_over else "thread_continue_in_flight")
        kept.continued_by = received
        kept.used_s = self.clock()
        return {**kept.fields, **body, "messages": [*kept.messages, *body["messages"]]}

    def identified(self, thread: object, recording: Recording) -> Recording:
        """Return the response to a request with an id of its own, as the API gives each message.

        A scenario gives the same id in each run. Two conversations with the same id would become one. All other bytes,
        and all times, stay the same.
        """
        if not isinstance(thread, Mapping) or self.support != "full" or recording.status != 200:
            return recording
        framing = framing_of(recording)
        start = 0
        for end, event in framing.events(recording.body):
            message = event.get("message")
            if event.get("type") == "message_start" and isinstance(message, dict):
                break
            start = end
        else:
            return recording
        id = message.get("id")
        with self._lock:
            if not isinstance(id, str) or id not in self._kept:
                return recording
            number = next(number for number in count(2) if f"{id}_{number}" not in self._kept)
        renamed = framing.encode({**event, "message": {**message, "id": f"{id}_{number}"}})
        before, after = slice_chunks(recording, 0, start), slice_chunks(recording, end)
        return replace(recording, chunks=(*before, Chunk(time_at(recording, end - 1), renamed), *after))

    def keep(self, thread: object, complete: Mapping[str, Any], recording: Recording, *, breaks_off: bool) -> None:
        """Keep a conversation with its response, if its request asked for that."""
        if not isinstance(thread, Mapping) or self.support != "full" or recording.status != 200:
            return
        try:
            message = final_message([event.data for event in framing_of(recording).events(recording.body)])
        except EagerStreamError:
            return  # no client can continue what is no message
        with self._lock:
            earlier = self._kept.get(str(thread.get("previous_message_id")))
            if breaks_off and not self.keeps_lost:
                if earlier is not None:
                    earlier.continued_by = None
                return
            # Cache breakpoints belong to the request that sets them: a later one may set others.
            fields = {name: _unmarked(complete[name]) for name in ("model", *_CREATE_ONLY) if name in complete}
            messages = [*_unmarked(complete["messages"]), {"role": "assistant", "content": message["content"]}]
            self._kept[str(message.get("id"))] = _Kept(fields, messages, self.clock())
            if earlier is not None and not breaks_off:
                earlier.messages = ()  # it cannot be continued again, and its copies would add up
            now_s = self.clock()
            while self._kept:
                oldest = next(iter(self._kept.values()))
                if len(self._kept) <= _MAX_THREADS and now_s - oldest.used_s <= self.kept_s:
                    break
                self._kept.popitem(last=False)


def _unmarked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    return [_unmarked(each) for each in value] if isinstance(value, list) else value


def _refused(code: str, status: int = 400, error_type: str = "invalid_request_error") -> Refused:
    return Refused(status, error_type, f"The thread cannot be continued: {code}.", {"error_code": code})
