"""`instrument` and `tracing`: from when on, and for whom, runs are traced."""

from __future__ import annotations

import logging
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

from ...errors import UsageError
from ...loop import Run
from ...streaming import EventFeed, MessageStream, on_every_feed, on_feed
from ._chat import Telemetry
from ._conventions import SCOPE, Conventions, conventions
from ._metrics import Metrics
from ._observer import FeedTracer

_log = logging.getLogger(__name__)

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that asks for contents, with the values of `opentelemetry-util-genai`."""
_CAPTURED: Final = frozenset({"true", "1", "span_only", "span_and_event"})
_NOT_CAPTURED: Final = frozenset({"", "false", "0", "no_content", "event_only"})

_OWN_PACKAGES: Final = ("opentelemetry.trace", "opentelemetry.metrics")
"""What the API itself provides does nothing: its proxies of an SDK that is not set up, and its no-ops."""


class Instrumentation:
    """What traces runs from now on; made by `instrument`.

    Args:
        tracer_provider, meter_provider: Where spans and metrics go; the global ones, as they are when a run is entered,
            where they are None.
        capture_content: See `instrument`.
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
        """Runs that are entered now are traced."""
        return self._stop is not None

    def start(self) -> None:
        """Trace each run and each stream that is entered from now on, in this process."""
        if self._stop is None:
            self._stop = on_every_feed(lambda feed: self.begin(feed) if _block.get() is None else None)

    def uninstrument(self) -> None:
        """Trace no further runs; those that go on are traced to their end. Nothing where it was ended already."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()

    def begin(self, feed: EventFeed[Any]) -> None:
        """Trace a feed that is entered, if it is of a known kind and somebody would see anything of it."""
        telemetry = _telemetry(  # now, because an SDK may be set up after this was made
            self._tracer_provider or trace.get_tracer_provider(),
            self._meter_provider or metrics.get_meter_provider(),
            self._version,
            captures_content=self._captures,
        )
        if telemetry is not None and isinstance(feed, Run | MessageStream):
            feed.observe(FeedTracer(feed, telemetry))


_active: list[Instrumentation] = []  # one at most
_block: ContextVar[Instrumentation | None] = ContextVar("tracing", default=None)


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
) -> Instrumentation:
    """Trace each run and each stream of this process that is entered from now on, by OpenTelemetry.

        handle = instrument()
        ...
        handle.uninstrument()

    A run is a span `invoke_agent`, each of its requests a span `chat {model}`, each call `execute_tool {name}`. As long
    as no SDK is set up, a run is not even observed. Calling it again takes the place of the call before: nothing is
    ever told twice.

    Args:
        tracer_provider, meter_provider: Where spans and metrics go; the global ones where they are None.
        capture_content: Prompts, replies, arguments and results go into the spans, too, bounded in size and without
            what looks like a secret. None: as the variable `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says
            (`true`, `span_only`, `span_and_event`); by default nothing of them does.

    Raises:
        UsageError: An argument is of the wrong kind.
    """
    made = Instrumentation(
        tracer_provider=tracer_provider, meter_provider=meter_provider, capture_content=capture_content
    )
    uninstrument()
    made.start()
    _active.append(made)
    return made


def uninstrument() -> None:
    """Undo the last `instrument`; nothing where there is none."""
    while _active:
        _active.pop().uninstrument()


@contextmanager
def tracing(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
) -> Iterator[None]:
    """Trace what is entered within the block, in this task and those that it starts; arguments as for `instrument`.

    In here it counts instead of `instrument`, and of a block around it.
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


@lru_cache(maxsize=4)  # making instruments takes as long as tracing a run; and runs begin in several threads at once
def _telemetry(
    tracers: TracerProvider, meters: MeterProvider, names: Conventions, *, captures_content: bool
) -> Telemetry | None:
    """What to make spans and metrics with; None where nobody would see any."""
    if _is_idle(tracers) and _is_idle(meters):
        return None
    try:
        version = version_of("eagerstream")
    except PackageNotFoundError:
        version = None  # a program that was frozen into one file
    tracer = tracers.get_tracer(SCOPE, version, names.schema_url)
    meter = meters.get_meter(SCOPE, version, names.schema_url)
    if _is_idle(tracer) and _is_idle(meter):  # an SDK that is switched off: OTEL_SDK_DISABLED
        return None
    return Telemetry(tracer, None if _is_idle(meter) else Metrics(meter, names), names, captures_content)


def _is_idle(thing: object) -> bool:
    return type(thing).__module__.startswith(_OWN_PACKAGES)


def _asked_for_content(environment: Mapping[str, str]) -> bool:
    value = environment.get(CAPTURE, "").strip().lower()
    if value not in _CAPTURED | _NOT_CAPTURED:
        _log.warning("%s is none of true, false, no_content, span_only, span_and_event, event_only", CAPTURE)
    return value in _CAPTURED
