"""Sources of bytes: an anthropic async client, plain httpx, a recording, or a body that is there already."""

from __future__ import annotations

from typing import Any

from ..recording import Recording
from .base import Reply, RequestBody, Transport
from .body import BodyTransport, is_body
from .http import HTTPTransport

__all__ = ["HTTPTransport", "Reply", "RequestBody", "Transport", "as_transport"]


def as_transport(client: Any) -> Transport:
    """The transport that `client` is, or is wrapped in.

    Args:
        client: A transport, a `Recording`, an async client of the anthropic package, or the body of one response, see
            `BodyTransport`.

    Raises:
        UsageError: It is none of them.
    """
    if isinstance(client, Recording):
        from .playback import PlaybackTransport

        return PlaybackTransport(client)
    if isinstance(client, Transport):
        return client
    is_client = hasattr(getattr(client, "messages", None), "with_streaming_response")
    if not is_client and is_body(client):
        return BodyTransport(client)
    from .anthropic import AnthropicTransport

    return AnthropicTransport(client)
