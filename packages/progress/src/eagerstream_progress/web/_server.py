"""`serve`: the page on its own socket, in the process of the runs that it shows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from eagerstream._support.serving.access import Access, new_token
from eagerstream._support.serving.asgi_server import ThreadedServer

from ._application import guarded_page

if TYPE_CHECKING:
    from .._hub import Hub
    from ._journal_pages import WatchedJournal


MAX_CONNECTIONS: Final = 256
"""Maximum number of connections. A page has one or two. Any program that reaches the port can open them without a
token, and each takes one of about 1,000 file descriptors of the process.
"""


class WatchServer(ThreadedServer):
    """Serves the page; see `serve`."""

    def __init__(
        self,
        hub: Hub,
        *,
        host: str,
        port: int,
        token: str | None,
        journal: WatchedJournal | None,
        hosts: Collection[str],
        origins: Collection[str],
    ) -> None:
        self._token = token or new_token()
        access = Access(hosts=hosts, origins=origins, token=self._token, host=host, has_pages=True)
        super().__init__(
            lambda: guarded_page(hub, access, journal),
            name="watch server",
            host=host,
            port=port,
            max_connections=MAX_CONNECTIONS,
        )

    @property
    def token(self) -> str:
        """The token that a program sends as `Authorization: Bearer`."""
        return self._token

    @property
    def url(self) -> str:
        """The URL to open in a browser. It contains the token and opens the page for anyone who knows it.

        Raises:
            UsageError: The server is not running.
        """
        return f"{self.base_url}/?token={self._token}"


def serve(
    hub: Hub,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    journal: WatchedJournal | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
) -> WatchServer:
    """Return a server for the page, with its own socket and thread. A slow browser delays no run.

    ::

        async with serve(hub) as server:  # or `with`; on asyncio, on trio, and without an event loop
            print(server.url)

    Args:
        hub: The runs.
        host: The address to listen on. Other machines can reach any address except loopback. Only the token keeps them
            out, and it is sent unencrypted. Put a TLS proxy in front.
        port: The port; 0 takes a free one.
        token: The secret that opens the page. If None or empty, a new one is made.
        journal: A journal whose runs have a page, too, and whose waiting calls can be decided there.
        hosts: Further names under which the page is requested, with or without a port, such as this machine's name.
            `host` and the names of loopback are always allowed.
        origins: Origins of pages from elsewhere that may use the other paths of `web_app`.

    Raises:
        UsageError: `port` is not from 0 to 65535, `host` is empty, a host or an origin is malformed, or the token is
            not 16 to 256 letters, digits or `-._~`. On entering: the server is running already or cannot listen there.
    """
    return WatchServer(hub, host=host, port=port, token=token, journal=journal, hosts=hosts, origins=origins)
