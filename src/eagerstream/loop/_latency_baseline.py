"""The run that waits for the end of each reply, computed from the marks of one that does not."""

from __future__ import annotations

from collections.abc import Sequence

from ._marks import CallMarks, RequestMarks


def waiting_s(calls: Sequence[CallMarks], request: RequestMarks, slots: int, *, waits: bool) -> float:
    """How long these calls take, at least, where all of them begin when the message is whole.

    No group is faster than its calls one after the other, and nobody than all calls in all slots. The order in which
    they would find their slots is not asked for: a call that takes longer can make all of them end earlier.

    Args:
        calls: In which order does not matter.
        request: Of which they are.
        slots: How many run at once.
        waits: Calls may have waited for a slot.
    """
    slot_s = longest_s = 0.0
    chains: dict[str, float] = {}
    left_s: dict[str, float] = {}  # when the call before it left its group
    for call in sorted(calls, key=lambda call: call.end_s or 0.0):
        if call.end_s is None:
            continue
        group = call.group
        if call.start_s is not None:
            block = request.reply.blocks.get(call.call.input.index)
            whole_s = block.stop_s if block is not None and block.stop_s is not None else call.start_s
            begin_s = max(call.start_s, whole_s)
            if call.start_s < whole_s and call.call.is_error:
                begin_s = call.end_s  # a run that waits may see in time that its input is not right, and not begin it
            work_s = max(0.0, call.end_s - begin_s)
            slot_s += work_s
            if call.approved and call.admitted_s is not None and not waits:
                asked_s = max(call.admitted_s, whole_s, left_s.get(group, 0.0) if group is not None else 0.0)
                work_s += max(0.0, call.start_s - asked_s)
            longest_s = max(longest_s, work_s)
            if group is not None:
                chains[group] = chains.get(group, 0.0) + work_s
        if group is not None:
            left_s[group] = call.end_s
    return max(slot_s / slots, longest_s, *chains.values())
