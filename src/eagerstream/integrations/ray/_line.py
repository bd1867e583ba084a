"""A call's line to an actor and back.

The actor is asked for what the call has said, again and again, and each answer waits there until there is something (a
long poll). Ray's streaming generators would do the same, and cost more: each value is an object of its own, which made
2.4 ms of this process's CPU for a call that says two things, against 1.7 ms; and here what is not fetched stays where
it is, so that a reader who is slow slows down the progress of one call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ...errors import WorkerLost
from ...workers._crossing import dumps, loads
from ...workers._messages import Begin, Cancelled, Ended, FromWorker, Refused, ToWorker

if TYPE_CHECKING:
    from ._worker import Worker

_LARGE = 64 * 1024
"""From so many bytes on a thread hands a message to Ray, which copies it."""


class RayLine:
    """See `Line`.

    Attributes:
        is_stuck: The tool is still at work where nobody waits for it any more: only the worker's end ends it.
    """

    def __init__(self, worker: Worker, reference: bytes) -> None:
        self._worker = worker
        self._reference = reference
        self._key = uuid4().hex
        self._sent = 0
        self._fetched: Any = None
        self._heard: deque[FromWorker] = deque()
        self._knows_state = True
        self.is_stuck = False

    async def send(self, message: ToWorker) -> None:
        """See `Line.send`."""
        if self._worker.lost is not None:
            raise WorkerLost(self._worker.lost, may_have_begun=not self._knows_state)
        pickled = dumps(message)
        number, self._sent = self._sent, self._sent + 1
        if isinstance(message, Begin):
            self._knows_state, self.is_stuck = False, True
            begun = asyncio.ensure_future(self._submit("begin", self._key, self._reference, pickled, large=pickled))
            begun.add_done_callback(self._begun)
            await asyncio.shield(begun)  # sent whole, if not waited for
        else:
            await self._done(await self._submit("tell", self._key, number, pickled, large=pickled))

    async def receive(self) -> FromWorker:
        """See `Line.receive`; cancelling it loses nothing."""
        while not self._heard:
            if self._fetched is None:
                self._fetched = self._worker.actor.hear.remote(self._key)
            said: list[FromWorker] = loads(await self._done(self._fetched))
            self._fetched = None
            self._knows_state = True
            self._heard.extend(said)
        message = self._heard.popleft()
        match message:
            case Refused() | Ended():
                self.is_stuck = False
            case Cancelled(at_work):
                self.is_stuck = at_work
            case _:
                pass
        return message

    async def _submit(self, name: str, *arguments: object, large: bytes) -> Any:
        method = getattr(self._worker.actor, name)
        if len(large) < _LARGE:
            return method.remote(*arguments)
        return await asyncio.to_thread(method.remote, *arguments)

    def _begun(self, begun: asyncio.Future[Any]) -> None:
        if begun.cancelled() or begun.exception() is not None:
            self.is_stuck = False
        else:
            self._fetched = begun.result()

    async def _done(self, reference: Any) -> Any:
        from ray.exceptions import ActorUnavailableError, RayActorError, RayError

        try:
            return await reference
        except RayError as error:
            reason = self._worker.lost or reason_of(error)
            if isinstance(error, RayActorError) and not isinstance(error, ActorUnavailableError):
                self._worker.lose(reason)  # often the first to know: Ray tells the calls of a dead actor in any order
            raise WorkerLost(reason, may_have_begun=not self._knows_state) from error


def reason_of(error: Exception) -> str:
    """Why an actor cannot be reached, in the words of Ray that say so, and without its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("The actor is dead", "The actor died because"))]
    said = (telling or lines[:1] or [""])[0]
    return f"{type(error).__name__}: {said:.300}"
