"""What the conversations of a soak are: the model's replies, and who listens to them. All of it follows from a seed.

The server's process and the clients' make the same plans, each for itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Final

from anthropic.types import MessageParam

from eagerstream._support.terms import assistant_messages
from eagerstream.recordings import Recording
from eagerstream_testing import Scripted, Timing, reply, retime, text, tool_use

_OWNER: Final = re.compile(r"conv-(\d{6})")
_SHORTEST_FRAGMENT: Final = 9
"""Longer than a number: one that lost a fragment, or has it twice, is not that of another conversation."""

REPLY_S: Final = 8.0
"""About as long as a reply takes. Two cores do not do more than 500 replies in that time, on both sides."""

_TOKENS_PER_S: Final = 9.0
_FIRST_BYTE_S: Final = 1.0


class Consumer(Enum):
    """Who listens, and for how long."""

    ITERATES = "iterates"
    FINISHES = "only finishes"
    IS_SLOW = "is slow, and the reading waits for it"
    LEAVES = "leaves early"
    RAISES = "raises early"
    CANCELS = "cancels the run"
    IS_CANCELLED = "is cancelled"


_CONSUMERS: Final = {
    Consumer.ITERATES: 50,
    Consumer.FINISHES: 18,
    Consumer.IS_SLOW: 8,
    Consumer.LEAVES: 6,
    Consumer.RAISES: 4,
    Consumer.CANCELS: 8,
    Consumer.IS_CANCELLED: 6,
}


@dataclass(frozen=True)
class Plan:
    """One conversation.

    Attributes:
        number: Which one; in its first message, its inputs and the ids of its calls.
        consumer: Who listens.
        patience_events: Events after which a consumer leaves, raises or cancels.
        patience_s: Seconds after which one is cancelled, for a server that plays at its own speed.
        options: Of the run.
    """

    number: int
    consumer: Consumer
    patience_events: int
    patience_s: float
    options: Mapping[str, Any]

    @classmethod
    def of(cls, seed: int, number: int) -> Plan:
        """The conversation of that number."""
        random = Random(f"plan {seed} {number}")
        (consumer,) = random.choices(list(_CONSUMERS), list(_CONSUMERS.values()))
        options: dict[str, Any] = {
            "on_interrupt": random.choice(("resume", "resume", "resume", "raise")),
            "max_restarts": random.randint(0, 3),
            "cache": random.choice((None, "auto")),
            "min_interval_s": random.choice((0.0, 0.0, 0.05)),
            "buffer": "wait" if consumer is Consumer.IS_SLOW else "merge",
        }
        return cls(number, consumer, random.randint(0, 60), random.uniform(0, 4 * REPLY_S), options)

    @property
    def first_message(self) -> MessageParam:
        """What the user says."""
        return {"role": "user", "content": f"This is {name_of(self.number)}. Book it, pay for it, and write it down."}


def name_of(number: int) -> str:
    """What stands in everything that belongs to a conversation."""
    return f"conv-{number:06}"


def owners(written: str) -> set[int]:
    """The conversations that what is written belongs to."""
    return {int(number) for number in _OWNER.findall(written)}


# --- the model's side -------------------------------------------------------------------------------------------------


class Model:
    """What the model says in each conversation: two to four turns with one to three calls, then the end.

    It says nothing of what it thinks: an event that is lost may take the signature of a thought with it, which is then
    sent back as it came, like every block, and the law checker refuses it, as the API does.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def answer(self, request: Mapping[str, Any]) -> Recording:
        """The reply to a request, timed."""
        number = number_of(request)
        turn = assistant_messages(request)
        random = Random(f"reply {self._seed} {number} {turn}")
        turns = Random(f"turns {self._seed} {number}").randint(2, 4)
        name = f"{name_of(number)}-t{turn}"
        blocks = list(self._calls(random, name)) if turn < turns else []
        said = text(f"{'Now for' if blocks else 'Done with'} {name}.", fragment_chars=_fragment(random))
        timing = Timing(
            tokens_per_second=_TOKENS_PER_S,
            first_byte_s=_FIRST_BYTE_S,
            jitter=1,
            seed=number,
            cut=random.choice(("random", 250, 400)),
        )
        return retime(reply(said, *blocks, message_id=f"msg_{name}"), timing)

    def _calls(self, random: Random, name: str) -> list[Scripted]:
        return [self._call(random, f"{name}-b{number}") for number in range(random.randint(1, 3))]

    def _call(self, random: Random, key: str) -> Scripted:
        lines = [f"{key} line {line}" for line in range(random.randint(1, 6))]
        tool, input = random.choice(
            (
                ("book", {"key": key, "flight": "OS 381"}),
                ("pay", {"key": key, "amount": random.randint(1, 999), "currency": "EUR"}),
                ("write", {"key": key, "lines": lines}),
                ("search", {"key": key, "pages": random.randint(1, 4)}),
                ("count", {"key": key, "upto": random.randint(1, 4)}),
            )
        )
        written: Any = input
        match random.choices(("whole", "not JSON", "unfit", "failing", "unknown"), (85, 4, 4, 4, 3))[0]:
            case "not JSON":
                written = f'{{"key": "{key}", "flight": OS 381}}'
            case "unfit":
                written = {"key": key, "amount": "many", "lines": [1, 2], "pages": "few", "upto": []}
            case "failing":
                tool, written = "book", {"key": key, "flight": "nowhere"}
            case "unknown":
                tool = "fly"
            case _:
                pass
        return tool_use(tool, written, id=f"toolu-{key}", fragment_chars=_fragment(random))


def number_of(request: Mapping[str, Any]) -> int:
    """Whose request it is."""
    said = request["messages"][0]["content"]
    (number,) = owners(said if isinstance(said, str) else said[0]["text"])
    return number


def _fragment(random: Random) -> int:
    return random.randint(_SHORTEST_FRAGMENT, 40)
