"""The time of a run that waits for the end of each response, computed from the marks of one that does not wait."""

from __future__ import annotations

from collections.abc import Sequence

from ._marks import CallMarks, RequestMarks


def waiting_s(calls: Sequence[CallMarks], request: RequestMarks, slots: int, *, waits: bool) -> float:
    """Return the least time that these calls take if all of them start when the message is complete.

    A group takes at least as long as its calls one after the other, and all calls take at least as long as their work
    divided by the slots.

    Args:
        calls: The calls, in any order.
        request: The request whose response made them.
        slots: Number of tools that run at once.
        waits: Calls may have waited for a slot.
    """
    # A lower bound, computed, in place of a schedule, simulated. The other run would take its slots in another order,
    # and with a list schedule a call that takes longer can make all of them end earlier. The time won must never be
    # more than is true, so whatever is unknown counts against us (test_no_more_is_won_than_is_true runs both).
    slot_s = longest_s = 0.0
    chains: dict[str, float] = {}
    left_s: dict[str, float] = {}  # when the call before it left its group
    # In the order of their ends, which is the order of the calls within a group: each one knows when the one before it
    # has left.
    for call in sorted(calls, key=lambda call: call.end_s or 0.0):
        if call.end_s is None:
            continue
        group = call.group
        if call.start_s is not None:
            # A streaming tool waits for the model most of its time. After its input is complete it works in a run that
            # waits, too, so only that time counts.
            block = request.reply.blocks.get(call.call.input.index)
            whole_s = block.stop_s if block is not None and block.stop_s is not None else call.start_s
            begin_s = max(call.start_s, whole_s)
            if call.start_s < whole_s and call.call.is_error:
                begin_s = call.end_s  # a run that waits may see in time that its input is not right, and not begin it
            work_s = max(0.0, call.end_s - begin_s)
            slot_s += work_s
            # People answer in a run that waits, too. But if calls may have waited for a slot, the marks do not tell
            # that time from the time of the answer, and then nothing of it counts.
            if call.approved and call.admitted_s is not None and not waits:
                asked_s = max(call.admitted_s, whole_s, left_s.get(group, 0.0) if group is not None else 0.0)
                work_s += max(0.0, call.start_s - asked_s)
            # After the approval was added: a call that waits for an answer keeps no slot, but it keeps its group.
            longest_s = max(longest_s, work_s)
            if group is not None:
                chains[group] = chains.get(group, 0.0) + work_s
        if group is not None:
            left_s[group] = call.end_s
    return max(slot_s / slots, longest_s, *chains.values())
