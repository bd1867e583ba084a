"""A recording as a transport: its chunks arrive at their recorded times, without a server or a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from eagerstream_wire import FragmentDecoder

from ..limits import Limits
from ..recordings._recording import Recording
from ._base import DECODERS, Reply, RequestBody, StreamedReply, Transport
from ._error_responses import body_error, request_id_of


class PlaybackTransport(Transport):
    """Answers every request with one recording, chunk by chunk, at the recorded arrival times."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:  # noqa: ARG002
        """See `Transport.open`. The request is ignored."""
        recording = self._recording
        headers = {name.lower(): value for name, value in recording.headers.items()}
        if recording.status != 200:
            raise body_error(recording.status, recording.body, headers, f"the recording is of HTTP {recording.status}")
        chunks = self._chunks()
        try:
            decoder = DECODERS.get(recording.media_type, FragmentDecoder)  # one made by hand may lack a content type
            request_id = request_id_of(headers)
            yield StreamedReply(chunks, request_id=request_id, limits=limits, decoder=decoder, headers=headers)
        finally:
            await chunks.aclose()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        start = anyio.current_time()
        for at_s, data in self._recording.chunks:
            # Even without a wait: other tasks must get their turn.
            await anyio.sleep_until(start + at_s)
            yield data
