"""Queues of calls: the group of their tool, and the slots that all calls share."""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel


class Ticket:
    """A place in the queue for a slot.

    Attributes:
        is_due: It is the turn of its holder.
    """

    __slots__ = ("_due", "is_due")

    def __init__(self, *, is_due: bool) -> None:
        self.is_due: bool = is_due
        self._due: anyio.Event | None = None  # made by the one that waits: most tickets are due at once

    def call(self) -> None:
        """Let the holder have its turn."""
        self.is_due = True
        if self._due is not None:
            self._due.set()

    async def wait(self) -> None:
        """Wait for the turn. Cancelling it keeps the place."""
        if self.is_due:
            # No pass of the event loop, because the tool would start that much later. But not in a cancelled scope
            # (test_leaving_gives_back_the_place_of_a_call_about_to_begin).
            await anyio.lowlevel.checkpoint_if_cancelled()
        else:
            self._due = anyio.Event()
            await self._due.wait()


class Slots:
    """A fixed number of slots, given in the order of reservation, even if the tasks start in another order."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Ticket] = deque()

    def reserve(self) -> Ticket:
        """Return a ticket. Every ticket must be given back."""
        if self._free:
            self._free -= 1
            return Ticket(is_due=True)
        ticket = Ticket(is_due=False)
        self._waiting.append(ticket)
        return ticket

    def give_back(self, ticket: Ticket) -> None:
        """Give back a ticket after its turn, or to give up the turn."""
        if not ticket.is_due:
            self._waiting.remove(ticket)
        elif self._waiting:
            self._waiting.popleft().call()
        else:
            self._free += 1


class Place:
    """The place of a call: first in the queue of its tool's group, then in the queue of the shared slots."""

    def __init__(self, slots: Slots, group: Slots | None, *, at_once: bool) -> None:
        self._slots = slots
        self._group = group
        self._group_ticket = group.reserve() if group else None
        # A call that waits for its group, its input or an approval takes no slot from others.
        self._ticket = slots.reserve() if at_once and self._is_next_of_group else None

    @property
    def _is_next_of_group(self) -> bool:
        return self._group_ticket is None or self._group_ticket.is_due

    @property
    def is_free(self) -> bool:
        """True if it is the call's turn."""
        return self._ticket is not None and self._ticket.is_due

    async def wait_for_group(self) -> None:
        """Wait until no earlier call of the group is left. Cancelling it keeps the place."""
        if self._group_ticket is not None:
            await self._group_ticket.wait()

    async def wait_for_slot(self) -> None:
        """Wait for a slot. Cancelling it keeps the place."""
        if self._ticket is None:
            self._ticket = self._slots.reserve()
        await self._ticket.wait()

    def leave_slot(self) -> None:
        """Give back the slot after the tool's end: others may run."""
        if self._ticket is not None:
            self._slots.give_back(self._ticket)
            self._ticket = None

    def leave_group(self) -> None:
        """Let the next call of the group run."""
        if self._group is not None and self._group_ticket is not None:
            self._group.give_back(self._group_ticket)
            self._group_ticket = None
