"""Access to the page: the rule of all servers, and how browsers bring the token.

The page's URL brings it once; from then on it is in a cookie that no script can read. Changes are accepted only from
our own page, or from a program that sends the token itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from eagerstream._support.serving.access import Access, Refused, header, parse_host
from eagerstream._support.serving.asgi_server import ASGIApplication, ASGIMessage, Receive, Send
from eagerstream._support.serving.guard import as_text, refuse

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

_HEADERS: Final = {
    "cache-control": "no-store",
    # Only our own files, no inline code, no markup from strings, no framing.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_HOW_TO_OPEN: Final = "to open this page, use the complete URL that the program printed"


class PageGuard:
    """An ASGI application in front of another one. It checks requests, and adds security headers to responses.

    Args:
        application: The guarded application.
        access: The rule. Without a token, other code checks who asks.
    """

    def __init__(self, application: ASGIApplication, access: Access) -> None:
        self._application = application
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond as an ASGI application."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        from starlette.requests import Request

        async def send_guarded(message: ASGIMessage) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in message.get("headers", ())}
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                added = [(name, value) for name, value in added if name not in named]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            answer = self._admitted(Request(scope))
        except Refused as refused:
            await refuse(scope, send_guarded, refused, as_text)
        else:
            await answer(scope, receive, send_guarded)

    def _admitted(self, request: Request) -> ASGIApplication:
        """Return what responds: the application, or a redirection of the URL with the token.

        Raises:
            Refused: The request must not be answered.
        """
        access = self._access
        access.check(request.scope)
        is_program = access.is_token(request.headers.get("authorization", "").removeprefix("Bearer "))
        if access.token is not None and not is_program:
            given = request.query_params.get("token")
            root: str = request.scope.get("root_path", "")  # the mount point of the application
            path = request.scope["path"].removeprefix(root)
            is_welcome = given is not None and request.method == "GET" and path in ("", "/")
            if not access.is_token(given or "" if is_welcome else request.cookies.get(_cookie(request), "")):
                raise Refused(401, _HOW_TO_OPEN)
            if is_welcome:
                # Redirect to the URL without the token, to keep it out of the history.
                from starlette.responses import RedirectResponse

                others = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
                response = RedirectResponse("./" + (f"?{urlencode(others)}" if others else ""), 303)
                response.set_cookie(
                    _cookie(request),
                    access.token,
                    path=root + "/",
                    secure=request.url.scheme == "https",
                    httponly=True,
                    samesite="strict",
                )
                return response
        if request.method not in ("GET", "HEAD") and not is_program and not header(request.scope, b"origin"):
            raise Refused(403, "only the page itself may ask for this")
        return self._application


def _cookie(request: Request) -> str:
    """Return the name of the cookie. It contains the port, since all ports of a host share their cookies."""
    address = parse_host(request.headers.get("host", ""))
    return f"eagerstream-{(address and address.port) or 'page'}"
