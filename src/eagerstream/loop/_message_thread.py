"""`MessageThread`: the API keeps the conversation, and each request carries only what is new in it.

With the beta `message-threads-2026-08-12`, the first request creates a thread. Each later one continues it, by the id
of the last response, with the new messages only and without `system` and `tools`. The API forgets a thread five
minutes after its last request, and may lose it earlier. Therefore the complete conversation stays here, and is sent
again, as a new thread, whenever the API and this side might disagree.

Sources: the API's page on message threads, and `lib/threads` of the anthropic package, version 2.12.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from eagerstream_wire._assistant_message import AssistantMessage
from eagerstream_wire._history import count_breakpoints
from eagerstream_wire._values import as_mapping

from ..errors import APIError
from ..limits import Limits
from ..transports import Reply, RequestBody, Transport
from ..transports._base import with_betas
from ..transports._memory import ClientMemory
from ..transports._opening import Opening
from ._resending import ResendingTransport

_log = logging.getLogger(__name__)

THREADS_BETA: Final = "message-threads-2026-08-12"
MAX_BREAKPOINTS_OF_THREADS: Final = 3
"""Maximum number of `cache_control`s in a request that has a thread: the API was seen to refuse a fourth."""
_CREATE_ONLY: Final = ("system", "tools")
_REPLAYED: Final = frozenset(
    {"thread_not_found", "thread_already_continued", "thread_continue_in_flight", "thread_fingerprint_mismatch"}
)
_UNSUPPORTED: Final = "thread_unsupported_request"
_UNKNOWN_FIELD: Final = re.compile(rf"\bthread: |{THREADS_BETA}")
"""A platform that knows no threads refuses the field or the beta."""
_OFFICIAL: Final = ".anthropic.com"

_addresses_without: ClientMemory[set[str]] = ClientMemory(set)


@dataclass(frozen=True, slots=True)
class _Held:
    """The conversation that the API keeps under the id of a response: the messages with it, and the other fields."""

    message_id: str
    messages: Sequence[Any]
    fields: Mapping[str, Any]
    replaces_lost: bool


class MessageThread:
    """The thread of one conversation. It sends nothing itself.

    Attributes:
        is_off: Requests go without a thread: the API or the platform refuses them.
        form: The form of the last request. None: it had no thread.
        refused: The API's reason why a request of this turn had to be sent again in full; None if there was none.
    """

    def __init__(self) -> None:
        self.is_off: bool = False
        self.form: Literal["create", "continue"] | None = None
        self.refused: str | None = None
        self._asked: tuple[Sequence[Any], Mapping[str, Any]] | None = None  # by the last request
        self._held: _Held | None = None
        self._replaces_lost = False

    def sent_form(self, request: RequestBody, default_betas: Sequence[str] = ()) -> RequestBody:
        """Return the request as it is sent: only what is new, if the API has the rest.

        Args:
            request: The complete request. It is not changed.
            default_betas: Those that the client sends with every request.
        """
        self.form, self._asked = None, None
        # The request for a summary is not continued: its response replaces the conversation.
        is_summary = "compaction" in request
        breakpoints = count_breakpoints([request.get("system"), request.get("tools")])
        if self.is_off or is_summary or breakpoints > MAX_BREAKPOINTS_OF_THREADS:
            return request
        fields = {name: _copied(request.get(name)) for name in ("model", *_CREATE_ONLY)}
        body = with_betas(request, [THREADS_BETA], default_betas)
        held, messages = self._held, request["messages"]
        if held is not None and not (
            fields == held.fields
            and len(messages) >= len(held.messages)
            # Most are equal as they are, which C finds out by identity for nearly all of their parts.
            and all(
                message == copy or _copied_message(message) == copy
                for message, copy in zip(messages, held.messages, strict=False)
            )
        ):
            held = None
        known = [] if held is None else held.messages
        tail = list(messages[len(known) :])
        # Copies, because the user may change a message in place. They share the texts, so they cost little.
        self._asked = [*known, *map(_copied_message, tail)], fields
        if held is not None:
            self.form = "continue"
            kept = {name: value for name, value in body.items() if name not in _CREATE_ONLY}
            return {**kept, "messages": tail, "thread": {"type": "continue", "previous_message_id": held.message_id}}
        self.form = "create"
        return {**body, "thread": {"type": "create"}}

    def takes(self, error: APIError) -> bool:
        """Return True if the request was refused because of its thread, and has to be sent again in full."""
        code = error.error_code
        if self.form == "continue" and code in _REPLAYED:
            is_lost = code == "thread_not_found"
            # The second thread in a row is lost: the API may be unable to keep this conversation.
            self.is_off = is_lost and self._held is not None and self._held.replaces_lost
            self._replaces_lost = is_lost
        elif self.form is not None and (
            code == _UNSUPPORTED or (error.status_code == 400 and _UNKNOWN_FIELD.search(error.reason))
        ):
            self.is_off = True
        else:
            return False
        self.refused = code or "unknown field"
        self._held = None
        return True

    def answered(self, message: AssistantMessage | None) -> None:
        """Take the response to the last request; None if the API may hold another one than this side."""
        asked, self._asked, self._held = self._asked, None, None
        if asked is None or message is None or not message.get("id"):
            return
        messages, fields = asked
        reply = _copied_message({"role": "assistant", "content": message["content"]})
        self._held = _Held(message["id"], [*messages, reply], fields, self._replaces_lost)
        self._replaces_lost = False


class ThreadTransport(ResendingTransport):
    """Sends each request of a conversation as a part of its thread, and in full if it is refused because of that.

    Args:
        transport: Sends the requests.
        thread: The thread of the conversation.
        client: The user's object: what it says about threads is remembered for it.
    """

    def __init__(self, transport: Transport, thread: MessageThread, client: object) -> None:
        super().__init__(transport)
        self._thread = thread
        self._without = _addresses_without.of(client)
        self._address = str(getattr(client, "base_url", ""))
        thread.is_off = self._address in self._without

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`. Doubled: the complete conversation takes longer than the rest of it."""
        return 2 * super().opening_timeout_s(limits)

    async def _enter(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        self._thread.refused = None
        return await self._send(request, limits, opening)

    async def _send(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        sent = self._thread.sent_form(request, self.default_betas)
        try:
            return await opening.enter(self._transport.open(sent, limits))
        except APIError as error:
            if not self._thread.takes(error):
                raise
            if self._thread.is_off and error.error_code != "thread_not_found":
                self._without.add(self._address)
                what = "the API keeps no thread of this conversation: %s (request %s)"
                _log.warning(what, self._thread.refused, error.request_id)
        # Each refusal leaves less to be refused: a continued thread, a new one, none.
        return await self._send(request, limits, opening)


def is_official(client: object) -> bool:
    """Return True if the client talks to the API itself.

    A gateway may ignore fields of betas: `thread`, for example, and would answer a request without its conversation.
    """
    try:
        host = urlsplit(str(getattr(client, "base_url", ""))).hostname or ""
    except ValueError:
        return False
    return f".{host}".endswith(_OFFICIAL)


def _copied_message(message: Any) -> Any:
    """Return a copy in which a content that is a text is a block: cache breakpoints need one, and mean no change."""
    copy = _copied(message)
    if isinstance(copy.get("content"), str):
        copy["content"] = [{"type": "text", "text": copy["content"]}]
    return copy


def _copied(value: Any) -> Any:
    """Return a copy without `cache_control`, which moves from request to request."""
    value = as_mapping(value)
    if isinstance(value, Mapping):
        return {name: _copied(each) for name, each in value.items() if name != "cache_control"}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value
