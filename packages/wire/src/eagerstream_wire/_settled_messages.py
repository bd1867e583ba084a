"""`SettledMessages`: the beginning of a conversation, which each request repeats, is checked and encoded once.

The last request of a run of 400 turns has 800 messages. To check, search and encode all of them for each request is
quadratic, and was most of the work of a long run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ._history import HistoryFault, HistoryReader, count_breakpoints, faults_behind, misplaced_systems, role_of
from ._server_tools import server_calls
from ._values import encodable

_MAX_ENCODED_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of the JSON that is kept of a conversation: more than the text of a context of a million tokens."""
_MAY_BE_MARKED: Final = 8
"""A request has cache breakpoints in copies of its last two messages of the user: they are among this many."""
_MAX_CONTAINERS: Final = 100_000  # of one message


@dataclass(slots=True)
class _Beginning:
    """The settled messages, and what is known of them.

    Attributes:
        copies: Equal the messages until these change.
        next_role: That of the message behind them, which has a say in what the last of them may be.
        reader: Has read them.
        notable: Those of them that are notable, see `KnownMessages`.
        encoded: The JSON of the first of them, each with a comma in front.
        encoded_bytes: Its size.
    """

    copies: list[Any] = field(default_factory=list)
    next_role: object = None
    reader: HistoryReader = field(default_factory=lambda: HistoryReader(first_party=False))
    notable: list[Mapping[str, Any]] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    encoded_bytes: int = 0

    def starts(self, messages: Sequence[Mapping[str, Any]], count: int) -> bool:
        """Return True if the first messages are the first of these."""
        try:
            return messages[:count] == self.copies[:count]
        except RecursionError:  # nested as deep as the interpreter can go
            return False


class SettledMessages:
    """The messages of a conversation that other messages follow, and what is known of them while they do not change.

    Their owner may change them at any time. So they are compared with copies, which share all texts with them: C finds
    out by identity that a text is the same. 800 small messages take 0.1 ms, their encoding 2 ms. If one of them has
    changed, everything is forgotten and found out again.
    """

    def __init__(self) -> None:
        self._known: _Beginning | None = None  # while nothing is settled: many runs have one message when they wait

    def follow(self, messages: Sequence[Mapping[str, Any]]) -> KnownMessages:
        """Take the messages of the conversation as they are now. Return them in a new list."""
        known = self._known or _Beginning()
        count = len(known.copies)
        if count and not (
            count < len(messages) and role_of(messages[count]) == known.next_role and known.starts(messages, count)
        ):
            known, count = _Beginning(), 0
        for index in range(count, len(messages) - 1):
            message = messages[index]
            try:
                copy = _copied(message)
            except TypeError:
                break  # it, and what follows, is looked at for each request
            if known.reader.read(messages, index, index + 1):
                known = _Beginning()  # it cannot be sent as it is
                break
            known.copies.append(copy)
            if role_of(copy) == "system" or count_breakpoints([copy]) or server_calls([copy]):
                known.notable.append(message)
            known.next_role = role_of(messages[index + 1])
        if len(known.copies) > count and any(misplaced_systems(messages, count)):
            known = _Beginning()
        self._known = known if known.copies else None
        return KnownMessages(messages, self, [*known.notable, *messages[len(known.copies) :]])

    def faults(
        self,
        messages: KnownMessages,
        *,
        tools: Sequence[Any] | None,
        system_breakpoints: int,
        model: str | None,
    ) -> list[HistoryFault]:
        """Return what `validate_history` returns for the messages that were last followed, or for these and more."""
        known = self._known or _Beginning()
        return faults_behind(
            known.reader.copy(),
            len(known.copies),
            messages,
            messages.notable,
            tools=tools,
            system_breakpoints=system_breakpoints,
            model=model,
        )

    def encoded(self, messages: Sequence[Mapping[str, Any]]) -> list[bytes]:
        """Return the JSON of the first of these messages, as far as they are known, each with a comma in front."""
        if (known := self._known) is None:
            return []
        count = min(len(messages), len(known.copies))
        for index in range(max(0, count - _MAY_BE_MARKED), count):
            if messages[index] != known.copies[index]:
                count = index
                break
        if not known.starts(messages, count):
            return []
        for index in range(len(known.encoded), count):
            if known.encoded_bytes > _MAX_ENCODED_BYTES:
                break
            known.encoded.append(b"," + json_bytes(messages[index]))
            known.encoded_bytes += len(known.encoded[-1])
        return known.encoded[:count]


class KnownMessages(list[Mapping[str, Any]]):
    """The messages of a request, of which the first are settled.

    Attributes:
        settled: What is known of them.
        notable: Those that may have a cache breakpoint, a call of a server tool, or the role `system`.
    """

    __slots__ = ("notable", "settled")

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]],
        settled: SettledMessages,
        notable: Sequence[Mapping[str, Any]],
    ) -> None:
        super().__init__(messages)
        self.settled = settled
        self.notable = notable

    def __reduce__(self) -> tuple[type, tuple[list[Mapping[str, Any]]]]:
        return list, (list(self),)

    def copy(self) -> KnownMessages:
        """Return a list of the same messages, of which some are about to be replaced."""
        return KnownMessages(self, self.settled, self.notable)


def notable(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return those of the messages of a request that are notable, or all of them if that is not known."""
    return messages.notable if isinstance(messages, KnownMessages) else messages


def request_json(body: Mapping[str, Any]) -> bytes:
    """Return the JSON of a request. What is settled of its messages is encoded once for all requests.

    Args:
        body: The request, with more than its messages.

    Raises:
        TypeError, ValueError: The request has no JSON form.
    """
    messages = body.get("messages")
    if not isinstance(messages, KnownMessages) or not (known := messages.settled.encoded(messages)):
        return json_bytes(body)
    others = json_bytes({name: value for name, value in body.items() if name != "messages"})
    rest = json_bytes(messages[len(known) :])
    # In one step, as it copies megabytes. Each known message has a comma in front.
    start = b'{"messages":[' + known[0][1:]
    end = (b"]," if rest == b"[]" else b"," + rest[1:] + b",") + others[1:]
    return b"".join((start, *known[1:], end))


def json_bytes(value: Any) -> bytes:
    """Return the JSON of a value, with U+FFFD in place of each lone surrogate.

    Raises:
        TypeError, ValueError: It has none.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        encoded: bytes = encodable(text).encode()
        return encoded


class _Number:
    """A number that equals only the numbers with the same JSON: for Python, `1 == True == 1.0`."""

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        value = self._value
        if type(other) is not type(value) or other != value:
            return False
        return bool(value) or repr(other) == repr(value)  # -0.0 is no 0.0

    def __hash__(self) -> int:
        return hash(self._value)


def _copied(message: Mapping[str, Any]) -> Any:
    """Return a copy that equals the message until its JSON changes. It shares the texts.

    Raises:
        TypeError: The message is not plain data, or large beyond measure.
    """
    root: list[Any] = [message]
    pending: list[Any] = [root]
    containers = 0
    while pending:
        copied = pending.pop()
        is_object = type(copied) is dict
        for place, item in copied.items() if is_object else enumerate(copied):
            kind = type(item)
            if is_object and type(place) is not str:
                raise TypeError("a key is not a text")
            if kind is str or item is None:
                continue
            if kind is dict or kind is list:
                copied[place] = twin = item.copy()
                pending.append(twin)
                containers += 1
            elif kind is bool or kind is int or kind is float:
                copied[place] = _Number(item)
            else:
                raise TypeError(f"{kind.__name__} is not plain data")
        if containers > _MAX_CONTAINERS:  # it may contain itself
            raise TypeError("too many containers")
    return root[0]
