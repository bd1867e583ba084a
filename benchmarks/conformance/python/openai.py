"""openai: its internal reader of event streams. Its structured output is read by jiter, which has its own row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openai._streaming import SSEDecoder

from .reading import server_sent_events


def sse(chunks: Sequence[bytes]) -> dict[str, Any]:
    return server_sent_events(chunks, lambda source: SSEDecoder().iter_bytes(iter(source)))
