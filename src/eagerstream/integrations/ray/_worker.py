"""`Worker`: one actor from its start to its end, as the pool sees it, and the lines of its calls.

The actor is asked for what a call has said, again and again, and each answer waits there until there is something (a
long poll). Ray's streaming generators would do the same, and cost more: each value is an object of its own, which made
2.4 ms of this process's CPU for a call that says two things, against 1.7 ms; and here what is not fetched stays where
it is, so that a reader who is slow slows down the progress of one call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from ...errors import WorkerLost
from ...workers._crossing import dumps, loads
from ...workers._messages import Begin, Cancelled, Ended, FromWorker, Refused, ToWorker
from ._actor import ToolWorker


class Worker:
    """An actor, and the lines of the calls that it has.

    Attributes:
        actor: Ray's handle of it.
        pid: Of its process, on its machine; None before it is ready.
        lost: Why there is nothing more to be had of it; None while it lives.
        was_ended: It was killed from here.
        may_start_again: It was lost as a process or a node is, and not for what it was asked to do.
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
        """It takes no more calls: it is lost, or a tool is still at work there that nobody waits for."""
        self._unused = asyncio.Event()

    @property
    def was_ready(self) -> bool:
        """It has started."""
        return self.pid is not None

    @property
    def has_died(self) -> bool:
        """It is gone, and was not left alone."""
        return self.lost is not None

    async def run(self, on_ready: Callable[[Worker], object]) -> None:
        """Have Ray start the actor, and stay until it is gone, or is not to be used any more; cancelling this ends it.

        It is gone unless `lost` is None: then other calls still run there, and `drain` waits for them.
        """
        try:
            # In a thread: the first of its kind waits for the cluster, which takes in the class.
            self.actor = await asyncio.shield(asyncio.to_thread(_start, self._options))
            async with asyncio.timeout(self._start_timeout_s):
                self.pid = await self.actor.ready.remote(self._preload)
            on_ready(self)
            await self._end()
        except TimeoutError:
            asked = await asyncio.to_thread(_asked_and_there, self._options)
            self.lost = f"Ray had no place for it within {self._start_timeout_s:g} seconds: {asked}"
        except Exception as error:  # of Ray, or of what the worker imports
            self.lost, self.may_start_again = reason_of(error), _is_death(error)
        except BaseException:
            self.kill()
            raise
        if self.lost is not None:
            self.kill()

    def open(self, reference: bytes) -> RayLine:
        """A line for a call."""
        line = RayLine(self, reference)
        self._lines.add(line)
        return line

    def close(self, line: RayLine) -> bool:
        """The call is over; False where the worker is not to get another one: it is to be killed, see `drain`."""
        self._lines.discard(line)
        if line.is_stuck:
            self._is_over.set()
        if not self._lines:
            self._unused.set()
        return not self._is_over.is_set()

    def lose(self, reason: str) -> None:
        """Note that the actor is dead. Whoever learns of it first calls this: the watch in `run`, or a call's line."""
        self.lost = self.lost or reason
        self._is_over.set()

    async def drain(self) -> None:
        """Wait until the calls that it has are over, each bounded by its time limit, and end the actor."""
        try:
            if self._lines:
                self._unused.clear()
                await self._unused.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the actor at once."""
        if self.actor is not None and not self.was_ended:
            import ray

            self.was_ended = self.lost is None
            self.lost = self.lost or "it was ended"
            try:
                if cast("Any", ray).is_initialized():  # without a connection, `ray.kill` would start a cluster here
                    ray.kill(self.actor)
            except Exception:  # it is gone already
                pass

    async def _end(self) -> None:
        """Wait until it is lost, or is to be left alone."""
        watch = asyncio.ensure_future(self._watch())
        try:
            await self._is_over.wait()
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        try:
            await self.actor.forever.remote()
        except Exception as error:
            self.lose(reason_of(error))
        else:
            self.lose("it ended")


def _is_death(error: Exception) -> bool:
    from ray.exceptions import RayActorError

    return isinstance(error, RayActorError)


def _start(options: dict[str, Any]) -> Any:
    import ray

    return ray.remote(ToolWorker).options(**options).remote()


def _asked_and_there(options: Mapping[str, Any]) -> str:
    import ray

    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    asked = {names[name]: options[name] for name in names if options.get(name)} | dict(options.get("resources") or {})
    there: dict[str, float] = cast("Any", ray).cluster_resources()
    of = ", ".join(f"{name} {amount:g} of {there.get(name, 0):g}" for name, amount in asked.items())
    return f"each worker needs of all that the cluster has: {of or 'nothing'}"


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
