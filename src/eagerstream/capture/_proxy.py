"""`RecordingProxy`: any client's traffic with the API, recorded on its way."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

from .._serving.access import new_token
from .._serving.asgi_server import ThreadedServer
from ._admission import Admission
from ._folder import RecordingFolder
from ._forwarding import Forwarding
from ._upstream import Upstream

DEFAULT_UPSTREAM: Final = "https://api.anthropic.com"
_MAX_CONNECTIONS: Final = 256
"""Each takes two files of the program, which may have a thousand of them."""


class RecordingProxy(ThreadedServer):
    """Passes requests on to one server that speaks the Messages API, and records the replies.

    ::

        with RecordingProxy("https://api.anthropic.com", "recordings") as proxy:
            client = AsyncAnthropic(base_url=proxy.base_url)

    A client gets exactly what the upstream sends, each chunk at once: status, end-to-end headers, and every byte. If
    the upstream breaks off, the client's connection breaks in the same way. If it cannot be reached in 10 seconds, the
    client gets an HTTP 502 in the shape of the API's errors. If a client leaves, its request is cancelled. Every reply
    to `POST .../messages` is recorded, errors too; other paths only pass. The key is the client's own: it passes, and
    is neither kept nor logged.

    Every program and every page in a browser on this machine can connect to the proxy. So it refuses requests under
    another name than its own, requests from pages, and paths that could lead out of the upstream's path (`..`, `//`,
    escaped or not). If the URL of the upstream has a name and a password, the proxy adds them to requests without an
    `authorization` of their own. Only requests that know its token get so far: `base_url` has it as the first part of
    the path.

    It runs in a thread of its own, see `ThreadedServer`; closing it waits for the files.

    Args:
        upstream: Where requests go, with the path that stands before theirs; `"https://gateway/anthropic"`, say.
        folder: Where recordings go; a path is a folder with its defaults: secrets masked, contents kept.
        host: Where to listen. It is not encrypted: leave it on loopback, or whoever listens gets the keys.
        port: 0 takes a free one.
        hosts: Further names under which clients may ask for the proxy, with or without a port: the name of this
            machine, say. Those of loopback and `host` are always allowed.
        origins: Origins of pages that may use the proxy, such as `"https://app.example"`. None by default.
        token: What clients have to know. By default a new one if the upstream's URL has a password, otherwise none.

    Raises:
        UsageError: A URL that is none, a port that does not exist, a malformed host, origin or token, or a folder that
            cannot be made.
    """

    def __init__(
        self,
        upstream: str = DEFAULT_UPSTREAM,
        folder: RecordingFolder | str | os.PathLike[str] = "recordings",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str | None = None,
    ) -> None:
        self.upstream = Upstream.parse(upstream)
        if token is None and self.upstream.authorization is not None:
            token = new_token()
        self._token = token
        self._admission = Admission(host=host, hosts=hosts, origins=origins, token=token)
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

    @property
    def base_url(self) -> str:
        """What clients are given, for example `"http://127.0.0.1:49152"`; with the token in its path, if there is one.

        Raises:
            UsageError: The proxy is not running.
        """
        return super().base_url + (f"/{self._token}" if self._token is not None else "")

    def close(self) -> None:
        """Stop: replies under way are cut, the thread is gone and the files are written on return."""
        if self._forwarding is not None:
            self._forwarding.is_closing = True
        super().close()
        self.folder.flush()

    def _make_forwarding(self) -> Forwarding:
        self._forwarding = Forwarding(self.upstream, self.folder, self._admission)
        return self._forwarding
