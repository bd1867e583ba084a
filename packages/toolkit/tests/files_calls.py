"""What the tests of the file tools share: calls, one that is still being written, and what is in a folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.streams import block_stop, input_delta, message_delta, tool_start

from eagerstream.inputs import GrowingInput
from eagerstream.tools import InProcessExecutor, Tool, ToolCall, ToolResponse
from eagerstream_toolkit import Files
from eagerstream_wire import InputAccumulator

SLOWLY_S = 50


async def answer_of(tool: Tool, **input: Any) -> ToolResponse:
    """What a tool answers to an input that is whole."""
    with anyio.fail_after(SLOWLY_S):
        response = await tool.call(input)
    assert isinstance(response, ToolResponse)
    return response


def facts(response: ToolResponse) -> tuple[str | None, str]:
    """Code and text."""
    return response.code, response.text


def tree(root: Path, *, without: str = "") -> dict[str, Any]:
    """All that is in a folder: the bytes of files, None for what is none, where links point to."""
    found: dict[str, Any] = {}
    pending = [path for path in root.iterdir() if path.name != without]
    while pending:
        path = pending.pop()
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = path.readlink()
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = None
            pending += path.iterdir() if path.is_dir() else ()
    return found


def parts_in(root: Path) -> list[Path]:
    """Files that are being written."""
    return list(root.rglob("*.part"))


def mtime_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def touched(path: Path, content: str | None = None) -> None:
    """Somebody else changes a file, at another time than it was changed before."""
    before = path.stat()
    if content is not None:
        path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 5_000_000_000))


class Writing:
    """A call that is executed while its input is written, piece by piece."""

    def __init__(self, executor: InProcessExecutor, tasks: Any, name: str, index: int) -> None:
        self._accumulator = InputAccumulator(input_type=GrowingInput)
        self._accumulator.feed(tool_start(index, name))
        self._index = index
        self.call = ToolCall(self._accumulator.inputs[index], turn=1)
        executor.admit(self.call)
        tasks.start_soon(executor.execute, self.call)

    def feed(self, raw: str) -> Self:
        """The model writes on."""
        self._accumulator.feed(input_delta(self._index, raw))
        return self

    def end(self) -> None:
        """The block is closed."""
        self._accumulator.feed(block_stop(self._index))
        self._accumulator.feed(message_delta("tool_use"))

    def cut(self) -> None:
        """Nothing more comes."""
        self._accumulator.close()

    async def answered(self) -> tuple[bool, str]:
        """Whether the answer is an error, and what it says."""
        with anyio.fail_after(SLOWLY_S):
            await self.call.answered.wait()
        assert self.call.result is not None
        content = self.call.result["content"]
        return self.call.is_error, content if isinstance(content, str) else "".join(part["text"] for part in content)


class Writings:
    """Calls of one turn, executed at once."""

    def __init__(self, tools: list[Tool], tasks: Any) -> None:
        self._executor = InProcessExecutor(tools)
        self.tasks = tasks
        self._count = 0

    def begin(self, name: str, raw: str = "") -> Writing:
        """The model begins a call."""
        writing = Writing(self._executor, self.tasks, name, self._count)
        self._count += 1
        return writing.feed(raw)

    def whole(self, name: str, raw: str) -> Writing:
        """A call whose input is whole."""
        writing = self.begin(name, raw)
        writing.end()
        return writing


@asynccontextmanager
async def executing(tools: list[Tool]) -> AsyncIterator[Writings]:
    """Calls that are executed while their inputs are written; what still runs at the end is cancelled."""
    with anyio.fail_after(SLOWLY_S):
        async with anyio.create_task_group() as tasks:
            yield Writings(tools, tasks)
            tasks.cancel_scope.cancel()


needs_no_root = pytest.mark.skipif(os.getuid() == 0, reason="nothing is forbidden to root")

# --- attacks ----------------------------------------------------------------------------------------------------------

SECRET = "the secret"


@contextmanager
def attacked(outside: Path) -> Iterator[Path]:
    """The root of a model, in a world in which nothing else may change; `a.txt` is in it."""
    for folder in ("root", "root-sibling", "folder"):
        (outside / folder).mkdir()
    for name in ("secret.txt", "root-sibling/secret.txt", "folder/secret.txt"):
        (outside / name).write_text(SECRET)
    (outside / "root" / "a.txt").write_text("inside")
    before = tree(outside, without="root")
    yield outside / "root"
    assert tree(outside, without="root") == before


INPUTS: dict[str, dict[str, Any]] = {
    "Read": {},
    "Write": {"content": "evil", "file_mtime_ms": 0},
    "Write anew": {"content": "evil"},
    "Edit": {"old_string": SECRET, "new_string": "evil"},
    "MultiEdit": {"edits": [{"old_string": SECRET, "new_string": "evil"}]},
}


async def attack(files: Files, what: str, path: str) -> str:
    """What the model is told, by way of the executor; it is an error, and knows nothing of the host."""
    raw = json.dumps({"path": path, **INPUTS[what]})
    async with executing(files.tools) as writings:
        is_error, said = await writings.whole(what.partition(" ")[0], raw).answered()
    assert is_error
    assert SECRET not in said
    assert "Traceback" not in said
    assert str(Path(tempfile.gettempdir())) not in said.replace(path, "")
    return said
