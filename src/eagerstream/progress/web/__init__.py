"""A web page on which runs are watched while they go on, and calls are approved.

::

    hub = Hub()
    async with serve(hub) as server:
        print(server.url)  # with the token that opens it
        with hub.observing():
            ...  # runs

`web_app` is the same as an ASGI application, to be mounted in one's own. Needs the extra `web`.
"""

from ..._serving.access import LOOPBACK_HOSTS, new_token
from ._application import web_app
from ._server import WatchServer, serve

__all__ = ["LOOPBACK_HOSTS", "WatchServer", "new_token", "serve", "web_app"]
