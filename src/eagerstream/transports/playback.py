"""A recording as a transport: its chunks arrive when they did, without a server and without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from ..limits import Limits
from ..recording import Recording
from .base import Reply, RequestBody, SSEReply, status_error


class PlaybackTransport:
    """Answers every request with one recording, chunk by chunk, at the arrival times it holds."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:  # noqa: ARG002
        """See `Transport.open`; the request is not looked at."""
        recording = self._recording
        if recording.status != 200:
            raise status_error(recording.status, None, recording.headers, f"recorded HTTP {recording.status}")
        chunks = self._chunks()
        try:
            yield SSEReply(chunks, request_id=recording.headers.get("request-id"), limits=limits)
        finally:
            await chunks.aclose()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        start = anyio.current_time()
        for at_s, data in self._recording.chunks:
            # Also where nothing is to be waited for: others must get their turn.
            await anyio.sleep_until(start + at_s)
            yield data
