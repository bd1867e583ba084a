"""`Worker`: one actor from its start to its end, as the pool sees it, and the lines of its calls.

A line asks the actor for a call's messages again and again. Each request waits in the actor until there is a message (a
long poll). Ray's streaming generators were the alternative. They make each value an object, and cost 2.4 ms of this
process's CPU for a call with two messages, compared with 1.7 ms. With a long poll, messages also stay in the actor
until they are fetched. So a slow reader delays only the progress of its own call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from eagerstream.errors import WorkerLost

from ..workers._crossing import dumps, loads
from ..workers._messages import Begin, Cancelled, Ended, FromWorker, Refused, ToWorker
from ._actor import ToolWorker


class Worker:
    """An actor, and the lines of its calls.

    Attributes:
        actor: Ray's handle of the actor.
        pid: Process id on the actor's machine, or `None` before the actor is ready.
        lost: Reason why the actor is gone, or `None` while it lives.
        was_ended: Whether this process killed the actor while it lived.
        may_start_again: Whether a process or a node died, so that a new start may succeed.
    """

    def __init__(self, options: Mapping[str, Any], preload: Sequence[bytes], *, start_timeout_s: float) -> None:
        self._options = dict(options)
        self._preload = preload
        self._start_timeout_s = start_timeout_s
        self.actor: Any = None
        self.pid: int | None = None
        self.lost: str | None = None
        self.was_ended = False
        self.may_start_again = False
        self._lines: set[RayLine] = set()
        self._is_over = asyncio.Event()
        """Event for the end of new calls: the actor is lost, or an abandoned tool is still running there."""
        self._unused = asyncio.Event()

    @property
    def was_ready(self) -> bool:
        """`True` after the actor has started."""
        return self.pid is not None

    @property
    def has_died(self) -> bool:
        """`True` after the actor is lost or killed."""
        return self.lost is not None

    async def run(self, on_ready: Callable[[Worker], object]) -> None:
        """Start the actor, and wait until it is lost or takes no more calls. Cancelling this kills the actor.

        Afterwards, if `lost` is `None`, other calls still run in the actor, and `drain` waits for them.
        """
        try:
            # In a thread: the first actor of a class waits until the cluster has received the class.
            self.actor = await asyncio.shield(asyncio.to_thread(_start, self._options))
            async with asyncio.timeout(self._start_timeout_s):
                self.pid = await self.actor.ready.remote(self._preload)
            on_ready(self)
            watch = asyncio.ensure_future(self._watch())
            try:
                await self._is_over.wait()
            finally:
                watch.cancel()
        except TimeoutError:
            asked = await asyncio.to_thread(_asked_and_there, self._options)
            self.lost = f"Ray had no place for it within {self._start_timeout_s:g} seconds: {asked}"
        except Exception as error:  # raised by Ray or by the worker's imports
            from ray.exceptions import RayActorError

            self.lost, self.may_start_again = reason_of(error), isinstance(error, RayActorError)
        except BaseException:
            self.kill()
            raise
        if self.lost is not None:
            self.kill()

    def open(self, reference: bytes) -> RayLine:
        """Return a line for a call."""
        line = RayLine(self, reference)
        self._lines.add(line)
        return line

    def close(self, line: RayLine) -> bool:
        """End the line of a call. Return `False` if the worker must get no more calls: see `drain`."""
        self._lines.discard(line)
        if line.is_stuck:
            self._is_over.set()
        if not self._lines:
            self._unused.set()
        return not self._is_over.is_set()

    def lose(self, reason: str) -> None:
        """Record that the actor is dead. The watch in `run` or the line of a call calls this."""
        self.lost = self.lost or reason
        self._is_over.set()

    async def drain(self) -> None:
        """Wait until the actor's calls have ended, each bounded by its time limit, and kill the actor."""
        try:
            if self._lines:
                self._unused.clear()
                await self._unused.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the actor at once."""
        if self.actor is not None and not self.was_ended:
            import ray

            self.was_ended = self.lost is None
            self.lost = self.lost or "it was ended"
            try:
                if cast("Any", ray).is_initialized():  # without a connection, `ray.kill` would start a cluster here
                    ray.kill(self.actor)
            except Exception:  # already gone
                pass

    async def _watch(self) -> None:
        try:
            await self.actor.forever.remote()
        except Exception as error:
            self.lose(reason_of(error))
        else:
            self.lose("it ended")


def _start(options: dict[str, Any]) -> Any:
    import ray

    return ray.remote(ToolWorker).options(**options).remote()


def _asked_and_there(options: Mapping[str, Any]) -> str:
    import ray

    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    asked = {names[name]: options[name] for name in names if options.get(name)} | dict(options.get("resources") or {})
    there: dict[str, float] = cast("Any", ray).cluster_resources()
    of = ", ".join(f"{name} {amount:g} of {there.get(name, 0):g}" for name, amount in asked.items())
    return f"each worker needs, of the cluster's total: {of or 'nothing'}"


_LARGE = 64 * 1024
"""Size in bytes from which a thread hands a message to Ray, which copies it."""


class RayLine:
    """Line of one call; see `Line`.

    Attributes:
        is_stuck: Whether an abandoned tool is still running. Only killing the worker ends it.
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
        """See `Line.send`.

        Raises:
            WorkerLost: The worker is gone.
        """
        if self._worker.lost is not None:
            raise WorkerLost(self._worker.lost, may_have_begun=not self._knows_state)
        pickled = dumps(message)
        number, self._sent = self._sent, self._sent + 1
        if isinstance(message, Begin):
            self._knows_state, self.is_stuck = False, True
            begun = asyncio.ensure_future(self._submit("begin", self._key, self._reference, pickled))
            begun.add_done_callback(self._begun)
            await asyncio.shield(begun)  # if this is cancelled, the message is still sent completely
        else:
            await self._done(await self._submit("tell", self._key, number, pickled))

    async def receive(self) -> FromWorker:
        """See `Line.receive`. Cancelling it loses nothing.

        Raises:
            WorkerLost: The worker is gone.
        """
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

    async def _submit(self, name: str, key: str, about: object, message: bytes) -> Any:
        method = getattr(self._worker.actor, name)
        if len(message) < _LARGE:
            return method.remote(key, about, message)
        return await asyncio.to_thread(method.remote, key, about, message)

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
                self._worker.lose(reason)  # often the first report: Ray fails the calls of a dead actor in any order
            raise WorkerLost(reason, may_have_begun=not self._knows_state) from error


def reason_of(error: Exception) -> str:
    """Return the reason why an actor cannot be reached: the line of Ray's error that has it, without the traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("The actor is dead", "The actor died because"))]
    said = (telling or lines[:1] or [""])[0]
    return f"{type(error).__name__}: {said:.300}"
