"""`Connection`: the client of Redis, which goes on when Redis does not answer for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

T = TypeVar("T")

_logger = logging.getLogger("eagerstream")

BLOCK_S: Final = 1.0
"""Longest time that a read waits for something new, in seconds."""
_TIMEOUT_S: Final = 5.0
_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 2.0
_MAX_CONNECTIONS: Final = 8


async def cancel(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, and return at their end."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)


def _raise_swallowed() -> None:
    """Raise the cancellation of this task that `wait_for` has swallowed in the client, as it may before Python 3.12."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Connection:
    """A client of Redis in one event loop.

    Attributes:
        client: A `redis.asyncio.Redis`, which returns bytes. It tries nothing twice.
        failures: The errors that a command raises if Redis cannot be reached, does not answer in time, or refuses it.
    """

    def __init__(self, url: str) -> None:
        import redis.asyncio
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError, ResponseError

        self.client: Any = redis.asyncio.Redis.from_url(
            url,
            protocol=2,
            decode_responses=False,
            socket_connect_timeout=_TIMEOUT_S,
            socket_timeout=_TIMEOUT_S + BLOCK_S,
            retry=Retry(NoBackoff(), 0),
        )
        self.failures: tuple[type[Exception], ...] = (RedisError, OSError)
        self._refusals = ResponseError
        self._refused: set[str] = set()  # the names of the errors that were logged
        self._is_down = False
        self._slots = asyncio.Semaphore(_MAX_CONNECTIONS)

    async def do(self, command: Callable[[], Awaitable[T]], *, apart: bool = False) -> T:
        """Run a command, once.

        Args:
            command: The command.
            apart: It waits for nobody, on a connection of its own. The others share some.

        Raises:
            ConnectionError: Redis cannot be reached, does not answer in time, or refuses it.
        """
        try:
            async with nullcontext() if apart else self._slots:
                result = await command()
            _raise_swallowed()
        except self._refusals as error:
            kind = type(error).__name__
            if kind not in self._refused:
                self._refused.add(kind)
                _logger.warning("Redis refuses a command (%s): runs go on, and their records wait", kind)
            raise ConnectionError("Redis refuses a command") from error
        except self.failures as error:
            if not self._is_down:
                self._is_down = True
                # Without the text of the error: it may name the server.
                _logger.warning("Redis does not answer (%s): runs go on, and their records wait", type(error).__name__)
            raise ConnectionError("Redis does not answer") from error
        if self._is_down:
            self._is_down = False
            _logger.warning("Redis answers again")
        return result

    async def do_at_last(self, command: Callable[[], Awaitable[T]]) -> T:
        """Run a command again until Redis accepts it. It may then have been done more than once."""
        delay_s = _FIRST_DELAY_S
        while True:
            try:
                return await self.do(command)
            except ConnectionError:
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _MAX_DELAY_S)

    async def close(self) -> None:
        """Close the client."""
        try:
            await self.client.aclose()
        except self.failures:
            pass
