"""`CrossOrigin`: an ASGI application that pages of allowed origins can use from their browsers (CORS).

Source: the Fetch standard, section 3.3, "CORS protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .access import Access, Refused, header
from .asgi_server import ASGIApplication, ASGIMessage, Receive, Send

_EXPOSED: Final = b"retry-after, request-id"
_METHODS: Final = b"GET, HEAD, POST, DELETE"
_MAX_AGE_S: Final = b"600"


class CrossOrigin:
    """An ASGI application in front of another one. It tells browsers which pages from elsewhere may use it.

    A preflight of an allowed origin is answered here: it has no token yet. Cookies are not allowed along, so a page
    from elsewhere brings a token in a header. Everything else goes to the application, which refuses other origins.

    Args:
        app: The application. It checks each request by the same rule.
        access: The rule.
    """

    def __init__(self, app: ASGIApplication, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Respond as an ASGI application."""
        origin = header(scope, b"origin") if scope["type"] == "http" else ""
        if not self._access.is_allowed_elsewhere(origin):
            await self._app(scope, receive, send)
            return
        allowed = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]
        if scope["method"] == "OPTIONS" and header(scope, b"access-control-request-method"):
            await self._answer_preflight(scope, send, allowed)
            return

        async def send_allowed(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                added = [*allowed, (b"access-control-expose-headers", _EXPOSED)]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, send_allowed)

    async def _answer_preflight(self, scope: Mapping[str, Any], send: Send, allowed: list[tuple[bytes, bytes]]) -> None:
        try:
            self._access.check(scope)
        except Refused as refused:
            status, headers = refused.status, [(b"content-length", b"0")]
        else:
            asked = header(scope, b"access-control-request-headers").encode("latin-1")
            status, headers = (
                204,
                [
                    *allowed,
                    (b"access-control-allow-methods", _METHODS),
                    (b"access-control-allow-headers", asked),
                    (b"access-control-max-age", _MAX_AGE_S),
                ],
            )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
