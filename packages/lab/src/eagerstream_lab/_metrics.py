"""Figures of a run that a benchmark compares: names, labels, units, words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from eagerstream import Outcome
from eagerstream.loop import RequestLatency, RunLatency

from ._kinds import MEANINGS, is_shown

Unit: TypeAlias = Literal["s", "/s", "share"]


@dataclass(frozen=True)
class Metric:
    """One figure of a run.

    Attributes:
        name: Name, as in `CaseData.metrics`.
        label: Name for people.
        unit: Unit of its values; a share is from 0 to 1.
        lower, higher: Words for a run with a lower or higher figure than another run.
        of: Function from the latency of a finished run to the figure, or to `None` if the figure does not apply.
        on_wire: A proxy sees it. The other figures are known only in the process that runs the tools.
    """

    name: str
    label: str
    unit: Unit
    lower: str
    higher: str
    of: Callable[[RunLatency], float | None]
    on_wire: bool = True

    @property
    def meaning(self) -> str:
        """Description in one line."""
        return MEANINGS[self.label]


# Words for a run with a lower or a higher figure than another run.
_TIME: Final = ("earlier", "later")
_LENGTH: Final = ("shorter", "longer")
_COUNT: Final = ("fewer", "more")
_AMOUNT: Final = ("less", "more")


def large_parameter_s(latency: RunLatency) -> float | None:
    """Return the arrival time of the first fragment of the largest parameter's value, in the largest input.

    Eager input streaming changes this time most: without it, a parameter is held back until it is complete. The value
    is `None` if no input has fragments, or the largest one is not a valid, non-empty object. The parameter's key does
    not count.
    """
    calls = [call for call in latency.calls if call.first_fragment_s is not None]
    if not calls:
        return None
    call = max(calls, key=lambda call: call.block.chars)
    first_s, input = call.first_fragment_s, call.block.input
    spans = parameters(input.raw) if input is not None and input.outcome is Outcome.VALID else []
    if not spans or first_s is None:
        return None
    start = max(spans, key=lambda span: span[1] - span[0])[0]
    arrived = 0
    origin_s = first_s - next(call.block.arrivals()).at_s
    for arrival in call.block.arrivals():
        arrived += arrival.chars
        if arrived > start:
            return arrival.at_s + origin_s
    return None


def parameters(raw: str) -> list[tuple[int, int]]:
    """Return start and end of each member's value in the text, which must be one complete JSON object."""
    decode = json.JSONDecoder().raw_decode
    spans: list[tuple[int, int]] = []
    at = _next(raw, 0)  # the brace, then the character after it, or after a comma
    while raw[at := _next(raw, at + 1)] == '"':
        _, at = decode(raw, at)
        start = _next(raw, _next(raw, at) + 1)
        _, at = decode(raw, start)
        spans.append((start, at))
        at = _next(raw, at)
        if raw[at] == "}":
            break
    return spans


def _next(raw: str, at: int) -> int:
    """Return the index of the next character that is not whitespace."""
    while raw[at] in " \t\r\n":
        at += 1
    return at


def _between_turns_s(latency: RunLatency) -> float | None:
    """Return the time from the end of each message with calls to the next request, all together."""
    waits = [
        # A program may send requests at the same time: the next one then does not answer these calls.
        max(0.0, request.next_request_s - request.message_stop_s)
        for request in _answered(latency)
        if request.next_request_s is not None and request.message_stop_s is not None
    ]
    return sum(waits) if waits else None


def _answered(latency: RunLatency) -> list[RequestLatency]:
    """Return the requests with calls to answer. The API runs the calls of server tools."""
    kept = (request for request in latency.requests if not request.discarded)
    return [request for request in kept if any(call.block.kind == "tool_use" for call in request.calls)]


METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric("large_parameter_s", "start of the largest parameter", "s", *_TIME, large_parameter_s),
        Metric(
            "first_byte_s",
            "first byte",
            "s",
            *_TIME,
            lambda run: next((request.first_byte_s for request in run.requests if not request.discarded), None),
        ),
        Metric("first_fragment_s", "first fragment of an input", "s", *_TIME, lambda run: run.time_to_first_fragment_s),
        Metric("first_field_s", "first finished field", "s", *_TIME, lambda run: run.time_to_first_field_s),
        Metric(
            "input_complete_s",
            "first complete input",
            "s",
            *_TIME,
            lambda run: min((call.stop_s for call in run.calls if call.stop_s is not None), default=None),
        ),
        Metric("tool_start_s", "first tool start", "s", *_TIME, lambda run: run.time_to_tool_start_s, on_wire=False),
        Metric(
            "next_request_s",
            "request with results",
            "s",
            *_TIME,
            lambda run: next((request.next_request_s for request in _answered(run)), None),
        ),
        Metric("between_turns_s", "time between turns", "s", *_LENGTH, _between_turns_s),
        Metric("duration_s", "complete run", "s", *_LENGTH, lambda run: run.duration_s),
        Metric(
            "longest_gap_s", "longest gap of an input", "s", *_LENGTH, lambda run: run.gaps.max_s if run.gaps else None
        ),
        Metric(
            "p99_gap_s",
            "99th percentile of gaps",
            "s",
            *_LENGTH,
            lambda run: run.gaps.p99_s if run.gaps and is_shown(0.99, run.gaps.count) else None,
        ),
        Metric("fragments_per_s", "fragments in a second", "/s", *_COUNT, lambda run: run.fragments_per_s),
        Metric("chars_per_s", "characters in a second", "/s", *_COUNT, lambda run: run.chars_per_s),
        Metric(
            "hidden_share",
            "tool time behind the stream",
            "share",
            *_AMOUNT,
            lambda run: run.hidden_share,
            on_wire=False,
        ),
        Metric("won_s", "won by starting tools early", "s", *_AMOUNT, lambda run: run.won_s, on_wire=False),
    )
}
"""Metrics by name, in the order of display."""


def figures(latency: RunLatency, *, at_proxy: bool = False) -> dict[str, float | None]:
    """Return every metric of a finished run; at a proxy, those that it sees."""
    return {name: metric.of(latency) for name, metric in METRICS.items() if metric.on_wire or not at_proxy}
