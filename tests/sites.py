"""Small web sites on loopback, which remember who asked for what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Site:
    """One site: pages by their path, `attachment` and `redirect` by the first word of the path."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def port(self) -> int:
        return self.server.server_port

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                headers, body = {"content-type": "text/html; charset=utf-8"}, site.pages.get(self.path, "")
                if self.path == "/attachment":
                    headers = {"content-type": "application/zip", "content-disposition": "attachment; filename=a.zip"}
                    body = "DOWNLOADED"
                elif self.path.startswith("/redirect?"):
                    headers = {"location": self.path.partition("?")[2]}
                self.send_response(302 if "location" in headers else 200)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(ConnectionError):  # the browser may have been killed
                    self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler


@contextmanager
def site(pages: Mapping[str, str]) -> Iterator[Site]:
    """A site that is up for the block."""
    served = Site(pages)
    thread = Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        served.server.server_close()
        thread.join()
