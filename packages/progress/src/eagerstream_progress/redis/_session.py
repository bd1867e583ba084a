"""`Session`: the work of a relay in its thread, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from eagerstream.errors import UsageError

from .._actions import Action
from .._log import RunLog
from .._run_summary import RunSummary
from ._connection import BLOCK_S, Connection, cancel
from ._inbox import Inbox
from ._mirror import START, Mirror
from ._publisher import Publisher
from ._stored import MAX_ID_CHARS, MAX_INBOX, Head, Keys, Seal

if TYPE_CHECKING:
    from .._hub import Hub

T = TypeVar("T")

_logger = logging.getLogger("eagerstream")

LEASE_S: Final = 6.0
"""Seconds after its last sign of life after which a process counts as dead."""
_BEAT_S: Final = 2.0
_REFRESH_BEATS: Final = 15
"""Beats between two looks at everything: a report of a change may have been lost."""
_IDLE_S: Final = 30.0
"""Seconds for which a run is still read after its last watcher has left."""
_MISSED_S: Final = 60.0
"""Seconds for which a run that is watched is missed, if Redis no longer has it, before its log is closed."""
_COMING_S: Final = 3.0
"""Seconds for which a run is awaited that is not in Redis: a page may ask before the first record is there."""
_FAR_MS: Final = 3_600_000
_ANSWER_S: Final = 10.0
_COUNT: Final = 16
"""Number of entries of each stream to read at once."""


class Session:
    """A process among those that share a prefix.

    Attributes:
        process: Its name, which is new in each session.
        loop: The event loop of its thread, once it runs.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        hub: Hub,
        url: str,
        *,
        keys: Keys,
        seal: Seal,
        keep_s: float,
        max_bytes: int,
        max_runs: int,
        tell: Callable[[], object],
    ) -> None:
        self.process: str = uuid4().hex
        self._hub = hub
        self._url = url
        self._keys = keys
        self._seal = seal
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._max_runs = max_runs
        self._tell = tell
        self._running: Future[None] = Future()
        self._close_timeout_s = 0.0
        self._publishers: dict[str, tuple[Publisher, asyncio.Task[None]]] = {}
        self._mirrors: dict[str, Mirror] = {}
        self._remotes: dict[str, Head] = {}
        self._alive: frozenset[str] = frozenset()  # the owners that live
        self._looked_s = float("-inf")  # the time of the last look at them
        self._lost: frozenset[str] = frozenset()  # the runs that were lost at the last look
        self._numbers = count(1)  # of what it writes
        self._redis_ms = 0.0  # the time of Redis, as it was at the last beat
        self._inherited = frozenset(hub.logs)  # by a fork: another process has them
        self._waiting: set[Future[Any]] = set()  # what other threads wait for
        self._has_ended = False
        self._lock = threading.Lock()
        self._refreshing = asyncio.Lock()
        self._has_refreshed = asyncio.Condition()

    # --- from any thread ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until it is closed."""
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if self._running.done():
                raise
            self._running.set_exception(error)
        finally:
            with self._lock:
                self._has_ended = True
                waiting = list(self._waiting)
            for future in waiting:
                future.cancel()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run something in the thread. If the session ends, it is cancelled."""
        with self._lock:
            if self._has_ended:
                coroutine.close()
                raise UsageError("the relay is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
            self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def wait_until_running(self) -> None:
        """Return when `loop` takes calls."""
        self._running.result()

    def close_soon(self, timeout_s: float) -> None:
        """Have it write the last records, for so many seconds at most, and end."""
        self._close_timeout_s = timeout_s
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._closing.set)

    def summaries(self) -> list[RunSummary]:
        """Return the facts about the newest runs in Redis, also those of this process."""
        return [
            {**remote.summary, "acts": False, "asks": False, "lost": True} if run_id in self._lost else remote.summary
            for run_id, remote in list(self._remotes.items())
        ]

    def is_live(self, run_id: str) -> bool:
        """Return True if another process has the run, and it has not ended."""
        remote = self._remotes.get(run_id)
        return remote is not None and remote.owner != self.process and not remote.summary["ended"]

    def is_elsewhere(self, run_id: str) -> bool:
        """Return True if another process has the run, or had it last."""
        remote = self._remotes.get(run_id)
        return remote is not None and remote.owner != self.process

    # --- in its thread ------------------------------------------------------------------------------------------------

    async def find(self, run_id: str) -> RunLog | None:
        """Return the log of a run, with all that its stream has; None if there is none.

        Raises:
            ConnectionError: Redis does not answer.
        """
        try:
            async with asyncio.timeout(_ANSWER_S):
                if await self._look_up(run_id, _COMING_S) is None:
                    return None
                mirror = self._mirrors.get(run_id)
                if mirror is None:
                    mirror = self._mirrors[run_id] = Mirror(run_id, self._seal)
                    await self._inbox.wake()
                await mirror.is_loaded.wait()
        except TimeoutError as error:
            raise ConnectionError("Redis does not answer") from error
        mirror.used_s = self.loop.time()
        return mirror.log

    async def act(self, run_id: str, action: Action) -> bool:
        """Have the owner of a run act on it. Return False if there is none.

        Raises:
            Exception: As for `Hub.act`.
        """
        try:
            async with asyncio.timeout(_ANSWER_S):
                remote = await self._look_up(run_id)
                if remote is None or remote.summary["ended"]:
                    return False
                if run_id in self._lost:
                    raise ConnectionError("the process of this run does not answer")
                await self._inbox.ask(remote.owner, run_id, action)
        except TimeoutError as error:
            raise TimeoutError("the process of this run does not answer") from error
        return True

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._connection = Connection(self._url)
        self._client = self._connection.client
        shared: Any = {"connection": self._connection, "keys": self._keys, "seal": self._seal, "keep_s": self._keep_s}
        self._inbox = Inbox(self.process, lambda run_id, action: action.do(self._hub, run_id), **shared)
        self._running.set_result(None)
        tasks = [asyncio.create_task(self._again(work)) for work in (self._beat, self._read, self._follow_hub)]
        await self._closing.wait()
        with suppress(TimeoutError, ConnectionError):
            if self._close_timeout_s > 0:
                async with asyncio.timeout(self._close_timeout_s):
                    await self._write_rest()
        tasks += [task for _, task in self._publishers.values()]
        await cancel(*tasks)
        self._inbox.close()
        await self._connection.close()

    async def _again(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that never ends. If Redis does not answer, or after an error of ours, begin again."""
        while True:
            try:
                await work()
            except ConnectionError:
                await asyncio.sleep(_BEAT_S / 10)
            except Exception as error:
                _report("a part of the relay failed, and begins again", error)
                await asyncio.sleep(_BEAT_S)

    async def _write_rest(self) -> None:
        for publisher, task in list(self._publishers.values()):
            if publisher.log.is_closed:
                await asyncio.wait([task])
            elif not task.done():
                await publisher.catch_up()
        await self._connection.do(partial(self._client.delete, self._keys.owner(self.process), self._inbox.key))
        await self._connection.do(partial(self._client.xadd, self._keys.changes, {"run": ""}, maxlen=MAX_INBOX))
        await self._connection.do(partial(self._client.expire, self._keys.changes, 86_400))

    # --- its own runs -------------------------------------------------------------------------------------------------

    async def _follow_hub(self) -> None:
        async with aclosing(self._hub.changes()) as changes:
            async for logs in changes:
                for log in logs:
                    self._publish(log)
                self._drop_publishers({log.id for log in logs})

    def _publish(self, log: RunLog) -> None:
        publisher, task = self._publishers.get(log.id, (None, None))
        if publisher is not None and task is not None:
            if publisher.log is log and (log.is_closed or not publisher.has_ended):
                publisher.touch()
                return
            task.cancel()  # another log is in its place
        if len(log.id) > MAX_ID_CHARS or not log.id.isprintable() or log in self._inherited:
            return
        publisher = Publisher(
            log,
            partial(self._hub.summary, log),
            connection=self._connection,
            keys=self._keys,
            seal=self._seal,
            process=self.process,
            numbers=self._numbers,
            keep_s=self._keep_s,
            max_bytes=self._max_bytes,
        )
        self._publishers[log.id] = publisher, asyncio.create_task(self._finish(publisher))

    async def _finish(self, publisher: Publisher) -> None:
        """Write a run to its end. After an error of ours, it is not written any more."""
        try:
            await publisher.run()
        except Exception as error:
            _report("a run is not relayed any more", error)
        if publisher.has_ended and not publisher.log.is_closed:
            self._publish(publisher.log)  # it goes on

    def _drop_publishers(self, kept: Iterable[str]) -> None:
        """Forget runs that the hub has dropped and that are written, and the oldest ones if too many are not."""
        dropped = [run_id for run_id in self._publishers if run_id not in kept]
        for run_id in dropped:
            if self._publishers[run_id][1].done() or len(self._publishers) > 2 * self._max_runs:
                self._publishers.pop(run_id)[1].cancel()

    # --- signs of life ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        for beat in count():
            with suppress(ConnectionError):
                owner = self._keys.owner(self.process)
                await self._connection.do(partial(self._client.set, owner, b"", px=int(LEASE_S * 1000)), apart=True)
                await self._ask_time()
                await self._look_at_owners()
                if beat % _REFRESH_BEATS == 0:
                    await self._connection.do(partial(self._client.pexpire, self._inbox.key, int(self._keep_s * 1000)))
                    await self._refresh()
                    await self._keep_runs()
            self._count_lost()
            for run_id, mirror in list(self._mirrors.items()):
                if mirror.log.is_watched or not mirror.is_loaded.is_set():
                    mirror.used_s = self.loop.time()
                elif self.loop.time() - mirror.used_s > _IDLE_S:
                    del self._mirrors[run_id]
                if mirror.has_gap:
                    mirror.restart()
            await asyncio.sleep(_BEAT_S)

    async def _keep_runs(self) -> None:
        for publisher, _ in list(self._publishers.values()):
            await publisher.keep()

    async def _look_at_owners(self) -> None:
        owners = sorted({remote.owner for remote in self._remotes.values() if not remote.summary["ended"]})
        if owners:
            keys = [self._keys.owner(owner) for owner in owners]
            values = await self._connection.do(partial(self._client.mget, keys), apart=True)
            self._alive = frozenset(owner for owner, value in zip(owners, values, strict=True) if value is not None)
        self._looked_s = self.loop.time()
        self._count_lost()

    def _count_lost(self) -> None:
        """Note which runs are lost: their owners are dead, or Redis has not answered for so long."""
        is_cut = self.loop.time() - self._looked_s > LEASE_S
        missing = {run_id for run_id, mirror in self._mirrors.items() if mirror.missing_s is not None}
        lost = frozenset(
            run_id
            for run_id, remote in self._remotes.items()
            if not remote.summary["ended"] and (is_cut or remote.owner not in self._alive or run_id in missing)
        )
        if lost != self._lost:
            self._lost = lost
            self._tell()

    # --- the runs of others -------------------------------------------------------------------------------------------

    async def _look_up(self, run_id: str, wait_s: float = 0.0) -> Head | None:
        """Return a run in Redis; None if it is not there, and does not come within so many seconds."""
        if run_id not in self._remotes and len(run_id) <= MAX_ID_CHARS and run_id.isprintable():
            await self._refresh([run_id])
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s), self._has_refreshed:
                    await self._has_refreshed.wait_for(lambda: run_id in self._remotes)
        return self._remotes.get(run_id)

    async def _refresh(self, run_ids: Iterable[str] | None = None) -> None:
        """Read the heads of runs; None: of the newest ones, and of all that are known."""
        async with self._refreshing:  # an older answer must not replace a newer one
            before = dict(self._remotes)
            if run_ids is None:
                newest = await self._connection.do(
                    partial(self._client.zrevrange, self._keys.runs, 0, self._max_runs - 1)
                )
                run_ids = {run_id.decode(errors="replace") for run_id in newest} | self._mirrors.keys()
                for run_id in self._remotes.keys() - run_ids:
                    del self._remotes[run_id]
            asked = [run_id for run_id in sorted(run_ids) if len(run_id) <= MAX_ID_CHARS]
            pipeline = self._client.pipeline(transaction=False)
            for run_id in asked:
                pipeline.hget(self._keys.run(run_id), "head")
            heads = await self._connection.do(partial(pipeline.execute, raise_on_error=False))
            for run_id, head in zip(asked, heads, strict=True):
                remote = self._read_head(run_id, head) if isinstance(head, bytes) else None
                mirror = self._mirrors.get(run_id)
                if remote is not None:
                    self._remotes[run_id] = remote
                    if mirror is not None:
                        mirror.missing_s = None
                elif mirror is None or not self._is_missed(mirror):
                    self._remotes.pop(run_id, None)
                    if mirror is not None:
                        self._mirrors.pop(run_id).close()
        if self._remotes != before:
            async with self._has_refreshed:
                self._has_refreshed.notify_all()
            await self._look_at_owners()
            self._tell()
        self._count_lost()

    def _is_missed(self, mirror: Mirror) -> bool:
        """Return True if a run that is watched may come back: its process writes again what Redis has lost."""
        if mirror.missing_s is None:
            mirror.missing_s = self.loop.time()
        return self.loop.time() - mirror.missing_s < _MISSED_S

    def _read_head(self, run_id: str, sealed: bytes) -> Head | None:
        """Return the head of a run; None if no process with the secret has written it, or if it is an old one."""
        try:
            head = Head.decode(self._seal.open(f"run:{run_id}", sealed))
        except (ValueError, RecursionError):
            return None
        known = self._remotes.get(run_id)
        is_older = known is not None and (
            head.generation < known.generation or (head.owner == known.owner and head.number < known.number)
        )
        return known if is_older else head if head.summary["id"] == run_id else None

    async def _read(self) -> None:
        """Read the streams from their starts: missed entries come again."""
        await self._ask_time()
        await self._remove_others()
        newest = await self._connection.do(partial(self._client.xrevrange, self._keys.changes, count=1))
        positions = {self._keys.changes: newest[0][0] if newest else START, self._inbox.key: START}
        await self._refresh()
        await self._keep_runs()
        for mirror in self._mirrors.values():
            mirror.restart()
        while True:
            mirrors = {self._keys.records(run_id): mirror for run_id, mirror in self._mirrors.items()}
            block_ms = int(BLOCK_S * 1000) if all(each.is_loaded.is_set() for each in mirrors.values()) else None
            asked = {**positions, **{key: mirror.position for key, mirror in mirrors.items()}}
            found = await self._connection.do(
                partial(self._client.xread, asked, count=_COUNT, block=block_ms), apart=True
            )
            by_key = {key.decode(): entries for key, entries in found}
            for key, entries in by_key.items():
                if not self._is_plausible(entries[-1][0]):
                    await self._connection.do(partial(self._client.delete, key))
                    raise ConnectionError("a stream cannot be written any more")
                if key in positions:
                    positions[key] = entries[-1][0]
            for _, fields in by_key.get(self._inbox.key, ()):
                self._inbox.take(fields.get(b"e", b""))
            if changed := by_key.get(self._keys.changes):
                await self._refresh({fields.get(b"run", b"").decode(errors="replace") for _, fields in changed})
                await self._look_at_owners()
            for key, mirror in mirrors.items():
                entries = by_key.get(key, ())
                for position, fields in entries:
                    mirror.take(position, fields.get(b"e", b""))
                if len(entries) < _COUNT:
                    mirror.is_loaded.set()
                await asyncio.sleep(0)

    async def _ask_time(self) -> None:
        seconds, _ = await self._connection.do(self._client.time, apart=True)
        self._redis_ms = seconds * 1000

    async def _remove_others(self) -> None:
        """Remove keys of another type in the places of streams: with one of them, no stream could be read."""
        keys = [self._keys.changes, self._inbox.key, *map(self._keys.records, self._mirrors)]
        pipeline = self._client.pipeline(transaction=False)
        for key in (*keys, self._keys.runs):
            pipeline.type(key)
        kinds = await self._connection.do(pipeline.execute)
        others = [key for key, kind in zip(keys, kinds, strict=False) if kind not in (b"stream", b"none")]
        if kinds[-1] not in (b"zset", b"none"):
            others.append(self._keys.runs)
        if others:
            await self._connection.do(partial(self._client.delete, *others))

    def _is_plausible(self, position: bytes) -> bool:
        """Return False for an id of the far future: after it, nobody could write for long."""
        return int(position.partition(b"-")[0]) < self._redis_ms + _FAR_MS


def _report(what: str, error: Exception) -> None:
    """Log an error of ours without its text, which may quote a record."""
    _logger.error("%s (%s)", what, type(error).__name__)
