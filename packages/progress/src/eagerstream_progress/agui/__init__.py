"""AG-UI: a run as the events of that protocol, and an endpoint for its frontends. Extra `agui`."""

from __future__ import annotations

from importlib.util import find_spec

from eagerstream.errors import MissingExtraError

from .._held import Approval
from ._app import Start, agui_app
from ._encoder import AGUIEncoder, Event
from ._history import answers_of, frontend_tools, messages_of

if find_spec("ag_ui") is None:
    # A program imports this first: the error names the extra, before `import ag_ui` fails without it.
    raise MissingExtraError("agui", "ag_ui", package="eagerstream-progress")

__all__ = ["AGUIEncoder", "Approval", "Event", "Start", "agui_app", "answers_of", "frontend_tools", "messages_of"]
