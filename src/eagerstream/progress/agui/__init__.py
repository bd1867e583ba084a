"""AG-UI: a run as the events that frontends of that protocol take."""

from __future__ import annotations

from .encoder import AGUIEncoder, Event

__all__ = ["AGUIEncoder", "Event"]
