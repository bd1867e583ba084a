"""Who may look, and who may decide: in front of every request to the page.

A token is asked for, since every program of every user of a machine reaches its loopback address. The page's URL brings
it once; a cookie that no script can read has it from then on. Requests for hosts that are not expected are refused:
a page from elsewhere can give its own name our address (DNS rebinding), and would otherwise count as the same origin.
What changes something is taken from our own page only, or from a program that sends the token itself.
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
    # Nothing from elsewhere, nothing inline, no markup out of strings, in nobody's frame.
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
_HOW_TO_OPEN: Final = "This page opens with the whole URL that the program has printed.\n"


class Guard:
    """An ASGI application in front of another one: lets through who may see it, and adds the headers of a safe page.

    Args:
        application: What is guarded.
        token: What has to be known; None where somebody else asks already.
        hosts: Names of this server, without ports; None takes any.

    Raises:
        UsageError: The token is shorter than 16 characters, or has some that no URL and cookie can have.
    """

    def __init__(self, application: ASGIApplication, *, token: str | None, hosts: Collection[str] | None) -> None:
        if token is not None and not is_token(token):
            raise UsageError("a token has 16 to 256 characters, all of them letters, digits or any of - . _ ~")
        self._application = application
        self._token = token
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as any ASGI application."""
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
        """What to answer instead of the application; None where it may answer."""
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
        """Keep the token in a cookie, and go to the URL without it: it stays in no history and no bookmark."""
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
    """The name of the cookie: all ports of a host share their cookies, so the port is in it."""
    address = parse_host(request.headers.get("host", ""))
    return f"eagerstream-{(address and address.port) or 'page'}"


def _path(request: Request) -> str:
    """The path below the place where the application is mounted."""
    return str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))
