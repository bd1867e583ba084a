"""Traffic becomes recordings: of a run in this process, or of any client's through a proxy.

Importing this is cheap: HTTP libraries, and what needs the extra `web`, are imported when something is sent or served.
"""

from __future__ import annotations

from ._folder import RecordingFolder, SavedReply
from ._proxy import RecordingProxy
from ._transport import RecordingTransport

__all__ = ["RecordingFolder", "RecordingProxy", "RecordingTransport", "SavedReply"]
