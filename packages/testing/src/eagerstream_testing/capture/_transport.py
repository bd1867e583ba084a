"""`RecordingTransport`: records a run's responses in the process itself."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import anyio.to_thread

from eagerstream.errors import APIError
from eagerstream.limits import Limits
from eagerstream.transports import Reply, RequestBody, StreamedReply, Transport, as_transport

from ._folder import RecordingFolder
from ._tape import Tape

_CUT = {None: "its reader left before its end", False: "it broke off: the connection was lost", True: ""}


class RecordingTransport(Transport):
    """Transport that records each response of another transport or client as it passes.

    ::

        async with eagerstream.run(RecordingTransport(client, "recordings"), ...) as run:
            ...

    A response that breaks off or is abandoned is recorded as far as it arrived. Error responses are recorded, too.
    Times count from the moment when the client got the request, so they include the client's own retries. Each chunk
    costs one list entry. Files are written after their response has ended, see `RecordingFolder`. Used as an async
    context manager, the transport waits for them on exit. The client stays open.

    Args:
        client: An async client of the anthropic package, an `HTTPTransport`, a `Recording`, or another transport.
        folder: Folder for the recordings. A path is a folder with the defaults: secrets masked, contents kept.

    Raises:
        UsageError: `client` is none of these, or the folder cannot be created.
    """

    def __init__(self, client: Any, folder: RecordingFolder | str | os.PathLike[str]) -> None:
        self._inner = as_transport(client)
        self.folder: RecordingFolder = folder if isinstance(folder, RecordingFolder) else RecordingFolder(folder)
        self.base_url: str = str(getattr(client, "base_url", ""))
        """Base URL of the client, if it has one. Facts learned about that API are stored under this URL."""

    def __repr__(self) -> str:
        return f"<RecordingTransport {type(self._inner).__name__} {str(self.folder.path)!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # If cancelled, it does not wait; the files are still written.
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
        """See `Transport.open`. Cancelling this before the response starts leaves no recording."""
        try:
            address = urlsplit(self.base_url)
            # Never the credentials before the host.
            host = f"{address.hostname}:{address.port}" if address.port else address.hostname or ""
        except ValueError:
            host = ""
        tape = self.folder.begin(request, host=host)
        async with AsyncExitStack() as stack:
            try:
                reply = await stack.enter_async_context(self._inner.open(request, limits))
            except APIError as error:
                _take_refusal(tape, error)
                raise
            if not isinstance(reply, StreamedReply):
                name = type(self._inner).__name__
                self.folder.tell_once(f"responses of a {name} are not recorded: it gives no bytes")
                yield reply
                return
            tape.begin(200, reply.headers.items())
            reply.tap = tape.take
            try:
                yield reply
            finally:
                tape.end(_CUT[reply.ended])


def _take_refusal(tape: Tape, error: APIError) -> None:
    """Record an error response: the original if the client's exception has it, otherwise one made of its facts."""
    if error.status_code is None:
        return  # there was no response
    response: Any = getattr(error.__cause__, "response", None)
    try:
        headers, content, cut = list(response.headers.items()), bytes(response.content), ""
    except Exception:  # it was not read, or a client's exception has something else in that attribute
        told = {"type": error.error_type or "api_error", "message": error.reason}
        content = json.dumps({"type": "error", "error": told, "request_id": error.request_id}).encode()
        headers = [("content-type", "application/json")]
        cut = "its body is made of what its error says"
    tape.begin(error.status_code, headers)
    tape.take(content)
    tape.end(cut)
