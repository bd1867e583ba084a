"""JSON requests to a search service, bounded in time and size, with retries. Error texts contain no secrets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from functools import cache
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from eagerstream._support.cancellation import close_quietly, unwind
from eagerstream._support.unpacking import ACCEPT_ENCODING, TooManyBytesError, Unpacker, UnpackingError
from eagerstream.errors import ToolError
from eagerstream.tools import ToolErrorCode

if TYPE_CHECKING:
    import httpx

MAX_ITEMS: Final = 100
"""Maximum number of items to read from a list. Services return 20 results of a kind, and Brave 5 more excerpts."""

_ATTEMPTS: Final = 3
_FIRST_PAUSE_S: Final = 0.5
_MAX_BYTES: Final = 1024 * 1024
"""Maximum size of a response, compressed and uncompressed. Twenty results have about 50 kB.

It is parsed on the event loop: 4 MB take 0.2 s.
"""


async def get_json(
    url: str,
    *,
    params: Mapping[str, str | int],
    headers: Mapping[str, str],
    client: httpx.AsyncClient | None,
    timeout_s: float,
) -> dict[str, Any]:
    """Return the JSON object at a URL. Redirects are not followed. Cancelling this closes the connection.

    This function logs nothing. httpx itself logs the complete URL, including the query, at level INFO.

    Args:
        url: The service's address.
        params: The query of the URL.
        headers: They may contain a key, which no error text shows.
        client: It stays open. `None` makes a client for this request.
        timeout_s: Time limit in seconds for all attempts together.

    Raises:
        ToolError: The service cannot be reached, does not respond in time, refuses the request, or returns too much
            data or no JSON object. The text is for the model.
    """
    headers = {"accept": "application/json", "accept-encoding": ACCEPT_ENCODING, **headers}
    failed: ToolError | None = None
    with anyio.move_on_after(timeout_s) as scope:
        async with _client(client, timeout_s) as used:
            for attempt in range(_ATTEMPTS):
                try:
                    return await _attempt(used, url, params, headers)
                except _Again as again:
                    failed = again.failed
                    pause_s = _FIRST_PAUSE_S * 2**attempt if again.after_s is None else again.after_s
                if attempt == _ATTEMPTS - 1 or anyio.current_time() + pause_s > scope.deadline:
                    raise failed
                await anyio.sleep(pause_s)
    raise failed or ToolError(f"The search service did not answer within {timeout_s:g} seconds.", code="TIMEOUT")


class _Again(Exception):
    """A failure that a retry may solve.

    Attributes:
        failed: The error to raise without a retry.
        after_s: The service's requested delay in seconds. `None` if it requests none.
    """

    def __init__(self, failed: ToolError, after_s: float | None = None) -> None:
        super().__init__()
        self.failed = failed
        self.after_s = after_s


async def _attempt(
    client: httpx.AsyncClient, url: str, params: Mapping[str, str | int], headers: Mapping[str, str]
) -> dict[str, Any]:
    import httpx

    # httpx's exceptions are not chained: they hold the request, which has the key.
    try:
        request = client.build_request("GET", url, params=dict(params), headers=dict(headers))
        response = await client.send(request, stream=True, follow_redirects=False)
        try:
            status = response.status_code
            if status == 429:
                after_s = _retry_after_s(response.headers)
                raise _Again(ToolError.rate_limited(after_s), after_s)
            if status >= 500:
                said = f"The search service failed (HTTP {status})."
                failed = ToolError(said, code=ToolErrorCode.SERVICE_UNAVAILABLE)
                raise _Again(failed, _retry_after_s(response.headers))
            if status in (401, 403):
                raise ToolError("The search service refused its key.", code=ToolErrorCode.PERMISSION_DENIED)
            if status != 200:
                said = f"The search service refused the request (HTTP {status})."
                raise ToolError(said, code=ToolErrorCode.API_ERROR)
            body = await _body(response)
        finally:
            await close_quietly(response)
    except httpx.TimeoutException:
        raise _Again(ToolError("The search service did not answer in time.", code="TIMEOUT")) from None
    except httpx.TransportError:
        raise _Again(ToolError("The search service could not be reached.", code="NETWORK_ERROR")) from None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _unreadable() from None
    if not isinstance(value, dict):
        raise _unreadable()
    return value


async def _body(response: httpx.Response) -> bytes:
    """Read and unpack the body. httpx would unpack complete chunks without a bound."""
    is_read = response.is_stream_consumed  # a hook of the client has read and unpacked it
    chunks = response.aiter_bytes() if is_read else response.aiter_raw()
    body = bytearray()
    try:
        coding = "" if is_read else response.headers.get("content-encoding", "")
        unpacker = Unpacker(coding, max_bytes=_MAX_BYTES)
        async for chunk in chunks:
            for piece in unpacker.feed(chunk):
                body += piece
            await anyio.lowlevel.checkpoint_if_cancelled()
    except TooManyBytesError:
        raise ToolError("The answer of the search service is too large.", code=ToolErrorCode.API_ERROR) from None
    except UnpackingError:
        raise _unreadable() from None
    finally:
        await unwind(chunks)
    return bytes(body)


def _unreadable() -> ToolError:
    return ToolError("The answer of the search service cannot be read.", code=ToolErrorCode.API_ERROR)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            # Relative to the service's clock: ours may differ.
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None


@asynccontextmanager
async def _client(given: httpx.AsyncClient | None, timeout_s: float) -> AsyncIterator[httpx.AsyncClient]:
    if given is not None:
        yield given
        return
    import httpx

    # One client per request: an open client belongs to one event loop, and needs an owner that closes it.
    certificates = await anyio.to_thread.run_sync(_certificates)
    async with httpx.AsyncClient(verify=certificates, timeout=timeout_s) as client:
        yield client


@cache
def _certificates() -> SSLContext:
    """Load the certificates once. Loading takes 0.1 s."""
    import httpx

    return httpx.create_ssl_context()


def items_of(holder: object, name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of a response, at most `MAX_ITEMS`. A missing list counts as empty."""
    items = holder.get(name) if isinstance(holder, Mapping) else None
    return [item for item in items[:MAX_ITEMS] if isinstance(item, Mapping)] if isinstance(items, list) else []
