"""`Inbox`: the messages of processes to each other. One asks for an action, the other answers when it is done."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from eagerstream.errors import LimitError, UsageError

from .._actions import Action, read_action, written_action
from ._connection import Connection
from ._stored import MAX_INBOX, Keys, Seal

_MAX_ASKED: Final = 100
"""Maximum number of actions that wait, in each direction."""
_MAX_SENDERS: Final = 100_000


class Inbox:
    """Sends and takes the messages of this process.

    Attributes:
        key: The key of its stream, which somebody else reads.
    """

    def __init__(
        self,
        process: str,
        act: Callable[[str, Action], object],
        *,
        connection: Connection,
        keys: Keys,
        seal: Seal,
        keep_s: float,
    ) -> None:
        self.key: str = keys.inbox(process)
        self._process = process
        self._act = act
        self._connection = connection
        self._keys = keys
        self._seal = seal
        self._keep_ms = int(keep_s * 1000)
        self._threads = ThreadPoolExecutor(8, "eagerstream relay")  # an action waits for the event loop of its run
        self._numbers = count(1)
        self._asking = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[Sequence[Any] | None]] = {}  # by the number of the question
        self._heard: OrderedDict[str, int] = OrderedDict()  # the last number of each process that asked
        self._answering: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by run

    async def ask(self, owner: str, run_id: str, action: Action) -> None:
        """Have another process act on its run. Return when it is done. It has no time-out of its own.

        Raises:
            Exception: As for `Hub.act`.
        """
        if len(self._asked) >= _MAX_ASKED:
            raise LimitError("max_asked", _MAX_ASKED, "the actions that wait for other processes")
        path, fields = written_action(action)
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            async with self._asking:  # in order: an owner hears only numbers that rise
                await self._send(owner, ["ask", self._process, number, run_id, path, fields])
            error = await answer
        finally:
            del self._asked[number]
        if error is not None:
            raise _error(*error)

    async def wake(self) -> None:
        """Have the reader of the streams look at once which ones are to read."""
        await self._send(self._process, ["wake"])

    def take(self, sealed: bytes) -> None:
        """Take the next message."""
        try:
            message = json.loads(self._seal.open(self.key, sealed))
        except (ValueError, RecursionError):
            return  # not from a process with the secret
        match message:
            case ["ask", str(sender), int(number), str(run_id), str(path), dict(fields)]:
                if number <= self._heard.get(sender, 0):
                    return  # a message that comes again
                self._heard[sender] = number
                self._heard.move_to_end(sender)
                if len(self._heard) > _MAX_SENDERS:
                    self._heard.popitem(last=False)
                task = asyncio.create_task(self._answer(sender, number, run_id, path, cast("dict[str, Any]", fields)))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case ["answer", int(number), list() | None as error]:
                asked = self._asked.get(number)
                if asked is not None and not asked.done():
                    asked.set_result(error)
            case _:
                pass

    def close(self) -> None:
        """Begin no more actions."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, sender: str, number: int, run_id: str, path: str, fields: dict[str, Any]) -> None:
        """Act for another process, and answer it. The actions on a run keep their order."""
        error: list[Any] | None = None
        try:
            if len(self._answering) > _MAX_ASKED:
                raise LimitError("max_asked", _MAX_ASKED, "the actions that wait for this process")
            action = read_action(path, fields)
            async with self._turns.setdefault(run_id, asyncio.Lock()):
                await asyncio.get_running_loop().run_in_executor(self._threads, self._act, run_id, action)
        except LimitError as refused:
            error = ["LimitError", refused.limit, refused.bound, refused.what]
        except KeyError:
            error = ["KeyError", run_id]
        except (UsageError, ValueError) as refused:
            error = ["UsageError", str(refused)]
        except Exception as failure:
            error = ["ConnectionError", f"it failed ({type(failure).__name__})"]
        with suppress(ConnectionError):
            await self._send(sender, ["answer", number, error])

    async def _send(self, process: str, message: Sequence[Any]) -> None:
        """Write a message into the inbox of a process."""
        inbox = self._keys.inbox(process)
        text = json.dumps(message, separators=(",", ":")).encode("ascii")
        pipeline = self._connection.client.pipeline(transaction=True)
        pipeline.xadd(inbox, {"e": self._seal.close(inbox, text)}, maxlen=MAX_INBOX)
        pipeline.pexpire(inbox, self._keep_ms)
        await self._connection.do(pipeline.execute)


def _error(kind: object = None, *arguments: Any) -> Exception:
    """Return the error in the answer of another process."""
    kinds: dict[object, Callable[..., Exception]] = {
        "KeyError": KeyError,
        "LimitError": LimitError,
        "UsageError": UsageError,
    }
    try:
        return kinds.get(kind, ConnectionError)(*arguments)
    except TypeError:
        return ConnectionError("the process of this run gave no answer that can be read")
