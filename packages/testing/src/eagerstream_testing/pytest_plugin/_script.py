"""`Script`: the replies of one test, and the choice of the reply to each request."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from traceback import extract_tb
from typing import Any, Final

from eagerstream._support.redaction import printable, redact_excerpt, redact_text
from eagerstream._support.terms import assistant_messages
from eagerstream.recordings import Recording

from .. import ReceivedRequest, Scenario, http_error
from .._received import MAX_REQUESTS
from .._schedule import plain_history

_MAX_PROBLEMS: Final = 20
_MAX_ERROR_CHARS: Final = 2_000
_RECORD_AGAIN: Final = "record again with --claude-record"
_MAX_MASKED_CHARS: Final = 1024 * 1024


@dataclass(eq=False)
class Reply:
    """A reply of the script.

    Attributes:
        name: Its name in reports, such as `"reply 1"` or `"0001.jsonl"`.
        scenario: Gives the response.
        answers_all: It answers every request from its turn on.
        history: Digest of the messages that it was recorded for; empty if it was not recorded.
        turn: The turn that it was recorded for.
        is_used: A request got it.
        is_stale: A request with other messages got it.
    """

    name: str
    scenario: Scenario
    answers_all: bool = False
    history: str = ""
    turn: int = 0
    is_used: bool = False
    is_stale: bool = False


@dataclass(eq=False)
class Exchange:
    """A request and its response.

    Attributes:
        request: The request.
        at_s: Seconds from the start of the test to the start of the response.
        reply_name: Name of the reply; empty if the server refused the request itself.
        response: The response without its fault; `None` if the server refused the request itself.
        is_repeated: The reply was given to a later request, because this one did not get it complete.
    """

    request: ReceivedRequest
    at_s: float
    reply_name: str = ""
    response: Recording | None = None
    is_repeated: bool = False


@dataclass(frozen=True)
class _Chosen:
    history: str
    reply: Reply | None
    response: Recording


class Script:
    """Hands out replies to requests. The server's thread asks for them, and the test's thread adds some.

    Replies are given in order. A reply that was recorded goes to a request with the same messages, or else to one of
    the same turn. A request whose messages were sent before, and whose response broke off, gets the same reply again.
    """

    def __init__(self, replies: Iterable[Reply] = (), *, is_recorded: bool = False) -> None:
        self.replies: list[Reply] = list(replies)
        self.is_recorded = is_recorded
        self.errors: list[str] = []
        """Errors of functions that the test gave as replies, and requests without a reply."""
        self._began_s = monotonic()
        self._exchanges: deque[Exchange] = deque(maxlen=MAX_REQUESTS)
        self._replied: deque[tuple[str, Reply, Exchange]] = deque(maxlen=MAX_REQUESTS)
        self._chosen: _Chosen | None = None  # between `answer` and `note`, which the server calls without a break
        self._count = 0
        self._lock = threading.Lock()

    def add(self, scenario: Scenario, *, answers_all: bool = False) -> None:
        """Add a reply."""
        with self._lock:
            self.replies.append(Reply(f"reply {len(self.replies) + 1}", scenario, answers_all))

    def answer(self, body: Mapping[str, Any]) -> Recording:
        """Return the response to a request. If there is none, or its function fails, that is an error of HTTP 400."""
        history = digest_of(body, is_masked=self.is_recorded)
        with self._lock:
            self._count += 1
            reply = self._choose(history, body)
        try:
            response = self._missing() if reply is None else reply.scenario.answer(body)
        except Exception as error:  # the function is the user's
            assert reply is not None
            what = f"{reply.name}: its function raised {_told(error)}"
            response = self._refusal(what)
        plays_stream = self.is_recorded and body.get("stream") is True
        if plays_stream and response.status == 200 and response.media_type == "application/json":
            # A client that streams would read this whole message as an empty response.
            response = self._refusal(f"request {self._count} is streamed, and its recording is not: {_RECORD_AGAIN}")
        self._chosen = _Chosen(history, reply, response)
        return response

    def note(self, request: ReceivedRequest) -> None:
        """Note a request whose response starts now, unless its path is not served, as for checks of the connection."""
        if request.body is None and request.status in (404, 405):
            return
        chosen, self._chosen = self._chosen, None
        exchange = Exchange(request, monotonic() - self._began_s)
        if chosen is not None:
            exchange.reply_name = chosen.reply.name if chosen.reply is not None else "no reply left"
            exchange.response = chosen.response
        with self._lock:
            self._exchanges.append(exchange)
            if chosen is not None and chosen.reply is not None:
                self._replied.append((chosen.history, chosen.reply, exchange))

    def exchanges(self) -> list[Exchange]:
        """Return the latest exchanges, at most 1,000, in order."""
        with self._lock:
            return list(self._exchanges)

    def unused(self) -> list[str]:
        """Return the names of the replies that no request got."""
        with self._lock:
            return [reply.name for reply in self.replies if not reply.is_used and not reply.answers_all]

    def _choose(self, history: str, body: Mapping[str, Any]) -> Reply | None:
        for earlier, reply, exchange in self._replied:
            request = exchange.request
            if earlier == history and not exchange.is_repeated and (request.fault is not None or request.disconnected):
                exchange.is_repeated = True
                return reply
        left = [reply for reply in self.replies if not reply.is_used or reply.answers_all]
        if self.is_recorded:
            turn = assistant_messages(body)
            same = [reply for reply in left if reply.history == history]
            left = same or [reply for reply in left if reply.turn == turn]
        if not left:
            return None
        left[0].is_used = True
        left[0].is_stale = bool(left[0].history) and left[0].history != history
        return left[0]

    def _missing(self) -> Recording:
        if self.is_recorded:
            what = f"no recording is left for request {self._count}: {_RECORD_AGAIN}"
        elif not self.replies:
            what = "the test has no reply: call claude.replies(...) before its first request"
        else:
            what = f"no reply is left for request {self._count}: call claude.replies(...) once per request"
        return self._refusal(what)

    def _refusal(self, what: str) -> Recording:
        if len(self.errors) < _MAX_PROBLEMS:
            self.errors.append(what)
        return http_error(400, "invalid_request_error", what)


def digest_of(body: Mapping[str, Any], *, is_masked: bool) -> str:
    """Return a digest of the messages of a request.

    Args:
        body: The body of the request.
        is_masked: Mask secrets first, as in recordings: an agent that sends a masked response back is recognized.
            Messages over 1 MiB are not masked, which takes seconds.
    """
    history = plain_history(body)
    if is_masked and len(history) <= _MAX_MASKED_CHARS:
        history = redact_text(history, keep_length=True)
    return hashlib.blake2b(history.encode(), digest_size=16).hexdigest()


def _told(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return printable(redact_excerpt(f"{type(error).__name__}: {error}", _MAX_ERROR_CHARS)) + place
