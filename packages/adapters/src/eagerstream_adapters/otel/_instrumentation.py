"""`instrument` and `tracing`: switch the tracing of runs on and off, for a process or for a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version as version_of
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from eagerstream._support.logs import logger_of
from eagerstream.errors import UsageError
from eagerstream.loop import Run
from eagerstream.streaming import EventFeed, MessageStream, on_every_feed, on_feed

from ._chat import Telemetry
from ._conventions import SCOPE, Conventions, conventions
from ._metrics import Metrics
from ._observer import FeedTracer

_log = logger_of(__name__)

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Variable that switches content capture on, with the values of `opentelemetry-util-genai`."""
_CAPTURED: Final = frozenset({"true", "1", "span_only", "span_and_event"})
_NOT_CAPTURED: Final = frozenset({"", "false", "0", "no_content", "event_only"})

_OWN_PACKAGES: Final = ("opentelemetry.trace", "opentelemetry.metrics")
"""Packages whose objects do nothing: the API's proxies for an SDK that is not set up, and its no-ops."""


class Instrumentation:
    """Handle of the tracing of runs; made by `instrument`.

    Args:
        tracer_provider: Provider for the spans. `None` uses the global provider at the time a run is entered.
        meter_provider: Provider for the metrics. `None` uses the global provider at the time a run is entered.
        capture_content: As for `instrument`.

    Raises:
        UsageError: An argument has the wrong type.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        capture_content: bool | None = None,
    ) -> None:
        for name, given, kind in (
            ("tracer_provider", tracer_provider, TracerProvider),
            ("meter_provider", meter_provider, MeterProvider),
        ):
            if given is not None and not isinstance(given, kind):
                raise UsageError(f"{name} must be a {kind.__name__} of OpenTelemetry, not {type(given).__name__}")
        if not isinstance(capture_content, bool | None):
            raise UsageError(f"capture_content must be True, False or None, not {type(capture_content).__name__}")
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._version: Conventions = conventions(os.environ)
        self._captures = _asked_for_content(os.environ) if capture_content is None else capture_content
        self._stop: Callable[[], object] | None = None

    @property
    def is_active(self) -> bool:
        """State of the tracing: `True` if runs that are entered now are traced."""
        return self._stop is not None

    def start(self) -> None:
        """Trace each run and each stream that is entered from now on, in this process."""
        if self._stop is None:
            self._stop = on_every_feed(lambda feed: self.begin(feed) if _block.get() is None else None)

    def uninstrument(self) -> None:
        """Trace no further runs. Active runs are traced to their end. A second call does nothing."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def begin(self, feed: EventFeed[Any]) -> None:
        """Trace a feed that is being entered, if it is a run or a stream and an SDK is set up."""
        telemetry = _telemetry(  # read now, because an SDK may be set up after `instrument`
            self._tracer_provider or trace.get_tracer_provider(),
            self._meter_provider or metrics.get_meter_provider(),
            self._version,
            captures_content=self._captures,
        )
        if telemetry is not None and isinstance(feed, Run | MessageStream):
            feed.observe(FeedTracer(feed, telemetry))


_active: list[Instrumentation] = []  # at most one
_block: ContextVar[Instrumentation | None] = ContextVar("tracing", default=None)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
) -> Instrumentation:
    """Trace each run and each stream of this process that is entered from now on, with OpenTelemetry.

        handle = instrument()
        ...
        handle.uninstrument()

    A run is a span `invoke_agent`, each of its requests a span `chat {model}`, each call a span `execute_tool {name}`.
    If the client of the anthropic package would report the request to the same provider, too, it does not do so for
    these requests. They still have the headers of the trace. Without an SDK, a run is not even observed. A second call
    of `instrument` replaces the first one, so that each run is reported once.

    Args:
        tracer_provider: Provider for the spans. `None` uses the global provider.
        meter_provider: Provider for the metrics. `None` uses the global provider.
        capture_content: Whether to record prompts, responses, arguments and results in the spans. They are bounded in
            size, and text that looks like a secret is masked. `None` follows the variable
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` (`true`, `1`, `span_only` and `span_and_event` switch
            it on). If the variable is missing, nothing of them is recorded.

    Returns:
        The handle, which can end the tracing.

    Raises:
        UsageError: An argument has the wrong type.
    """
    made = Instrumentation(
        tracer_provider=tracer_provider, meter_provider=meter_provider, capture_content=capture_content
    )
    uninstrument()
    made.start()
    _active.append(made)
    return made


def uninstrument() -> None:
    """Undo the last `instrument`. Without one, do nothing."""
    while _active:
        _active.pop().uninstrument()


@contextmanager
def tracing(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
) -> Iterator[None]:
    """Trace the runs and streams that are entered within the block, in this task and the tasks that it starts.

    It replaces `instrument` and any outer block. The arguments are those of `instrument`.

    Raises:
        UsageError: An argument has the wrong type.
    """
    made = Instrumentation(
        tracer_provider=tracer_provider, meter_provider=meter_provider, capture_content=capture_content
    )

    def begin(feed: EventFeed[Any]) -> None:
        if _block.get() is made:
            made.begin(feed)

    token = _block.set(made)
    try:
        with on_feed(begin):
            yield
    finally:
        _block.reset(token)


@lru_cache(maxsize=4)  # making instruments takes as long as tracing a run, and runs start in several threads at once
def _telemetry(
    tracers: TracerProvider, meters: MeterProvider, names: Conventions, *, captures_content: bool
) -> Telemetry | None:
    """Return the objects that make spans and metrics, or `None` if both providers are idle."""
    if _is_idle(tracers) and _is_idle(meters):
        return None
    try:
        version = version_of("eagerstream")
    except PackageNotFoundError:
        version = None  # a program frozen into one file
    tracer = tracers.get_tracer(SCOPE, version, names.schema_url)
    meter = meters.get_meter(SCOPE, version, names.schema_url)
    if _is_idle(tracer) and _is_idle(meter):  # an SDK that OTEL_SDK_DISABLED switched off
        return None
    return Telemetry(tracer, tracers, None if _is_idle(meter) else Metrics(meter, names), names, captures_content)


def _is_idle(thing: object) -> bool:
    return type(thing).__module__.startswith(_OWN_PACKAGES)


def _asked_for_content(environment: Mapping[str, str]) -> bool:
    value = environment.get(CAPTURE, "").strip().lower()
    if value not in _CAPTURED | _NOT_CAPTURED:
        _log.warning("%s is none of true, false, no_content, span_only, span_and_event, event_only", CAPTURE)
    return value in _CAPTURED
