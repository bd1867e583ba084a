"""`ResendingTransport`: sends a request that was refused once more, in another form."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ..limits import Limits
from ..transports import Reply, RequestBody, Transport


class ResendingTransport(Transport):
    """Sends requests over another transport.

    Args:
        transport: Sends the requests.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def opening_timeout_s(self, limits: Limits) -> float:
        """See `Transport.opening_timeout_s`. A refusal comes at once, so both requests have this time together."""
        return self._transport.opening_timeout_s(limits)

    @property
    def default_betas(self) -> Sequence[str]:
        """See `Transport.default_betas`."""
        return self._transport.default_betas

    @asynccontextmanager
    async def open(self, request: RequestBody, limits: Limits) -> AsyncIterator[Reply]:
        """See `Transport.open`."""
        async with AsyncExitStack() as stack:
            yield await self._enter(request, limits, stack)

    @abstractmethod
    async def _enter(self, request: RequestBody, limits: Limits, stack: AsyncExitStack) -> Reply:
        """Send a request until it is accepted, and return its reply, which `stack` closes."""
