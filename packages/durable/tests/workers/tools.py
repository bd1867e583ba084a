"""Tools at the level of a module, where every process finds them; what they did shows in files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread

from eagerstream import (
    Context,
    InputInterrupted,
    ItemStream,
    Later,
    RunningCall,
    TextStream,
    ToolError,
    ToolResponse,
    tool,
)
from eagerstream.tools import Group
from eagerstream_wire._block_rules import text_block


def note(log: str, text: str) -> None:
    """Add a line to a file; several processes may do it at the same time."""
    with Path(log).open("a") as file:
        file.write(f"{text}\n")


def _notes(log: str) -> int:
    return len(Path(log).read_text().splitlines())


async def _until(is_so: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    while True:
        if is_so():
            return
        await anyio.sleep(0.005)


@tool
async def double(n: int) -> int:
    """Double."""
    return 2 * n


@tool
def halve(n: int) -> float:
    """Halve, in a thread."""
    return n / 2


@tool
async def steps(count: int, call: RunningCall) -> str:
    """Tell of progress."""
    for number in range(count):
        await call.progress({"step": number})
    return "done"


@tool
def thread_steps(count: int, call: RunningCall) -> str:
    """Tell of progress from a thread."""
    for number in range(count):
        call.progress(number)
    return "done"


@tool
async def generated(count: int) -> AsyncIterator[str]:
    """Give values; the last one is the result."""
    for number in range(count):
        yield f"value {number}"


@tool
def generated_in_thread(count: int) -> Iterator[str]:
    """Give values from a thread."""
    for number in range(count):
        yield f"value {number}"


@tool
async def read_items(name: str, lines: ItemStream[str], call: RunningCall) -> str:
    """Tell of each line as it is there."""
    count = 0
    async for line in lines:
        await call.progress(line)
        count += 1
    return f"{name}: {count} lines"


@tool
async def read_text(text: TextStream, title: Later[str], call: RunningCall) -> str:
    """Tell of each piece as it is there; the title comes later."""
    length = 0
    async for piece in text:
        length += len(piece)
        await call.progress(piece)
    return f"{await title}: {length}"


@tool
async def first_line(lines: ItemStream[str]) -> str:
    """Read no more than the first line."""
    async for line in lines:
        return line
    return "nothing"


@tool
async def told_of_interruption(lines: ItemStream[str], call: RunningCall) -> str:
    """Say why the input was interrupted."""
    try:
        async for line in lines:
            await call.progress(line)
    except InputInterrupted as error:
        return f"interrupted: {error.reason}"
    return "whole"


@tool(accepts_invalid_input=True)
async def anything(n: int = 0, INVALID_JSON: str = "") -> str:
    """Take what comes."""
    return f"{n} {INVALID_JSON!r}"


@tool(group=Group("in order", stop_on_error=True))
async def in_order(log: str, name: str) -> str:
    """One at a time."""
    note(log, f"{name} begins")
    await anyio.sleep(0.01)
    note(log, f"{name} ends")
    if name == "bad":
        raise ToolError("a failure")
    return name


@tool(timeout_s=0.1)
async def sleeper(end: str = "") -> str:
    """Never end."""
    await anyio.sleep_forever()
    return "never"


@tool(timeout_s=0.1)
def busy(end: str) -> str:
    """Keep a processor until a file is there."""
    while not Path(end).exists():
        pass
    return "never"


@tool
async def cleans_up(log: str) -> str:
    """Wait, and clean up."""
    note(log, "begun")
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.05)
        note(log, "cleaned")
    return "never"


@tool(on_cancel="finish")
async def finishes(log: str, gate: str) -> str:
    """End when a file is there, whatever happens."""
    note(log, "begun")
    await _until(Path(gate).exists)
    note(log, "ended")
    return "finished"


@tool
async def waits_for(log: str, name: str, others: int) -> str:
    """Wait until so many calls have begun."""
    note(log, name)
    await _until(lambda: _notes(log) >= others)
    return name


@tool
async def logs(log: str, name: str) -> str:
    """Note that it ran."""
    note(log, name)
    await anyio.sleep(0.01)
    return name


@tool
async def about(call: RunningCall) -> str:
    """Say what the call is."""
    return f"{call.id} {call.name} {call.turn} {call.block.get('caller')} {call.input.raw}"


@tool
async def length(text: str) -> int:
    """The length of a text."""
    return len(text)


@tool
async def long_result(size: int) -> ToolResponse:
    """A long text, and more of it in the data."""
    return ToolResponse.success("x" * 100, {"long": "y" * size})


@tool
async def big_progress(size: int, call: RunningCall) -> str:
    """A value that is long."""
    await call.progress("z" * size)
    return "done"


# --- what goes wrong --------------------------------------------------------------------------------------------------


class NeedsTwo(Exception):
    """Is pickled, but cannot be read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class _Lock:
    """Cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("no")

    def __str__(self) -> str:
        return "a lock"


class HasALock(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("locked")
        self.lock = _Lock()


class BecomesText(Exception):
    """Is pickled as something else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, ("not an exception",)


class ExitsWhenPickled(Exception):
    """Takes the process along."""

    def __reduce__(self) -> str:
        raise SystemExit(4)


ERRORS: dict[str, Any] = {
    "becomes text": lambda: BecomesText("odd"),
    "exits": lambda: ExitsWhenPickled("odd"),
    "plain": lambda: ValueError("not that"),
    "no message": RuntimeError,
    "key": lambda: KeyError("name"),
    "code": lambda: FileNotFoundError(2, "No such file", "x"),
    "timeout": lambda: TimeoutError("too slow"),
    "tool error": lambda: ToolError("no more", hint="Wait.", code="RATE_LIMIT", content=[text_block("details")]),
    "exit": lambda: SystemExit(3),
    "group": lambda: ExceptionGroup("several", [ValueError("a"), NeedsTwo("b", "c")]),
    "needs two": lambda: NeedsTwo("a", "b"),
    "lock": HasALock,
    "local": lambda: type("Local", (Exception,), {})("made here"),
    "cancelled": asyncio.CancelledError,
}


@tool
async def fails(kind: str) -> str:
    """Raise."""
    error = ERRORS[kind]()
    raise error


@tool
def fails_in_thread(kind: str) -> str:
    """Raise in a thread."""
    error = ERRORS[kind]()
    raise error


RESPONSES: dict[str, Any] = {
    "text": lambda: "hello",
    "nothing": lambda: None,
    "json": lambda: {"a": [1, 2.5, None]},
    "response": lambda: ToolResponse.success("all", {"rows": [1, 2]}, {"count": 2}, {"where": "here"}),
    "partial": lambda: ToolResponse.partial("half", {"rows": [1]}, reason="cut"),
    "error": lambda: ToolResponse.error("CONFLICT", "somebody was faster"),
    "blocks": lambda: [text_block("one"), text_block("two")],
    "content": lambda: ToolResponse.success("with", content=[text_block("more")]),
    "lock in data": lambda: ToolResponse.success("some", {"lock": _Lock(), "n": 1}),
    "bad content": lambda: ToolResponse.success("some", content=[{"type": "video"}]),
    "no json": object,
    "surrogate": lambda: "a\ud800b",
}


@tool
async def returns(kind: str) -> Any:
    """Return."""
    return RESPONSES[kind]()


@tool(include_data=True)
async def returns_data(kind: str) -> Any:
    """Return, with the data."""
    return RESPONSES[kind]()


@tool
async def odd_progress(call: RunningCall) -> str:
    """Tell of a value that cannot be pickled."""
    await call.progress(_Lock())
    return "done"


# --- what happens to workers ------------------------------------------------------------------------------------------


async def _dies_at_first(log: str) -> str:
    note(log, f"{os.getpid()}")
    if _notes(log) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@tool
async def dies(log: str) -> str:
    """Take the worker along, at the first call."""
    return await _dies_at_first(log)


@tool(idempotent=True)
async def dies_once(log: str) -> str:
    """Take the worker along, at the first call."""
    return await _dies_at_first(log)


@tool(idempotent=True)
async def dies_reading(log: str, lines: ItemStream[str], call: RunningCall) -> str:
    """Take the worker along in the middle of the input, at the first call."""
    seen = []
    async for line in lines:
        seen.append(line)
        await call.progress(line)
        if len(seen) == 2:
            await _dies_at_first(log)
    return ",".join(seen)


@tool
def leaves_a_process(log: str, dies: bool) -> str:
    """Fork a process that lives on in a session of its own, with all that the worker has open."""
    child = os.fork()
    if not child:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    note(log, str(child))
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    return "left"


@tool
def runs_a_program(log: str) -> str:
    """Wait for a program that does not end."""
    with subprocess.Popen(["sleep", "1000"]) as started:
        note(log, f"{started.pid}")
    return "never"


@tool
async def ignores_cancellation(log: str) -> str:
    """Does not end when it is asked to."""
    note(log, f"{os.getpid()}")
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()
    return "never"


@tool
def spins(log: str) -> str:
    """Keep a processor for ever."""
    note(log, f"{os.getpid()}")
    while True:
        pass


@tool
def prints(text: str) -> str:
    """Print, to everything that is open."""
    print(text, flush=True)
    os.write(1, text.encode())
    return "printed"


@tool
def writes_junk() -> str:
    """Write into the pipe of the worker."""
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"junk" * 100)
        except OSError:
            pass
    return "never read"


@tool
async def pid() -> int:
    """The process."""
    return os.getpid()


class Counter:
    """An object with a tool; each process has its own copy."""

    def __init__(self, start: int) -> None:
        self.count = start

    @tool
    async def count_up(self) -> int:
        """Count."""
        self.count += 1
        return self.count


class Foreign:
    """A tool of another library."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def to_dict(self) -> dict[str, Any]:
        """The definition."""
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return {"name": "foreign", "description": "Multiply.", "input_schema": schema}

    async def call(self, input: Any) -> str:
        """Run it."""
        return str(self.factor * input["n"])


def _renamed(n: int) -> int:
    """Add one."""
    return n + 1


other_name = tool(_renamed, name="add_one")


@dataclass
class Shop:
    """The dependencies of a tool."""

    name: str
    till: object = None


@tool
async def sell(context: Context[Shop], thing: str) -> str:
    """Sell a thing, and change the shop."""
    shop = context.deps
    shop.name += "!"
    return f"{thing} of {shop.name} {context.run_id} {context.turn} {context.call.id}"


def _mend(raw: str, _error: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(raw.replace(",}", "}"))
    return found


@tool(repair=_mend)
async def mended(n: int) -> int:
    """Double a number."""
    return 2 * n
