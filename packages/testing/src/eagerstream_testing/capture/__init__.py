"""Recording of API traffic: of a run in this process, or of any client through a proxy.

Importing this is cheap: HTTP libraries and the packages of the extra `web` are imported at the first use.
"""

from __future__ import annotations

from ._folder import RecordingFolder, SavedReply
from ._proxy import RecordingProxy
from ._transport import RecordingTransport

__all__ = ["RecordingFolder", "RecordingProxy", "RecordingTransport", "SavedReply"]
