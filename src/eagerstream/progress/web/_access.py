"""Access to the page: checks of every request before it is answered.

A token is required, since every program of every user of a machine can reach its loopback address. The page's URL
brings the token once; from then on it is in a cookie that no script can read. Requests for unexpected hosts are
refused: another page can point its own name to our address (DNS rebinding), and would otherwise count as the same
origin. Changes are accepted only from our own page, or from a program that sends the token itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from ..._serving.access import is_token, parse_host, same_token
from ..._serving.asgi_server import ASGIApplication, ASGIMessage, Receive, Send
from ...errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

_HEADERS: Final = {
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
_HOW_TO_OPEN: Final = "To open this page, use the complete URL that the program printed.\n"


class Guard:
    """An ASGI application in front of another one. It checks requests, and adds security headers to responses.

    Args:
        application: The guarded application.
        token: The required secret; None if other code checks access.
        hosts: Names of this server, without ports; None allows any.

    Raises:
        UsageError: The token is not 16 to 256 letters, digits or `-._~`.
    """

    def __init__(self, application: ASGIApplication, *, token: str | None, hosts: Collection[str] | None) -> None:
        if token is not None and not is_token(token):
            raise UsageError("a token has 16 to 256 characters, all of them letters, digits or any of - . _ ~")
        self._application = application
        self._token = token
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

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
                if b"cache-control" not in named:
                    added.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        answer = self._refusal(Request(scope)) or self._application
        await answer(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        """Return the response that refuses a request or redirects it; None if the application may respond."""
        from starlette.responses import PlainTextResponse

        host = request.headers.get("host", "")
        address = parse_host(host)
        if self._hosts is not None and (address is None or address.name not in self._hosts):
            return PlainTextResponse("No such host here.\n", 421)
        is_program = self._is_token(request.headers.get("authorization", "").removeprefix("Bearer "))
        if self._token is not None and not is_program:
            given = request.query_params.get("token")
            if given is not None and request.method == "GET" and _path(request) in ("", "/"):
                return self._welcome(request) if self._is_token(given) else PlainTextResponse(_HOW_TO_OPEN, 401)
            if not self._is_token(request.cookies.get(_cookie(request), "")):
                return PlainTextResponse(_HOW_TO_OPEN, 401)
        if request.method not in ("GET", "HEAD") and not is_program:
            scheme, _, origin = request.headers.get("origin", "").partition("://")
            if scheme not in ("http", "https") or origin.lower() != host.lower() or not host:
                return PlainTextResponse("Only the page itself may ask for this.\n", 403)
        return None

    def _is_token(self, given: str) -> bool:
        return self._token is not None and same_token(given, self._token)

    def _welcome(self, request: Request) -> Response:
        """Store the token in a cookie, and redirect to the URL without it, to keep it out of the history."""
        from starlette.responses import RedirectResponse

        assert self._token is not None
        others = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        response = RedirectResponse("./" + (f"?{urlencode(others)}" if others else ""), 303)
        response.set_cookie(
            _cookie(request),
            self._token,
            path=request.scope.get("root_path", "") + "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response


def _cookie(request: Request) -> str:
    """Return the name of the cookie. It contains the port, since all ports of a host share their cookies."""
    address = parse_host(request.headers.get("host", ""))
    return f"eagerstream-{(address and address.port) or 'page'}"


def _path(request: Request) -> str:
    """Return the path below the mount point of the application."""
    return str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
