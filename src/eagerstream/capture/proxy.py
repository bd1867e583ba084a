"""`RecordingProxy`: any client's traffic with the API, recorded on its way."""

from __future__ import annotations

import os
from typing import Final

from ..serving import ThreadedServer
from .folder import RecordingFolder
from .forwarding import Forwarding
from .upstream import Upstream

DEFAULT_UPSTREAM: Final = "https://api.anthropic.com"
_MAX_CONNECTIONS: Final = 256
"""Each takes two files of the program, which may have a thousand of them."""


class RecordingProxy(ThreadedServer):
    """Passes requests on to one server that speaks the Messages API, and records the replies.

    ::

        with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
            client = AsyncAnthropic(base_url=proxy.base_url)

    What a client gets is what the upstream sends, each chunk at once: status, end-to-end headers, and every byte. An
    upstream that breaks off breaks the client's connection in the same way; one that cannot be reached in 10 seconds
    is an HTTP 502 in the shape of the API's errors. A client that leaves takes its request along. Of every reply to
    `POST .../messages`, errors too, what came is recorded; other paths only pass. The key is the client's own: it
    passes, and is neither kept nor logged.

    It runs in a thread of its own, see `ThreadedServer`; closing it waits for the files.

    Args:
        upstream: Where requests go, with the path that stands before theirs; `"https://gateway/anthropic"`, say.
        folder: Where recordings go; a path is a folder with its defaults: secrets masked, contents kept.
        host: Where to listen. It is not encrypted: leave it on loopback, or whoever listens gets the keys.
        port: 0 takes a free one.

    Raises:
        UsageError: A URL that is none, a port that does not exist, or a folder that cannot be made.
    """

    def __init__(
        self,
        upstream: str = DEFAULT_UPSTREAM,
        folder: RecordingFolder | str | os.PathLike[str] = "recordings",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.upstream = Upstream.parse(upstream)
        self.folder = folder if isinstance(folder, RecordingFolder) else RecordingFolder(folder)
        self._forwarding: Forwarding | None = None
        super().__init__(
            self._make_forwarding,
            name="recording proxy",
            host=host,
            port=port,
            max_connections=_MAX_CONNECTIONS,
            date_header=False,  # the upstream's passes
        )

    def close(self) -> None:
        """Stop: replies under way are cut, the thread is gone and the files are written on return."""
        if self._forwarding is not None:
            self._forwarding.is_closing = True
        super().close()
        self.folder.flush()

    def _make_forwarding(self) -> Forwarding:
        self._forwarding = Forwarding(self.upstream, self.folder)
        return self._forwarding
