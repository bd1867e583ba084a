"""`Chat`: the span of one request and its response, `chat {model}`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider

from eagerstream.streaming import ReplyMarks

from . import _conventions as names
from ._attributes import bounded, request_attributes, usage_attributes
from ._content import input_attributes, output_attributes
from ._metrics import Attributes, Metrics


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Objects that make spans and metrics.

    Attributes:
        tracer: Makes the spans.
        tracer_provider: Provider of the tracer.
        metrics: `None` if metrics are switched off.
        captures_content: Whether to record prompts, responses, arguments and results in the spans.
    """

    tracer: Tracer
    tracer_provider: TracerProvider
    metrics: Metrics | None
    version: names.Conventions
    captures_content: bool


class Chat:
    """Span of one request, from before it is sent until the response is complete or breaks off.

    Attributes:
        context: The context of the parent span, with this span in it.
    """

    def __init__(self, telemetry: Telemetry, model: str, peer: Attributes, parent: Context, marks: ReplyMarks) -> None:
        # Samplers see these: attributes with the same value for many requests, as on the metrics.
        self._attributes: Attributes = {names.OPERATION: names.CHAT, names.REQUEST_MODEL: model, **peer}
        self._telemetry = telemetry
        self._marks = marks
        self._start_s = marks.clock()
        self._first_chunk_s: float | None = None
        self._usage: dict[str, int] = {}
        self._is_open = True
        self._span: Span = telemetry.tracer.start_span(
            f"{names.CHAT} {model}", parent, SpanKind.CLIENT, attributes=self._attributes
        )
        self.context = trace.set_span_in_context(self._span, parent)

    def describe(self, request: Mapping[str, Any]) -> None:
        """Record the settings of the request. This is separate from `__init__`: if it fails, there is a span to end."""
        if self._span.is_recording():
            self._span.set_attributes(request_attributes(request, self._telemetry.version))
            if self._telemetry.captures_content:
                self._span.set_attributes(input_attributes(request))

    def begin(self, message: Mapping[str, Any]) -> None:
        """Record the start of the message. After a restart, the newest start counts."""
        if not self._is_open:
            return  # another message in the same body
        sent_s, first_byte_s = self._marks.sent_s, self._marks.first_byte_s
        if sent_s is not None and first_byte_s is not None:
            self._first_chunk_s = first_byte_s - sent_s
        # The output counts are placeholders until the end.
        self._usage = usage_attributes(message.get("usage"), self._telemetry.version, whole=False)
        if isinstance(message.get("model"), str):
            self._attributes[names.RESPONSE_MODEL] = bounded(message["model"])
        if self._span.is_recording():
            if isinstance(message.get("id"), str):
                self._span.set_attribute(names.RESPONSE_ID, bounded(message["id"]))
            if self._first_chunk_s is not None:
                self._span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, self._first_chunk_s)

    def stop(self, message: Mapping[str, Any], stop_reason: str | None) -> None:
        """Record the complete message, and end the span."""
        if not self._is_open:
            return
        self._usage = usage_attributes(message.get("usage"), self._telemetry.version)
        if self._span.is_recording():
            if stop_reason is not None:
                self._span.set_attribute(names.RESPONSE_FINISH_REASONS, [bounded(stop_reason)])
            if self._telemetry.captures_content:
                self._span.set_attributes(output_attributes(message))
        self._end()

    def break_off(self, error_type: str | None) -> None:
        """End the span without a complete message; `None` means cancellation. If the span has ended, do nothing."""
        if not self._is_open:
            return
        if error_type is not None:
            self._attributes[names.ERROR_TYPE] = error_type
            self._span.set_status(StatusCode.ERROR)
        self._end()

    def _end(self) -> None:
        self._is_open = False
        now_s = self._marks.clock()
        # A response that breaks off is reported only after its tools have ended.
        end_s = now_s if self._marks.end_s is None else self._marks.end_s
        try:
            if self._span.is_recording():
                self._span.set_attributes({**self._attributes, **self._usage})
        finally:
            self._span.end(time.time_ns() - round((now_s - end_s) * 1e9))
        metrics = self._telemetry.metrics
        if metrics is None:
            return
        metrics.record(names.OPERATION_DURATION, end_s - self._start_s, self._attributes, self.context)
        plain = {name: value for name, value in self._attributes.items() if name != names.ERROR_TYPE}
        if self._first_chunk_s is not None:
            metrics.record(names.TIME_TO_FIRST_CHUNK, self._first_chunk_s, plain, self.context)
        for kind, name in (("input", names.USAGE_INPUT_TOKENS), ("output", names.USAGE_OUTPUT_TOKENS)):
            if name in self._usage:
                metrics.record(names.USAGE, self._usage[name], {**plain, names.COUNTED_TYPE: kind}, self.context)
