"""`FeedTracer`: the spans and the metrics of one run or of one stream.

The current span decides which spans nest in which:

- While a request is sent, its `chat` span is current in the task that sends it, and the headers carry it. Spans of the
  HTTP library nest in it. From the first event of the response on, `invoke_agent` is current again, because that task
  starts the calls.
- While a tool runs, its `execute_tool` span is current in its task and its thread. Spans that the tool makes nest in
  it. A remote executor passes it on with `opentelemetry.propagate.inject`.

All these tasks belong to the feed. Each task has its own context, which ends with it, so no context is ever detached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from opentelemetry import context as otel_context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from eagerstream import MessageStart, MessageStop
from eagerstream._support.logs import logger_of
from eagerstream._support.tracing import trace_headers
from eagerstream.calls import RunStatus
from eagerstream.loop import RequestMarks, Restarted, Run, ToolStart, ToolStop, TurnStop
from eagerstream.streaming import FeedEnd, MessageStream, ReplyMarks
from eagerstream.tools import ToolCall, ToolFailure

from . import _conventions as names
from ._attributes import bounded, error_type, peer_attributes, tool_error_type, usage_attributes
from ._chat import Chat, Telemetry
from ._content import MAX_TEXT_CHARS, call_attributes
from ._metrics import Attributes

_log = logger_of(__name__)

_FROM_WITHIN: Final = (RunStatus.CANCELLED, RunStatus.WAITING)
_RUN_KEY: Final = otel_context.create_key("eagerstream-run")
"""Key of the run's identity in the contexts of its tasks."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()
"""Writes and reads the trace context in the carrier of a run, whatever the program uses for its requests."""


class FeedTracer:
    """Observer of one feed: an `invoke_agent` span for a run, and the spans of its requests and calls.

    It never raises. If it fails, it ends the open spans, logs one warning, and does nothing more.
    """

    wants_deltas: Final = False

    def __init__(self, feed: Run | MessageStream, telemetry: Telemetry) -> None:
        self._feed = feed
        self._telemetry = telemetry
        self._peer = peer_attributes(feed.client)
        self._start_s = time.perf_counter()
        self._agent: Span | None = None
        self._agent_attributes: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: self._peer[names.PROVIDER],
            names.REQUEST_MODEL: bounded(feed.model),
        }
        self._key = object()
        self._context = otel_context.set_value(_RUN_KEY, self._key)
        if isinstance(feed, Run):
            # A resumed run continues the trace of its first process, or links to it.
            earlier = trace.get_current_span(_PROPAGATOR.extract(feed.carrier, Context())).get_span_context()
            links = []
            if earlier.is_valid and trace.get_current_span(self._context).get_span_context().is_valid:
                links.append(Link(earlier))  # the program has a trace of its own for what it does now
            elif earlier.is_valid:
                self._context = trace.set_span_in_context(trace.NonRecordingSpan(earlier), self._context)
            self._agent = telemetry.tracer.start_span(
                names.INVOKE_AGENT, self._context, SpanKind.INTERNAL, attributes=self._agent_attributes, links=links
            )
            if feed.has_journal:
                self._agent.set_attribute(names.RUN_ID, bounded(feed.id))
            if feed.resumed_after is not None:
                self._agent.set_attribute(names.RUN_RESUMED_AFTER, feed.resumed_after)
            self._context = trace.set_span_in_context(self._agent, self._context)
            if not feed.carrier:
                _PROPAGATOR.inject(feed.carrier, self._context)
        self._chat: Chat | None = None
        self._request: RequestMarks | ReplyMarks | None = None  # request whose inputs are not recorded yet
        self._tools: dict[ToolCall, _ToolRun] = {}
        self._known: dict[str, str] = {}  # descriptions of the request's tools, by name
        self._is_over = False

    # --- observer methods ---------------------------------------------------------------------------------------------

    def sending(self, request: Mapping[str, Any]) -> None:
        """See `RequestObserver.sending`."""
        self._guarded(partial(self._sending, request))

    def take(self, events: Sequence[Any]) -> None:
        """See `Observer.take`."""
        for event in events:
            told = self._TOLD.get(type(event))
            if told is not None:
                self._guarded(partial(told, self, event))

    def end(self, end: FeedEnd) -> None:
        """See `Observer.end`."""
        self._guarded(partial(self._end, end))

    def _guarded(self, do: Callable[[], object]) -> None:
        if self._is_over:
            return
        try:
            do()
        except Exception as error:
            # The error's text may quote the model's output, which does not belong in a log.
            _log.warning("tracing a run failed (%s): the rest of the run is not traced", type(error).__name__)
            self._give_up()

    def _give_up(self) -> None:
        self._is_over = True
        ends: list[Callable[[], object]] = [run.span.end for run in self._tools.values()]
        if self._chat is not None:
            ends.append(partial(self._chat.break_off, None))
        if self._agent is not None:
            ends.append(self._agent.end)
        self._tools.clear()
        for end in ends:
            try:
                end()
            except Exception:
                pass  # may come from the application's span processor; end the other spans first

    # --- requests -----------------------------------------------------------------------------------------------------

    def _sending(self, request: Mapping[str, Any]) -> None:
        self._close_request()
        if isinstance(self._feed, Run):
            self._request = self._feed.marks.requests[-1]
            reply = self._request.reply
        else:
            self._request = reply = self._feed.marks
        tools = request.get("tools") or ()
        named = [tool for tool in tools if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)]
        described = ((tool["name"], tool.get("description")) for tool in named)
        self._known = {name: text[:MAX_TEXT_CHARS] if isinstance(text, str) else "" for name, text in described}
        model = bounded(request.get("model", ""))
        self._chat = Chat(self._telemetry, model, self._peer, self._context, reply)
        otel_context.attach(self._chat.context)
        trace_headers.set(self._headers(self._chat.context))
        self._chat.describe(request)

    def _headers(self, context: Context) -> dict[str, str] | None:
        """Return the headers of the trace if the client would report the request to the same provider; else `None`.

        Its span of a streamed request has neither usage nor stop reason. With both, each request would count twice.
        """
        options = getattr(self._feed.client, "open_telemetry", None)
        if not isinstance(options, Mapping) or not options["traces"]["enabled"]:
            return None
        if (options.get("tracer_provider") or trace.get_tracer_provider()) is not self._telemetry.tracer_provider:
            return None
        carrier: dict[str, str] = {}
        if options["propagation"]:
            propagate.inject(carrier, context)  # as the client does: with the propagator of the program
        return carrier

    def _message_start(self, event: MessageStart) -> None:
        if self._chat is not None:
            self._chat.begin(event.message)
        otel_context.attach(self._context)
        trace_headers.set(None)  # for runs that are started in this task, or by tools

    def _message_stop(self, event: MessageStop) -> None:
        if self._chat is not None:
            self._chat.stop(event.message, event.stop_reason)

    def _request_over(self, event: Restarted | TurnStop) -> None:
        # A run that is cancelled from within reports this as an interruption.
        is_cancelled = isinstance(self._feed, Run) and self._feed.result.status in _FROM_WITHIN
        if self._chat is not None:
            self._chat.break_off(None if event.error is None or is_cancelled else error_type(event.error))
        otel_context.attach(self._context)
        trace_headers.set(None)
        self._close_request()

    def _close_request(self) -> None:
        """Record the metrics of all inputs and calls of a request, once."""
        request, self._request = self._request, None
        metrics = self._telemetry.metrics
        if request is None or metrics is None or self._chat is None:
            return
        reply = request.reply if isinstance(request, RequestMarks) else request
        for block in reply.blocks.values():
            if block.input is not None:
                metrics.input(block, reply, self._tool_attributes(block.name), self._chat.context)
        if isinstance(request, RequestMarks):
            end_s = reply.end_s if reply.message_stop_s is None else reply.message_stop_s
            for call, marks in request.calls.items():
                if marks.start_s is not None and end_s is not None:
                    lead_s = end_s - marks.start_s
                    name = names.LEAD_TIME if lead_s > 0 else names.LAG_TIME
                    metrics.record(name, abs(lead_s), self._tool_attributes(call.name), self._chat.context)

    # --- tools --------------------------------------------------------------------------------------------------------

    def _tool_start(self, event: ToolStart) -> None:
        call = event.call
        run = self._tools.get(call) or self._open(call)  # an executor may start a call again
        self._tools[call] = run
        # An executor may start calls in a task that outlives the run. Do not change the context of such a task.
        if otel_context.get_value(_RUN_KEY) is self._key:
            otel_context.attach(run.context)

    def _tool_stop(self, event: ToolStop) -> None:
        call = event.call
        run = self._tools.pop(call, None)
        if run is not None:
            self._close(call, run)
        elif not call.ran:
            now_ns = time.time_ns()  # the tool did not run: a span of length 0
            self._close(call, self._open(call, at_ns=now_ns), at_ns=now_ns)

    def _open(self, call: ToolCall, *, at_ns: int | None = None) -> _ToolRun:
        name = self._tool_name(call.name)
        attributes: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: bounded(call.name) if self._telemetry.captures_content else name,
            names.TOOL_TYPE: names.FUNCTION,
            names.TOOL_CALL_ID: bounded(call.id),
        }
        span = self._telemetry.tracer.start_span(
            f"{names.EXECUTE_TOOL} {name}",
            self._context,
            SpanKind.INTERNAL,
            attributes=attributes,
            start_time=at_ns,
        )
        return _ToolRun(span, trace.set_span_in_context(span))

    def _close(self, call: ToolCall, run: _ToolRun, *, at_ns: int | None = None) -> None:
        """End the span of a call, at `at_ns` or now."""
        failed = tool_error_type(call) if call.is_error or call.result is None else None
        try:
            if run.span.is_recording():
                if not call.ran:
                    run.span.set_attribute(names.TOOL_RAN, False)
                if failed is not None:
                    run.span.set_attribute(names.ERROR_TYPE, failed)
                    run.span.set_status(StatusCode.ERROR)
                if call.error is not None and (failure := ToolFailure.of(call.name, call.error)) is not None:
                    # Without its message, which may quote an argument.
                    event = {names.EXCEPTION_TYPE: failure.error, names.EXCEPTION_STACKTRACE: "\n".join(failure.frames)}
                    run.span.add_event(names.EXCEPTION, event, at_ns)
                if self._telemetry.captures_content:
                    run.span.set_attributes(call_attributes(call))
                    if description := self._known.get(call.name):
                        run.span.set_attribute(names.TOOL_DESCRIPTION, description)
        finally:
            run.span.end(at_ns)
        if self._telemetry.metrics is not None and call.ran:
            attributes = self._tool_attributes(call.name)
            attributes[names.TOOL_TYPE] = names.FUNCTION
            if failed is not None:
                attributes[names.ERROR_TYPE] = failed
            seconds, name = time.perf_counter() - run.start_s, self._telemetry.version.tool_duration
            self._telemetry.metrics.record(name, seconds, attributes, run.context)

    def _tool_name(self, name: str) -> str:
        return bounded(name) if name in self._known else names.OTHER

    def _tool_attributes(self, name: str) -> Attributes:
        return {names.TOOL_NAME: self._tool_name(name)}

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self, end: FeedEnd) -> None:
        failure = self._feed.failure
        failed = error_type(failure) if failure is not None else None
        if self._chat is not None:
            self._chat.break_off(failed)
        self._close_request()
        for call, run in [*self._tools.items()]:
            del self._tools[call]
            self._close(call, run)
        if self._agent is not None:
            if failed is not None:
                self._agent_attributes[names.ERROR_TYPE] = failed
                self._agent.set_status(StatusCode.ERROR)
            if self._agent.is_recording():
                usage: dict[str, AttributeValue] = {**usage_attributes(end.usage, self._telemetry.version)}
                self._agent.set_attributes({**self._agent_attributes, **usage, names.RUN_TURNS: end.turns})
                self._agent.set_attribute(names.RUN_STATUS, end.status)
                self._agent.set_attribute(names.RUN_VIOLATIONS, end.violations)
            self._agent.end()
            if self._telemetry.metrics is not None:
                seconds, name = time.perf_counter() - self._start_s, self._telemetry.version.agent_duration
                self._telemetry.metrics.record(name, seconds, self._agent_attributes, self._context)
        self._is_over = True

    _TOLD: ClassVar[Mapping[type, Callable[[FeedTracer, Any], None]]] = {
        MessageStart: _message_start,
        MessageStop: _message_stop,
        ToolStart: _tool_start,
        ToolStop: _tool_stop,
        Restarted: _request_over,
        TurnStop: _request_over,
    }


@dataclass(frozen=True, slots=True)
class _ToolRun:
    """Running tool: its span, the context with this span, and the start time."""

    span: Span
    context: Context
    start_s: float = field(default_factory=time.perf_counter)
