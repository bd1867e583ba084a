"""The processes that have runs, by the first part of the runs' ids: on this machine by sockets, elsewhere by Redis."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from ..._support.hosted_tasks import HostedTasks
from ...errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from redis.asyncio import Redis

_KEY: Final = "eagerstream:gateway:"
_EXPIRES_S: Final = 30
"""Time after which other machines forget a worker that was killed."""
_REFRESH_S: Final = 10.0
_TIMEOUT_S: Final = 5.0


class Address(NamedTuple):
    """The address of a worker: the path of its socket, or the URL of the gateway on its machine.

    Attributes:
        socket: None for a worker on another machine.
        url: Empty for a worker on this machine.
    """

    socket: str | None
    url: str = ""


class RegistryLost(Exception):
    """Redis does not answer, so it is unknown whether a run exists."""


@dataclass(frozen=True)
class Registry:
    """Redis, which knows the workers of all machines.

    Attributes:
        url: May contain a password.
        advertised: URL at which other machines reach the gateway of this machine.
    """

    url: str = field(repr=False)
    advertised: str

    def client(self) -> Redis:
        """Return a client.

        Raises:
            MissingExtraError: The extra `redis` is not installed.
            UsageError: The URL is not one of Redis.
        """
        try:
            from redis.asyncio import Redis
        except ModuleNotFoundError as error:
            raise MissingExtraError("redis", "redis") from error
        try:
            limits: Any = {"socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S}
            return Redis.from_url(self.url, decode_responses=True, **limits)
        except ValueError as error:
            raise UsageError("the URL of Redis begins with redis://, rediss:// or unix://") from error


class Owners:
    """Finds the process of a run.

    Args:
        folder: Folder with a socket for each worker of this machine, named after it. Only this user may open it. None
            if there is only one.
        registry: Knows the workers of other machines; None if there are none.
    """

    def __init__(self, folder: Path | None, registry: Registry | None) -> None:
        self.name = secrets.token_hex(4)
        self.socket = _socket_of(folder, self.name) if folder is not None else None
        self._folder = folder
        self._registry = registry
        self._redis = registry.client() if registry is not None else None

    async def find(self, name: str, *, anywhere: bool) -> Address | None:
        """Return the address of another worker, or None if it does not exist any more.

        Args:
            name: The first part of a run's id, 8 hexadecimal digits.
            anywhere: Look on other machines, too.

        Raises:
            RegistryLost: Redis does not answer.
        """
        if name == self.name:
            return None
        if self._folder is not None and (socket := _socket_of(self._folder, name)).exists():
            return Address(str(socket))
        if self._redis is None or not anywhere:
            return None
        from redis.exceptions import RedisError

        try:
            url = await self._redis.get(_KEY + name)
        except (RedisError, OSError) as error:
            raise RegistryLost from error
        return Address(None, str(url)) if url else None

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Register this worker for other machines within the block. If Redis is lost, try again until it is back."""
        if self._redis is None:
            yield
            return
        async with self._redis, HostedTasks("registration of a gateway's worker") as tasks:
            await self._try_to_register()
            tasks.group.start_soon(self._stay_registered)
            try:
                yield
            finally:
                await self._unregister()

    async def _stay_registered(self) -> None:
        while True:
            await anyio.sleep(_REFRESH_S)
            await self._try_to_register()

    async def _try_to_register(self) -> None:
        from redis.exceptions import RedisError

        assert self._redis is not None
        assert self._registry is not None
        try:
            await self._redis.set(_KEY + self.name, self._registry.advertised, ex=_EXPIRES_S)
        except (RedisError, OSError):
            pass  # it may come back; until then, other machines answer 503 about the runs here

    async def _unregister(self) -> None:
        from redis.exceptions import RedisError

        assert self._redis is not None
        with anyio.CancelScope(shield=True):
            try:
                await self._redis.delete(_KEY + self.name)
            except (RedisError, OSError):
                pass  # the entry expires


def _socket_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.sock"
