"""uvicorn's protocol, with the connection in the state of each request: a client that stalls can be cut."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ..._serving.asgi_server import TRANSPORT_STATE

_Protocol: Any = AutoHTTPProtocol  # on httptools if that is installed, otherwise on h11


class Protocol(_Protocol):  # type: ignore[misc]
    """The protocol of a worker. The supervisor hands its name to the processes, so it is at the top of a module."""

    app_state: dict[str, Any]

    def connection_made(self, transport: Any) -> None:
        """Take a new connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT_STATE: transport}


PROTOCOL = f"{__name__}:{Protocol.__name__}"
"""The protocol, by the name that uvicorn imports it by."""
