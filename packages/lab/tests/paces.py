"""Recordings whose pace is known: what a fit has to find again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from eagerstream.recordings import Recording
from eagerstream_lab._profiles import Kind, Piece, recut
from eagerstream_testing import reply, text, thinking, tool_use

LARGE = "some words, and then others. " * 60
SAID = reply(
    thinking("First this, then that. " * 20),
    text("I will write it down. " * 10),
    tool_use("write", {"name": "a.txt", "mode": "new", "content": LARGE}),
)
PAUSE_S = 0.05
"""Around this are the pauses between bursts; gaps inside a burst are 1 to 3 ms."""
BLOCK_S = 0.4
"""The pause before a block."""
LARGE_S = 0.8
"""The pause before the large parameter of `SAID`."""


@dataclass
class Server:
    """A server that writes in bursts, with a stall now and then.

    Attributes:
        seed: Of one response. Responses differ in their first byte, and by some percent in their pace.
        slower: How many times as long a pause is at the end as at the start.
        stalls: Share of the pauses that are stalls: at least 0.5 s, with a heavy tail.
    """

    seed: str
    slower: float = 1.0
    stalls: float = 0.02
    random: Random = field(init=False)
    left: int = 0
    written: int = 0
    seen: set[int] = field(default_factory=set)

    def recording(self, said: Recording = SAID) -> Recording:
        """Return a response of this server."""
        self.random = Random(self.seed)
        self.pace = self.random.lognormvariate(0, 0.1)
        played = recut(said, self._cut, first_byte_s=self.random.lognormvariate(-0.7, 0.3))
        return replace(played, note="")  # for the tests, these are measured

    def _cut(self, kind: Kind, index: int, texts: Sequence[str]) -> list[Piece]:
        text = "".join(texts)
        pieces: list[Piece] = []
        at = 0
        large = text.find(LARGE) if kind == "input" else -1
        while at < len(text):
            chars = self.random.choice((3, 5, 8, 11))
            if index not in self.seen:
                self.seen.add(index)
                self.left, after_s = self.random.randint(2, 6), BLOCK_S
            elif at <= large < at + chars:
                self.left, after_s = self.random.randint(2, 6), LARGE_S
            elif self.left:
                self.left, after_s = self.left - 1, self.random.uniform(0.001, 0.003)
            else:
                self.left, after_s = self.random.randint(2, 6), PAUSE_S * self.random.lognormvariate(0, 0.4)
                if self.random.random() < self.stalls:
                    after_s += min(20, 0.5 * self.random.paretovariate(1.5))
            after_s *= 1 + (self.slower - 1) * self.written / 2_500
            pieces.append(Piece(text[at : at + chars], after_s * self.pace))
            at += chars
            self.written += chars
        return pieces
