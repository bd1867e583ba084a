"""`Slots`: how many work at once, and who is next."""

from __future__ import annotations

from collections import OrderedDict

import anyio


class Slots:
    """A fixed number of slots, given in the order of `enter`, even if the tasks start in another order.

    A holder is any object that has a hash: a call.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._holders: dict[object, None] = {}  # a set that the garbage collector need not visit while it is empty
        # In order, with the event of each one that waits in a task.
        self._waiting: OrderedDict[object, anyio.Event | None] = OrderedDict()

    def enter(self, holder: object) -> bool:
        """Give the holder a slot, or a place behind those that wait, unless it has one. It must `leave`.

        Return True if it has its slot.
        """
        if holder in self._holders:
            return True
        if holder in self._waiting:
            return False
        if len(self._holders) < self._count:
            self._holders[holder] = None
            return True
        self._waiting[holder] = None
        return False

    def leave(self, holder: object) -> None:
        """Give back the holder's slot, or its place among those that wait. Does nothing if it has none."""
        if holder in self._waiting:
            del self._waiting[holder]
        elif holder in self._holders:
            del self._holders[holder]
            if self._waiting:
                following, event = self._waiting.popitem(last=False)
                self._holders[following] = None
                if event is not None:
                    event.set()

    async def wait(self, holder: object) -> None:
        """Enter, and wait for the slot. Cancelling this keeps the place."""
        if self.enter(holder):
            # No pass of the event loop, because the tool would start that much later. But not in a cancelled scope
            # (test_leaving_gives_back_the_place_of_a_call_about_to_begin).
            await anyio.lowlevel.checkpoint_if_cancelled()
            return
        event = self._waiting[holder] = anyio.Event()
        await event.wait()
