"""A web page that shows active runs and asks for approval of calls.

::

    hub = Hub()
    async with serve(hub) as server:
        print(server.url)  # with the token that opens it
        with hub.observing():
            ...  # runs

`web_app` is the same page as an ASGI application, to be mounted in your own. `save_page` writes saved runs with their
page into one file.
"""

from ._application import web_app
from ._one_file import save_page
from ._server import WatchServer, serve

__all__ = ["WatchServer", "save_page", "serve", "web_app"]
