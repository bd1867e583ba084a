"""Recording of API traffic: of a run in this process, or of any client through a proxy.

Importing this is cheap: HTTP libraries and servers are imported at the first use.
"""

from __future__ import annotations

from ._folder import RecordingFolder, SavedReply
from ._proxy import RecordingProxy, forwarding_app
from ._tape import Recorder, Tape, TapedReply, TapeOwner
from ._transport import RecordingTransport

__all__ = [
    "Recorder",
    "RecordingFolder",
    "RecordingProxy",
    "RecordingTransport",
    "SavedReply",
    "Tape",
    "TapeOwner",
    "TapedReply",
    "forwarding_app",
]
