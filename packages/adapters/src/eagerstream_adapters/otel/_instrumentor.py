"""`EagerStreamInstrumentor`: the entry point that the command `opentelemetry-instrument` finds and switches on.

Its group is `opentelemetry_instrumentor`. It needs the package `opentelemetry-instrumentation`. If your program sets up
its own SDK, call `instrument` instead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from ._instrumentation import instrument, uninstrument


class EagerStreamInstrumentor(BaseInstrumentor):
    """Form of `instrument` and `uninstrument` for OpenTelemetry's tools. The options are those of `instrument`."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return the instrumented package: eagerstream, in any version."""
        return ("eagerstream",)

    def _instrument(self, **kwargs: Any) -> None:
        known = ("tracer_provider", "meter_provider", "capture_content")
        instrument(**{name: kwargs[name] for name in known if name in kwargs})

    def _uninstrument(self, **_: Any) -> None:
        uninstrument()
