"""`Conversations`: the ids under which tools keep state for the conversations of graphs."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from .._calls import RunOptions

_SENT: Final = "__pregel_push"
"""First part of the path of a task that a `Send` started."""


class Conversations:
    """The conversations that use one node or tool.

    A conversation is a thread of LangGraph. Without a thread, it is one run of the graph. Each run of a subgraph is a
    conversation of its own. Two objects of this class never give the same id, not even for threads of the same name.
    """

    def __init__(self) -> None:
        self._prefix = uuid4().hex
        self._runs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def of(self, config: RunnableConfig) -> RunOptions:
        """Return the options of `EarlyCalls` for a task with this config. Outside of a graph, there are none."""
        configurable: Mapping[str, Any] = config.get("configurable") or {}
        writer = getattr(configurable.get("__pregel_runtime"), "stream_writer", None)
        if writer is None:
            return {}
        # The last part of the name is the task itself, which is another one at each step.
        outer = str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]
        if (thread := configurable.get("thread_id")) is not None:
            return {"run_id": f"{self._prefix}{(str(thread), outer)}"}

        def when_over(callback: Callable[[], object]) -> None:
            weakref.finalize(writer, _call_in, asyncio.get_running_loop(), callback).atexit = False

        # LangGraph has no id for a run without a thread. Each run makes its writer, which is gone after it.
        run_id = self._runs.setdefault(writer, uuid4().hex)
        return {"run_id": f"{run_id}{(outer,)}", "when_over": when_over}


def is_sent(config: RunnableConfig) -> bool:
    """Return whether a `Send` started the task: there may be others for the same node, with other messages."""
    path: tuple[Any, ...] = (config.get("metadata") or {}).get("langgraph_path", ())
    return path[:1] == (_SENT,)


def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call a function in the thread of an event loop. The garbage collector may run in any thread."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:  # the loop is closed
        callback()
