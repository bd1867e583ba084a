"""`Metrics`: the instruments, and the functions that record amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.util.types import AttributeValue

from eagerstream.streaming import BlockMarks, ReplyMarks

from . import _conventions as names

Attributes: TypeAlias = dict[str, AttributeValue]

_Instrument: TypeAlias = tuple[str, str, Sequence[float]]
"""Unit, description and bounds of a histogram."""

_INSTRUMENTS: Final[dict[str | None, _Instrument]] = {
    names.OPERATION_DURATION: ("s", "GenAI operation duration.", names.DURATION_BUCKETS_S),
    names.TIME_TO_FIRST_CHUNK: ("s", "Time to the first chunk of a response.", names.DURATION_BUCKETS_S),
    names.USAGE: ("{token}", "Number of input and output tokens used.", names.TOKEN_BUCKETS),
    names.TIME_TO_FIRST_FRAGMENT: (
        "s",
        "Time from the request to the first fragment of a tool input.",
        names.INPUT_BUCKETS_S,
    ),
    names.INPUT_DURATION: ("s", "Time from the first fragment of a tool input to its last.", names.INPUT_BUCKETS_S),
    names.INPUT_FRAGMENTS: ("{fragment}", "Fragments of a tool input.", names.COUNT_BUCKETS),
    # Characters instead of bytes: the parser counts characters anyway, and encoding each input would cost more.
    names.INPUT_SIZE: ("{char}", "Characters of a tool input.", names.COUNT_BUCKETS),
    names.LEAD_TIME: (
        "s",
        "Time from the start of a tool to the end of the response, of tools that started before it.",
        names.INPUT_BUCKETS_S,
    ),
    names.LAG_TIME: (
        "s",
        "Time from the end of the response to the start of a tool, of tools that started after it.",
        names.INPUT_BUCKETS_S,
    ),
}
_TOOL: Final[_Instrument] = ("s", "Duration of a tool execution.", names.DURATION_BUCKETS_S)
_AGENT: Final[_Instrument] = ("s", "Duration of a run of an agent.", names.AGENT_BUCKETS_S)


class Metrics:
    """Histograms of one meter. Each amount is recorded with its span's context, so that exemplars link to the span."""

    def __init__(self, meter: Meter, version: names.Conventions) -> None:
        instruments: dict[str | None, _Instrument] = {
            **_INSTRUMENTS,
            version.tool_duration: _TOOL,
            version.agent_duration: _AGENT,
        }
        self._histograms: dict[str | None, Histogram] = {
            name: meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=[float(bound) for bound in bounds]
            )
            for name, (unit, description, bounds) in instruments.items()
            if name is not None
        }

    def record(self, name: str | None, amount: float, attributes: Attributes, context: Context) -> None:
        """Record an amount, or 0 if it is negative. Do nothing if the conventions have no such metric (`None`)."""
        if histogram := self._histograms.get(name):
            histogram.record(max(0, amount), attributes, context)

    def input(self, block: BlockMarks, reply: ReplyMarks, attributes: Attributes, context: Context) -> None:
        """Record the metrics of a finished input. Do nothing for an input without fragments."""
        first_s, last_s = block.first_fragment_s, block.last_fragment_s
        if first_s is None or last_s is None:
            return
        if reply.sent_s is not None:
            self.record(names.TIME_TO_FIRST_FRAGMENT, first_s - reply.sent_s, attributes, context)
        self.record(names.INPUT_DURATION, last_s - first_s, attributes, context)
        self.record(names.INPUT_FRAGMENTS, block.fragments, attributes, context)
        self.record(names.INPUT_SIZE, block.chars, attributes, context)
