"""AG-UI: a run as the events of that protocol, and an endpoint for its frontends. Extra `agui`."""

from __future__ import annotations

from ._app import Start, agui_app
from ._encoder import AGUIEncoder, Event
from ._history import frontend_tools, messages_of, system_of

__all__ = ["AGUIEncoder", "Event", "Start", "agui_app", "frontend_tools", "messages_of", "system_of"]
