"""`RedisRelay`: the connection of a hub to those of other processes, through Redis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from eagerstream._support.checks import check_count, check_positive
from eagerstream.errors import UsageError

from ._peers import Peers
from ._session import Session
from ._stored import Keys, Seal

if TYPE_CHECKING:
    from types import TracebackType

    from .._hub import Hub

_MIN_SECRET_CHARS: Final = 16


class RedisRelay:
    """Shows the runs of a hub to the hubs of other processes, and theirs to it, through Redis Streams.

    ::

        hub = Hub(relay=RedisRelay("redis://localhost", secret=os.environ["RELAY_SECRET"]))

    Every process makes such a hub, with the same secret and prefix: `uvicorn --workers 4`, several machines, or a
    program with runs and another one with the page. Each can then show every run to its watchers, from `web_app` and
    `mcp_apps_app`, and what they do comes to the process that has the run.

    - A run never waits for Redis or for a watcher. A thread writes the records, as one more watcher of the log.
    - If Redis is gone, the records wait in the logs, within their bounds. When it is back, they follow, and a Redis
      that has lost everything gets everything again. Logs of more than twice `max_runs` runs do not wait.
    - If a process dies, its runs are shown as `lost` after some six seconds, and at once if it closes the relay.
    - A stream is read in a process only while somebody watches the run there.

    It starts with the first use. `close`, or a `with` around the program, writes what is left. It is closed at the exit
    of the program at the latest. All methods may be called from any thread. After a fork, the child has its own.

    Args:
        url: `redis://`, `rediss://` (TLS) or `unix://`, perhaps with a user and a password. Needs Redis 6.2 or newer,
            or Valkey; no cluster.
        secret: Text of at least 16 characters, the same in all processes. Who has it may decide about calls, like the
            owner of the page's token. Everything is signed with it, so that others who reach Redis can show no false
            record, and can act on no run. They can still read the records, and delete them. Pass None only if nobody
            else can reach Redis.
        prefix: Begins the names of all keys. Hubs with different prefixes see nothing of each other.
        keep_s: Seconds for which Redis keeps a run after the last sign of its process. At least 60.
        max_stream_bytes: Bytes by which the stream of a run may grow before a snapshot takes its place. A stream has
            about twice as many at most, or six times the size of the run's snapshot, if that is more.

    Raises:
        MissingExtraError: By the import of its module: the extra `redis` is not installed.
        UsageError: The secret is too short, the prefix is empty, or a number is out of range.
        ValueError: The URL has another form.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None,
        prefix: str = "eagerstream",
        keep_s: float = 3600.0,
        max_stream_bytes: int = 8 * 2**20,
    ) -> None:
        if secret is not None and len(secret) < _MIN_SECRET_CHARS:
            raise UsageError(f"a secret has at least {_MIN_SECRET_CHARS} characters")
        if not prefix:
            raise UsageError("a prefix is needed")
        check_positive("keep_s", keep_s)
        if keep_s < 60:
            raise UsageError("keep_s is at least 60")
        check_count("max_stream_bytes", max_stream_bytes)
        from redis.asyncio.connection import parse_url

        parse_url(url)
        self._options: dict[str, Any] = {
            "url": url,
            "keys": Keys(prefix),
            "seal": Seal(secret, prefix),
            "keep_s": keep_s,
            "max_bytes": max_stream_bytes,
        }
        self._peers: Peers | None = None

    def attach(self, hub: Hub, *, max_runs: int, tell: Callable[[], object]) -> Peers:
        """Take the hub whose runs are relayed. `Hub` calls it.

        Args:
            hub: The hub.
            max_runs: Number of runs of other processes to list.
            tell: Called when that list has changed.

        Raises:
            UsageError: It has another hub.
        """
        if self._peers is not None:
            raise UsageError("a relay is for one hub")
        self._peers = Peers(partial(Session, hub, max_runs=max_runs, tell=tell, **self._options))
        return self._peers

    def start(self) -> None:
        """Start the thread if it does not run in this process. The first use of the hub does that.

        Raises:
            UsageError: The relay is closed, or no hub has it.
        """
        if self._peers is None:
            raise UsageError("a hub needs the relay first: Hub(relay=...)")
        self._peers.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Write the last records, and end the thread. May be repeated.

        Args:
            timeout_s: Seconds to write at most. With 0, nothing is written, and other processes are not told.
        """
        if self._peers is not None:
            self._peers.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
