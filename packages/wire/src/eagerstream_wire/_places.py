"""`Places`: the indexes of the blocks of a message, whatever a peer makes of them."""

from __future__ import annotations

from typing import Final

from ._errors import LimitError
from ._limits import ParsingLimits

_MAX_TOLD_INDEX: Final = 10**9  # Python does not print an index of thousands of digits


def named(index: object) -> str:
    """Return the name of a block for a violation, without any other value a peer may have sent as its index."""
    return f"block {index}" if type(index) is int and abs(index) < _MAX_TOLD_INDEX else "a block without an index"


def check_block_count(count: int, limits: ParsingLimits) -> None:
    """Refuse a message with this many blocks, before any work for the newest of them.

    Raises:
        LimitError: `count` exceeds `Limits.max_blocks`.
    """
    if count > limits.max_blocks:
        raise LimitError("max_blocks", limits.max_blocks, "the number of content blocks")


class Places:
    """Gives each block of a message an index of its own: the peer's, unless an earlier block has it.

    Once the peer has used an index twice, its indexes do not give the order, so further blocks are counted up. The
    alternative, one input per index of the peer, would mix the texts of two calls or lose the first one. The order
    matters, because the API refuses a server result that comes before its call.

    Attributes:
        newest: Maps each index of the peer to the index given to its newest block.
    """

    def __init__(self) -> None:
        self.newest: dict[int, int] = {}
        self._taken: dict[int, None] = {}  # a set that the garbage collector need not visit
        self._last = -1  # the highest index taken
        self._is_mixed_up = False

    def take(self, index: int) -> int:
        """Return the index of a new block."""
        self._is_mixed_up = self._is_mixed_up or index in self._taken
        place = self._last + 1 if self._is_mixed_up and index <= self._last else index
        self._last = max(self._last, place)
        self._taken[place] = None
        self.newest[index] = place
        return place
