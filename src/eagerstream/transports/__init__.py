"""Sources of bytes: an anthropic async client, plain httpx, a recording, or a body that was already received."""

from __future__ import annotations

from ..recordings._recording import Recording
from ._base import Reply, RequestBody, StreamedReply, Transport
from ._body import BodyTransport, is_body
from ._client import AsyncClient, Client
from ._http import HTTPTransport

__all__ = [
    "AsyncClient",
    "Client",
    "HTTPTransport",
    "Reply",
    "RequestBody",
    "StreamedReply",
    "Transport",
    "as_transport",
]


def as_transport(client: Client) -> Transport:
    """Return `client` if it is a transport, otherwise a transport that wraps it.

    Args:
        client: A transport, a `Recording`, an async client of the anthropic package, or the body of one response (see
            `BodyTransport`).

    Raises:
        UsageError: `client` is none of them.
    """
    if isinstance(client, Recording):
        from ._playback import PlaybackTransport

        return PlaybackTransport(client)
    if isinstance(client, Transport):
        return client
    is_client = hasattr(getattr(client, "messages", None), "with_streaming_response")
    if not is_client and is_body(client):
        return BodyTransport(client)
    from ._anthropic import AnthropicTransport

    return AnthropicTransport(client)
