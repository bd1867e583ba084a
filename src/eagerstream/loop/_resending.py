"""`ResendingTransport`: sends a request that was refused once more, in another form; and the base of such layers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from ..limits import Limits
from ..transports import Reply, RequestBody, Transport
from ..transports._opening import Opening


class TransportLayer(Transport):
    """A transport that sends its requests over another one.

    Args:
        transport: Sends the requests.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`."""
        return self._transport.opening_timeout_s(limits)

    @property
    def default_betas(self) -> Sequence[str]:
        """See `Transport.default_betas`."""
        return self._transport.default_betas


class ResendingTransport(TransportLayer):
    """Sends requests over another transport. A refusal comes at once, so both requests share the time of the opening.

    Args:
        transport: Sends the requests.
    """

    def open(self, request: RequestBody, limits: Limits) -> AbstractAsyncContextManager[Reply]:
        """See `Transport.open`."""
        return Opening(partial(self._enter, request, limits))

    @abstractmethod
    async def _enter(self, request: RequestBody, limits: Limits, opening: Opening) -> Reply:
        """Send a request until it is accepted, and return its reply, which `opening` closes."""
