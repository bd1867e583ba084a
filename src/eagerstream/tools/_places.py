"""Where calls wait for their turn: in the group of their tool, and for one of the slots that all calls share."""

from __future__ import annotations

from collections import deque

import anyio


class Slots:
    """So many at once, first come, first served. Whoever reserves first runs first, whichever task starts first."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    def reserve(self) -> anyio.Event:
        """A ticket: set when it is its holder's turn. Each is to be given back."""
        ticket = anyio.Event()
        if self._free:
            self._free -= 1
            ticket.set()
        else:
            self._waiting.append(ticket)
        return ticket

    def give_back(self, ticket: anyio.Event) -> None:
        """The holder is done, or does not want its turn any more."""
        if not ticket.is_set():
            self._waiting.remove(ticket)
        elif self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class Place:
    """Where a call waits for its turn: first in its tool's group, then for one of the slots that all share."""

    def __init__(self, slots: Slots, group: Slots | None, *, at_once: bool) -> None:
        self._slots = slots
        self._group = group
        self._group_ticket = group.reserve() if group else None
        # A call that waits for its group, its input or an approval keeps no slot from others.
        self._ticket = slots.reserve() if at_once and self._is_next_of_group else None

    @property
    def _is_next_of_group(self) -> bool:
        return self._group_ticket is None or self._group_ticket.is_set()

    @property
    def is_free(self) -> bool:
        """It is the call's turn."""
        return self._ticket is not None and self._ticket.is_set()

    async def wait_for_group(self) -> None:
        """Wait until no earlier call of the group is left."""
        if self._group_ticket is not None:
            await self._group_ticket.wait()

    async def wait_for_slot(self) -> None:
        """Wait for a slot."""
        if self._ticket is None:
            self._ticket = self._slots.reserve()
        await self._ticket.wait()

    def leave_slot(self) -> None:
        """The tool has ended: others may run."""
        if self._ticket is not None:
            self._slots.give_back(self._ticket)
            self._ticket = None

    def leave_group(self) -> None:
        """The next of the group may run."""
        if self._group is not None and self._group_ticket is not None:
            self._group.give_back(self._group_ticket)
            self._group_ticket = None
