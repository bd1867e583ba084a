"""`RecordingTransport`: a run's replies, recorded in the process itself."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import anyio.to_thread

from ..errors import APIError
from ..limits import Limits
from ..transports import Reply, RequestBody, StreamedReply, Transport, as_transport
from ._folder import RecordingFolder
from ._tape import Tape

_CUT = {None: "its reader left before its end", False: "it broke off: the connection was lost", True: ""}


class RecordingTransport(Transport):
    """Anything that `stream` and `run` take, with each of its replies recorded as it passes.

    ::

        async with eagerstream.run(RecordingTransport(client, "recordings"), ...) as run:
            ...

    What breaks off, and what is given up, is recorded as far as it came; refusals are, too. Times count from the
    moment when the client was given the request, so they have its own retries in them. It costs a list entry for each
    chunk. Files are written after their reply has ended, see `RecordingFolder`; used as an async context manager, it
    waits for them. The client stays open.

    Args:
        client: An async client of the anthropic package, an `HTTPTransport`, a `Recording`, another transport.
        folder: Where recordings go; a path is a folder with its defaults: secrets masked, contents kept.

    Raises:
        UsageError: `client` is none of these, or the folder cannot be made.
    """

    def __init__(self, client: Any, folder: RecordingFolder | str | os.PathLike[str]) -> None:
        self._inner = as_transport(client)
        self.folder = folder if isinstance(folder, RecordingFolder) else RecordingFolder(folder)
        self.base_url = str(getattr(client, "base_url", ""))
        """Where the client sends to, as far as it says; what is learned of the API there goes by it."""

    def __repr__(self) -> str:
        return f"<RecordingTransport {type(self._inner).__name__} {str(self.folder.path)!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Cancelled, it does not wait; files are written all the same.
        await anyio.to_thread.run_sync(self.folder.flush, abandon_on_cancel=True)

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`."""
        return self._inner.opening_timeout_s(limits)

    @property
    def default_betas(self) -> Sequence[str]:
        """See `Transport.default_betas`."""
        return self._inner.default_betas

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        """See `Transport.open`. Cancelling it before the reply begins leaves no recording."""
        tape = self.folder.begin(request, host=_host_of(self.base_url))
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._inner.open(request, limits))
            except APIError as error:
                _take_refusal(tape, error)
                raise
            if not isinstance(reply, StreamedReply):
                name = type(self._inner).__name__
                self.folder.tell_once(f"replies of a {name} are not recorded: it shows no bytes")
                yield reply
                return
            tape.begin(200, reply.headers.items())
            reply.tap = tape.take
            try:
                yield reply
            finally:
                tape.end(_CUT[reply.ended])


def _host_of(url: str) -> str:
    """The host, and the port where one is named; never what stands before it."""
    try:
        address = urlsplit(url)
        return f"{address.hostname}:{address.port}" if address.port else address.hostname or ""
    except ValueError:
        return ""


def _take_refusal(tape: Tape, error: APIError) -> None:
    """An error response: as it came where the client's own exception has it, else what is known of it."""
    if error.status_code is None:
        return  # there was none
    response = _response_of(error)
    if response is not None:
        headers, content = response
        cut = ""
    else:
        told = {"type": error.error_type or "api_error", "message": error.reason}
        content = json.dumps({"type": "error", "error": told, "request_id": error.request_id}).encode()
        headers = [("content-type", "application/json")]
        cut = "its body is made of what its error says"
    tape.begin(error.status_code, headers)
    tape.take(content)
    tape.end(cut)


def _response_of(error: APIError) -> tuple[list[tuple[str, str]], bytes] | None:
    """Headers and body of the response that the client's exception has; None where it has none, or did not read it."""
    response: Any = getattr(error.__cause__, "response", None)
    try:
        return list(response.headers.items()), bytes(response.content)
    except Exception:  # whatever a client's own exception has in that place
        return None
