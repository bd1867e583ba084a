"""The JSON body of a request from somebody who is not to be trusted."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..plain_json import load_json

if TYPE_CHECKING:
    from starlette.requests import Request


class BadBody(Exception):
    """A body that is not taken.

    Attributes:
        status: The HTTP status that says why.
        text: Why, in words.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


async def read_json(request: Request, max_bytes: int) -> Any:
    """The JSON value that a request brings; no more than `max_bytes` are read.

    Its content type must say that it is JSON: a page of another origin cannot send that without being asked first.

    Raises:
        BadBody: It is something else (415), too large (413), no JSON (400), or the client has left (400).
    """
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadBody(415, "the body must be application/json")
    parts: list[bytes] = []
    size = 0
    try:
        async with aclosing(request.stream()) as stream:
            async for part in stream:
                size += len(part)
                if size > max_bytes:
                    raise BadBody(413, f"the body is over {max_bytes:,} bytes")
                parts.append(part)
        return load_json(b"".join(parts))
    except ClientDisconnect as error:
        raise BadBody(400, "the body is not whole") from error
    except (ValueError, RecursionError) as error:
        raise BadBody(400, "the body is not JSON") from error
