"""`time_line`: the calls of a run as a small picture, for `_repr_html_`. The latency room draws larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .._support.markup import Markup, element, plain
from .._support.redaction import redact_excerpt

_MAX_ROWS: Final = 40
_NAME_CHARS: Final = 20
_LEFT: Final = 160
_WIDTH: Final = 440
_ROW: Final = 20


class CallTimes(NamedTuple):
    """The parts of a call that are drawn. Each time is None as long as it has not come."""

    name: str
    start_s: float | None
    stop_s: float | None
    tool_start_s: float | None
    tool_end_s: float | None


def time_line(calls: Sequence[CallTimes], end_s: float, resumed_s: Sequence[float] = ()) -> Markup:
    """Draw the first 40 calls: the time in which each input was written, and below it the time of its tool.

    Args:
        calls: The calls, in their order.
        end_s: End of the time line, in seconds.
        resumed_s: Times at which the run was resumed, drawn as lines.
    """
    parts: list[Markup] = []
    for row, call in enumerate(calls[:_MAX_ROWS]):
        top = row * _ROW
        name = plain(redact_excerpt(call.name, 200), _NAME_CHARS)
        parts.append(element("text", name, x=0, y=top + 13, font_size=12, fill="currentColor"))
        parts.append(_bar(call.start_s, call.stop_s, end_s, y=top + 3, colour="#6c9be8", what="input"))
        parts.append(_bar(call.tool_start_s, call.tool_end_s, end_s, y=top + 10, colour="#8a5bc7", what="tool"))
    shown = f"the first {_MAX_ROWS} of {len(calls):,} calls" if len(calls) > _MAX_ROWS else "the calls"
    label = f"Time line of {shown}, {end_s:.2f} s: inputs are blue, and tools violet."
    height = max(1, min(len(calls), _MAX_ROWS)) * _ROW
    for at_s in resumed_s if end_s > 0 else ():
        title = element("title", f"continued from its journal at {at_s:.3f} s")
        x = f"{_LEFT + _WIDTH * at_s / end_s:.1f}"
        parts.append(element("rect", title, x=x, y=0, width=2, height=height, fill="#d08a2e"))
    picture = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=_LEFT + _WIDTH,
        height=height,
        role="img",
        aria_label=label,
    )
    return element("div", picture, element("div", label))


def _bar(start_s: float | None, stop_s: float | None, end_s: float, *, y: int, colour: str, what: str) -> Markup:
    if start_s is None or end_s <= 0:
        return Markup("")
    stop_s = end_s if stop_s is None else stop_s
    left = _LEFT + _WIDTH * start_s / end_s
    width = max(1.0, _WIDTH * (stop_s - start_s) / end_s)
    title = element("title", f"{what}: {start_s:.3f} to {stop_s:.3f} s")
    return element("rect", title, x=f"{left:.1f}", y=y, width=f"{width:.1f}", height=6, fill=colour)
