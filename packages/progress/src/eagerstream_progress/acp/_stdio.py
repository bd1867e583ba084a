"""`serve_acp`: an agent that an editor starts, over the standard input and output of this process."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final, cast

import anyio

from eagerstream.errors import MissingExtraError, UsageError

from .._hub import Hub
from ._agent import Agent, Start
from ._encoder import ACPEncoder
from ._tools import ACPTool, ToolOf

_MAX_LINE_BYTES: Final = 50 * 1024 * 1024
"""As the default of the official library: a prompt may have images."""

_CLOSE_S: Final = 2.0
"""Time for the last messages, if the editor has closed the input and does not read the output."""


async def serve_acp(
    start: Start,
    *,
    hub: Hub | None = None,
    tools: Mapping[str, ACPTool | ToolOf] | None = None,
    real_path: Callable[[str], str | None] | None = None,
    name: str = "eagerstream",
    min_interval_s: float = 0.05,
) -> None:
    """Serve an editor that speaks ACP over this process's standard input and output, until it closes the input.

        def start(prompt: ACPPrompt) -> eagerstream.Run:
            return eagerstream.run(
                client, model="claude-opus-4-7", max_tokens=16_000, tools=[*Files(prompt.cwd)], messages=prompt.messages
            )

        asyncio.run(serve_acp(start))

    Each prompt of a session starts a run, one at a time. The session keeps the conversation. A call with
    `approve=hub.approve` asks the person in the editor; anything but a clear yes refuses it. `session/cancel` cancels
    the run, and so does an editor that leaves. If a run fails, the editor gets an error: errors of eagerstream with
    their text, without secrets; all others with their class only. The others, and all errors that `start` raises, are
    logged.

    The standard output belongs to the protocol. From then on, everything that is printed in this process goes to the
    standard error, also by the programs that tools start, and these read an empty input. On Windows, tools must not
    print, and must give such programs pipes of their own.

    It needs asyncio, like the official library. If this is cancelled, all runs are cancelled, and have ended.

    Args:
        start: Takes a prompt and returns a run that is not entered yet; may be async.
        hub: Shows the runs to watchers too, for example on the web page. Calls with `approve=hub.approve` wait in it.
        tools, real_path: As for `ACPEncoder`.
        name: The name of the agent, for the editor.
        min_interval_s: Fragments that come within this time are shown together, in seconds.

    Raises:
        MissingExtraError: The extra `acp` is not installed.
        UsageError: The standard input or output is a file: this process was not started by an editor.
    """
    agent = new_agent(start, hub=hub, tools=tools, real_path=real_path, name=name, min_interval_s=min_interval_s)
    reader, writer = await _own_pipes()
    await serve_streams(agent, reader, writer)


def new_agent(
    start: Start,
    *,
    hub: Hub | None = None,
    tools: Mapping[str, ACPTool | ToolOf] | None = None,
    real_path: Callable[[str], str | None] | None = None,
    name: str = "eagerstream",
    min_interval_s: float = 0.05,
) -> Agent:
    """Return an agent. The arguments are those of `serve_acp`."""
    try:
        import_module("acp")  # needed at the first request
    except ImportError as error:
        raise MissingExtraError("acp", error.name or "acp", package="eagerstream-progress") from error
    return Agent(
        start,
        hub=hub or Hub(max_runs=1),  # ended runs are not needed here
        new_encoder=partial(ACPEncoder, tools=tools, real_path=real_path),
        name=name,
        version=version("eagerstream-progress"),
        min_interval_s=min_interval_s,
    )


async def serve_streams(agent: Agent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one editor until it closes its side. All runs have ended when this returns."""
    from acp.agent import AgentSideConnection  # its name in `acp` is deprecated

    # `session/close` is stable in the protocol, and behind this switch in version 0.12 of the library.
    connection = AgentSideConnection(cast("Any", agent), writer, reader, listening=False, use_unstable_protocol=True)

    async def listen() -> None:
        with suppress(OSError):  # the editor has crashed: for a socket, this is not the end of the input
            await connection.listen()

    try:
        # A task of its own: the library ends the loop without an error if it is cancelled, which this one must raise.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
    finally:
        with anyio.CancelScope(shield=True):
            await agent.aclose()
            # `wait_for` cancels once: a scope of anyio would also cut off what `close` does after that. The library
            # waits forever if nobody reads the output any more.
            with suppress(OSError):  # that includes the time limit
                await asyncio.wait_for(connection.close(), _CLOSE_S)
            if not writer.is_closing():
                writer.transport.abort()


async def _own_pipes() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the standard input and output as streams. From then on, no other code has them."""
    from acp.stdio import stdio_streams

    if sys.platform == "win32":  # there, the library writes to `sys.stdout` itself
        return await stdio_streams(limit=_MAX_LINE_BYTES)
    modes = [os.fstat(number).st_mode for number in (0, 1)]
    if not all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(place) for place, mode in enumerate(modes)):
        raise UsageError("an editor starts this program, with pipes as its standard input and output")
    sys.stdout.flush()
    pipes = open(os.dup(0), "rb"), open(os.dup(1), "wb")  # noqa: ASYNC230, PTH123, SIM115 the loop closes them
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 it never blocks
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    files = sys.stdin, sys.stdout
    sys.stdin, sys.stdout = pipes  # the library asks there for its pipes, once
    try:
        return await stdio_streams(limit=_MAX_LINE_BYTES)
    finally:
        sys.stdin, sys.stdout = files
