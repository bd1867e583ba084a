"""`ClientMemory`: knowledge about the API behind a client, shared by all requests of that client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from ._base import Transport

T = TypeVar("T")


class ClientMemory(Generic[T]):
    """One value for each client, kept while the client lives. Copies of an anthropic client share it.

    Args:
        make: Makes the value of a client that is seen for the first time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[object, T] = WeakKeyDictionary()

    def of(self, client: object) -> T:
        """Return the value of a client: a new one each time if it has no hash or no weak references."""
        # Copies of an anthropic client (`client.with_options(...)`) share only its HTTP client.
        shared = None if isinstance(client, Transport) else getattr(client, "_client", None)
        try:
            return self._values.setdefault(client if shared is None else shared, self._make())
        except TypeError:
            return self._make()
