"""uvicorn's protocol, for a worker that must be able to cut a client, and to end without refusing one."""

from __future__ import annotations

from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ..._serving.asgi_server import TRANSPORT_STATE

_MOMENT_S: Final = 1.0
"""Time that a new connection has to send its request if the worker ends."""

_Protocol: Any = AutoHTTPProtocol  # on httptools if that is installed, otherwise on h11


class Protocol(_Protocol):  # type: ignore[misc]
    """The protocol of a worker. The supervisor hands its name to the processes, so it is at the top of a module."""

    app_state: dict[str, Any]

    def connection_made(self, transport: Any) -> None:
        """Take a new connection, and show it to the application, which may cut a client that stalls."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT_STATE: transport}

    def shutdown(self) -> None:
        """Close the connection after its response, as the worker ends.

        uvicorn closes a connection that was accepted just before, and whose client would see that as a refusal.
        """
        if self.cycle is None:
            self.loop.call_later(_MOMENT_S, self._shutdown_now)
        else:
            super().shutdown()

    def _shutdown_now(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()


PROTOCOL = f"{__name__}:{Protocol.__name__}"
"""The protocol, by the name that uvicorn imports it by."""
