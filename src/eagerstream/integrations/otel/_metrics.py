"""`Metrics`: the instruments, and what is recorded with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.util.types import AttributeValue

from ...streaming import BlockMarks, ReplyMarks
from . import _conventions as names

Attributes: TypeAlias = dict[str, AttributeValue]


class Metrics:
    """Histograms of one meter; each amount goes with the context of its span, so that exemplars lead there."""

    def __init__(self, meter: Meter, version: names.Conventions) -> None:
        def histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=[float(bound) for bound in buckets]
            )

        def seconds(name: str, description: str, buckets: Sequence[float] = names.DURATION_BUCKETS_S) -> Histogram:
            return histogram(name, "s", description, buckets)

        self._operation = seconds(names.OPERATION_DURATION, "GenAI operation duration.")
        self._first_chunk = seconds(names.TIME_TO_FIRST_CHUNK, "From the request to the first chunk of its reply.")
        self._tokens = histogram(names.USAGE, "{token}", "Number of input and output tokens used.", names.TOKEN_BUCKETS)
        self._tool = version.tool_duration and seconds(version.tool_duration, "Duration of a tool execution.")
        self._agent = version.agent_duration and seconds(
            version.agent_duration, "Duration of a run of an agent.", names.AGENT_BUCKETS_S
        )
        self._first_fragment = seconds(
            names.TIME_TO_FIRST_FRAGMENT,
            "From the request to the first fragment of a tool input.",
            names.INPUT_BUCKETS_S,
        )
        self._writing = seconds(
            names.INPUT_DURATION, "From the first fragment of a tool input to its last.", names.INPUT_BUCKETS_S
        )
        self._fragments = histogram(
            names.INPUT_FRAGMENTS, "{fragment}", "Fragments of a tool input.", names.COUNT_BUCKETS
        )
        # Characters, and not bytes: those are what is counted as they come. Encoding each input would cost more.
        self._size = histogram(names.INPUT_SIZE, "{char}", "Characters of a tool input.", names.COUNT_BUCKETS)
        self._lead = seconds(
            names.LEAD_TIME,
            "How long before the end of the reply a tool began; 0 where it began after it.",
            names.INPUT_BUCKETS_S,
        )

    def chat(
        self,
        seconds: float,
        attributes: Attributes,
        context: Context,
        *,
        first_chunk_s: float | None,
        tokens: Mapping[str, int],
    ) -> None:
        """A request and its reply are over; `tokens` are by their type, as far as they are known."""
        self._operation.record(max(0.0, seconds), attributes, context)
        plain = {name: value for name, value in attributes.items() if name != names.ERROR_TYPE}
        if first_chunk_s is not None:
            self._first_chunk.record(max(0.0, first_chunk_s), plain, context)
        for kind, count in tokens.items():
            self._tokens.record(count, {**plain, names.COUNTED_TYPE: kind}, context)

    def tool(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """A tool has run for so long; nothing where the names have no such metric."""
        if self._tool:
            self._tool.record(max(0.0, seconds), attributes, context)

    def agent(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """A run took so long; nothing where the names have no such metric."""
        if self._agent:
            self._agent.record(max(0.0, seconds), attributes, context)

    def input(self, block: BlockMarks, reply: ReplyMarks, attributes: Attributes, context: Context) -> None:
        """The input of a call is over; nothing of one that came without fragments."""
        first_s, last_s = block.first_fragment_s, block.last_fragment_s
        if first_s is None or last_s is None:
            return
        if reply.sent_s is not None:
            self._first_fragment.record(max(0.0, first_s - reply.sent_s), attributes, context)
        self._writing.record(max(0.0, last_s - first_s), attributes, context)
        self._fragments.record(block.fragments, attributes, context)
        self._size.record(block.chars, attributes, context)

    def lead(self, seconds: float, attributes: Attributes, context: Context) -> None:
        """A tool began so long before the end of its reply. A histogram takes nothing below 0."""
        self._lead.record(max(0.0, seconds), attributes, context)
