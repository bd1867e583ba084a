"""`EagerStreamInstrumentor`: what the command `opentelemetry-instrument` finds, and switches on.

It is an entry point of the group `opentelemetry_instrumentor`, and needs the package `opentelemetry-instrumentation`.
Programs that set up their own SDK call `instrument` instead.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from ._instrumentation import instrument, uninstrument


class EagerStreamInstrumentor(BaseInstrumentor):
    """`instrument` and `uninstrument` in the form that OpenTelemetry's own tools call; options as for `instrument`."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """What is instrumented: this package, whatever its version."""
        return ("eagerstream",)

    def _instrument(self, **kwargs: Any) -> None:
        known = ("tracer_provider", "meter_provider", "capture_content")
        instrument(**{name: kwargs[name] for name in known if name in kwargs})

    def _uninstrument(self, **_: Any) -> None:
        uninstrument()
