"""`serve`: the page on a socket of its own, next to the runs that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..._serving.access import LOOPBACK_HOSTS, is_loopback, new_token
from ..._serving.asgi_server import ThreadedServer
from ._application import web_app

if TYPE_CHECKING:
    from .._hub import Hub


MAX_CONNECTIONS: Final = 256
"""Each page has one or two. Whoever reaches the port can open them without a token, and each is a file of the program,
which may have a thousand of them."""


class WatchServer(ThreadedServer):
    """Serves the page; see `serve`."""

    def __init__(self, hub: Hub, *, host: str, port: int, token: str | None) -> None:
        self._token = token or new_token()
        hosts = LOOPBACK_HOSTS if is_loopback(host) else None  # elsewhere nobody knows the names of this machine
        super().__init__(
            lambda: web_app(hub, token=self._token, hosts=hosts),
            name="watch server",
            host=host,
            port=port,
            max_connections=MAX_CONNECTIONS,
        )

    @property
    def token(self) -> str:
        """What a program sends as `Authorization: Bearer`."""
        return self._token

    @property
    def url(self) -> str:
        """What to open in a browser; it has the token, and opens the page to whoever knows it.

        Raises:
            UsageError: The server is not running.
        """
        return f"{self.base_url}/?token={self._token}"


def serve(hub: Hub, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> WatchServer:
    """The page on a socket of its own, in a thread of its own: a slow browser delays no run.

    ::

        async with serve(hub) as server:  # or `with`; on asyncio, on trio, and without an event loop
            print(server.url)

    Args:
        hub: The runs.
        host: Where to listen. Others reach it where that is not loopback: the token is all that keeps them out, and it
            is sent in the clear, so put it behind something that speaks TLS.
        port: 0 takes a free one.
        token: What has to be known to see them; a new one where it is None.

    Raises:
        UsageError: A port that does not exist, or no host. On entering: the port is in use, or the token is too short.
        MissingExtraError: On entering: the extra `web` is not installed.
    """
    return WatchServer(hub, host=host, port=port, token=token)
