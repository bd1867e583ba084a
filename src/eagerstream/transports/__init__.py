"""Where the bytes come from: an anthropic async client, plain httpx, or a recording."""

from __future__ import annotations

from typing import Any

from ..recording import Recording
from .base import Reply, RequestBody, Transport
from .http import HTTPTransport

__all__ = ["HTTPTransport", "Reply", "RequestBody", "Transport", "as_transport"]


def as_transport(client: Any) -> Transport:
    """The transport that `client` is, or is wrapped in.

    Args:
        client: A transport, a `Recording`, or an async client of the anthropic package.

    Raises:
        UsageError: It is none of them.
    """
    if isinstance(client, Recording):
        from .playback import PlaybackTransport

        return PlaybackTransport(client)
    if isinstance(client, Transport):
        return client
    from .anthropic import AnthropicTransport

    return AnthropicTransport(client)
