"""`Guard`: an ASGI application behind the rule of `access`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from .access import Access, Refused
from .asgi_server import ASGIApplication, Receive, Send

Form: TypeAlias = Callable[[Refused], tuple[str, str]]
"""Returns the media type and the body of the response to a refused request."""

_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
    502: "api_error",
}
_CREDENTIAL: Final = re.compile(r"(?:Bearer +|.*Credential=)?([^/,\s]*).*", re.DOTALL | re.IGNORECASE)


def as_text(refused: Refused) -> tuple[str, str]:
    """Return a refusal as a line of text."""
    return "text/plain; charset=utf-8", f"{refused}\n"


def as_api_error(refused: Refused) -> tuple[str, str]:
    """Return a refusal in the form of the API's errors."""
    error = {"type": _ERROR_TYPES.get(refused.status, "invalid_request_error"), "message": str(refused)}
    return "application/json", json.dumps({"type": "error", "error": error})


class Guard:
    """An ASGI application in front of another one, which gets only requests that the rule admits.

    Clients bring the rule's token as they bring the key of an API.
    """

    def __init__(self, app: ASGIApplication, access: Access, form: Form = as_text) -> None:
        self._app = app
        self._access = access
        self._form = form

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Respond as an ASGI application."""
        try:
            if scope["type"] in ("http", "websocket"):
                self._access.check(scope)
                self._access.check_token(credentials(scope))
        except Refused as refused:
            await refuse(scope, send, refused, self._form)
        else:
            await self._app(scope, receive, send)


async def refuse(
    scope: Mapping[str, Any], send: Send, refused: Refused, form: Form, *headers: tuple[bytes, bytes]
) -> None:
    """Answer a refused request, with further headers."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})  # before it is accepted: the server answers with HTTP 403
        return
    media_type, text = form(refused)
    body = text.encode()
    own = (b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))
    safe = (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")
    await send({"type": "http.response.start", "status": refused.status, "headers": [*own, *safe, *headers]})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def credentials(scope: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that a client of an API sends: a key, a bearer token, or the id of a key of AWS."""
    for name, value in scope["headers"]:
        if name.lower() in (b"x-api-key", b"api-key", b"authorization"):
            match = _CREDENTIAL.fullmatch(value.decode("latin-1").strip())
            assert match is not None
            yield match[1]
