"""The file tools in bad company: others at the same files, inputs that are cut, calls that are cancelled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.files_calls import (
    SLOWLY_S,
    answer_of,
    attack,
    attacked,
    executing,
    mtime_ms,
    parts_in,
    touched,
    tree,
)
from tests.support import until

from eagerstream.tools import Later, TextStream, ToolErrorCode, ToolResponse
from eagerstream_toolkit import Files
from eagerstream_toolkit._files.change import Change
from eagerstream_toolkit._files.versions import Expected


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The folder of the model, in a world in which nothing else may change."""
    with attacked(tmp_path) as folder:
        yield folder


# --- races ------------------------------------------------------------------------------------------------------------


def exchange_file(root: Path) -> None:
    (root / "other").write_text("inside")
    (root / "other").replace(root / "a.txt")


def change_file(root: Path) -> None:
    touched(root / "a.txt", "other")


def delete_file(root: Path) -> None:
    (root / "a.txt").unlink()


def put_link(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(root.parent / "secret.txt")


def put_folder(root: Path) -> None:
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()


def put_pipe(root: Path) -> None:
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")


each_race = pytest.mark.parametrize("race", [exchange_file, change_file, delete_file, put_link, put_folder, put_pipe])


@each_race
@pytest.mark.anyio
async def test_between_read_and_write(root: Path, race: Callable[[Path], None]) -> None:
    """Whatever stands there now was never read: nothing is written."""
    files = Files(root)
    await answer_of(files.read, path="a.txt")
    race(root)
    now = tree(root)
    said = await attack(files, "Write anew", "a.txt")
    if race in (exchange_file, change_file, delete_file):
        assert said.startswith("[CONFLICT]")
    assert tree(root) == now


async def written(root: Path, files: Files, start: str, meanwhile: Callable[[], object], rest: str = 'il"}') -> str:
    """Begin a Write, do something when its temporary file is there, and write on; the error, as it is told."""
    async with executing(files.tools) as writings:
        writing = writings.begin("Write", start)
        await until(lambda: parts_in(root))
        meanwhile()
        writing.feed(rest).end()
        is_error, said = await writing.answered()
    assert is_error
    return said


@each_race
@pytest.mark.anyio
async def test_while_it_is_written(root: Path, race: Callable[[Path], None]) -> None:
    """The same, after the temporary file was made; it is gone, too."""
    now: dict[str, Any] = {}

    def meanwhile() -> None:
        race(root)
        now.update((name, found) for name, found in tree(root).items() if not name.endswith(".part"))

    files = Files(root, require_read=False, backups=True)
    said = await written(root, files, '{"path": "a.txt", "content": "ev', meanwhile)
    if race in (exchange_file, change_file, delete_file):
        assert said.startswith("[CONFLICT]")
    assert tree(root) == now


@pytest.mark.anyio
async def test_with_its_time_put_back_while_it_is_written(root: Path) -> None:
    """The version that the model names is the one that was there when the call began."""
    path = root / "a.txt"
    before = path.stat()

    def meanwhile() -> None:
        path.write_text("of another")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    start = f'{{"path": "a.txt", "file_mtime_ms": {before.st_mtime_ns // 1_000_000}, "content": "ev'
    assert (await written(root, Files(root), start, meanwhile)).startswith("[CONFLICT]")
    assert tree(root) == {"a.txt": b"of another"}


@pytest.mark.anyio
async def test_made_by_another_while_it_is_written(root: Path) -> None:
    """What did not exist when the call began is not replaced."""
    start, new = '{"path": "new.txt", "content": "ev', root / "new.txt"
    said = await written(root, Files(root), start, lambda: new.write_text("of another"))
    assert said.startswith("[CONFLICT]")
    assert tree(root) == {"a.txt": b"inside", "new.txt": b"of another"}


@pytest.mark.anyio
async def test_the_folder_is_exchanged_for_a_link(root: Path) -> None:
    """The file goes where the call began, and never where the link points."""
    sub = root / "sub"
    sub.mkdir()

    def meanwhile() -> None:
        sub.rename(root / "moved")
        sub.symlink_to(root.parent / "folder")

    await written(root, Files(root), '{"path": "sub/new.txt", "content": "ev', meanwhile)
    assert tree(root) == {"a.txt": b"inside", "moved": None, "sub": root.parent / "folder"}


@pytest.mark.anyio
async def test_backups_through_a_link(root: Path) -> None:
    """A backup is a file that is written like any other: where it cannot be kept inside, nothing is."""
    (root / ".backups").symlink_to(root.parent / "folder")
    files = Files(root, require_read=False, backups=True)
    before = tree(root)
    await attack(files, "Write anew", "a.txt")
    assert tree(root) == before


# --- inputs that must not count ---------------------------------------------------------------------------------------


_CUT = [
    "",  # inside the content
    "\\",  # inside an escape
    'il"',  # behind the content
    'il", "file_mtime_ms": ',  # in front of the mtime
    'il", "file_mtime_ms": {mtime}',  # inside the mtime
    'il", "file_mtime_ms": {mtime}, ',  # behind everything
]


@pytest.mark.anyio
async def test_cut(root: Path) -> None:
    """Nothing of it stays: no file, no folder, no temporary file; the model is told."""
    for path in ["a.txt", "new/folders/new.txt"]:
        for rest in _CUT:
            with case(path, rest):
                await check_cut(root, path, rest)


async def check_cut(root: Path, path: str, rest: str) -> None:
    before = tree(root)
    mtime = mtime_ms(root / "a.txt")
    async with executing(Files(root, require_read=False).tools) as writings:
        writing = writings.begin("Write", f'{{"path": "{path}", "content": "ev')
        await until(lambda: writing.call.ran and (parts_in(root) or path.startswith("new/")))
        writing.feed(rest.replace("{mtime}", str(mtime)))
        await anyio.sleep(0.005)  # so that mostly the tool has seen it, which makes no difference
        writing.cut()
        is_error, said = await writing.answered()
    assert is_error
    assert said.endswith(f"[INVALID_FORMAT] Nothing was written to '{path}'.")
    assert tree(root) == before


_INVALID = [
    ('"ev', 'il", "path": "b.txt"}'),  # the path again
    ('"ev', 'il", "content": "good"}'),  # the content again
    ('"ev', 'il", "mode": "a"}'),  # a parameter that is none
    ('"ev', 'il", "file_mtime_ms": "1"}'),  # a wrong type
    ('"ev', 'il"}, {}'),  # something behind
    ('"ev', "il\n\x00"),  # not JSON
    ("", '["x"]}'),  # a content that is no text
]


@pytest.mark.anyio
async def test_invalid(root: Path) -> None:
    """That an input is wrong may show in its last character only."""
    for start, rest in _INVALID:
        with case(start, rest):
            before = tree(root)
            files = Files(root, require_read=False)
            said = await written(root, files, f'{{"path": "a.txt", "content": {start}', lambda: None, rest)
            assert "Nothing was written to 'a.txt'." in said or not start
            assert tree(root) == before


@pytest.mark.anyio
async def test_rejected_by_a_guard(root: Path) -> None:
    """A call that somebody stops while it is written leaves nothing."""
    for mtime in ["", '"file_mtime_ms": null, ']:
        with case(mtime):
            before = tree(root)
            files = Files(root, require_read=False)
            async with executing(files.tools) as writings:
                writing = writings.begin("Write", f'{{"path": "a.txt", {mtime}"content": "evil"')
                await until(lambda: any(part.stat().st_size for part in parts_in(root)))
                await anyio.sleep(0.005)  # so that mostly the tool has seen all, which makes no difference
                writing.call.reject("no evil")
                writing.feed("}").end()
                is_error, said = await writing.answered()
            assert is_error
            assert said.startswith("no evil")
            assert tree(root) == before


# --- cancelled --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["ev", "e" * 200_000], ids=["before the first write", "after it"])
@pytest.mark.anyio
async def test_cancelled_while_it_is_written(root: Path, content: str) -> None:
    """The temporary file goes with it."""
    before = tree(root)
    async with executing(Files(root, require_read=False).tools) as writings:
        writings.begin("Write", f'{{"path": "a.txt", "content": "{content}')
        await until(lambda: parts_in(root) and (len(content) == 2 or parts_in(root)[0].stat().st_size))
        writings.tasks.cancel_scope.cancel()
    assert tree(root) == before


class Slow(TextStream):
    """A content that takes its time at its end."""

    def __init__(self, reached: anyio.Event) -> None:
        self.reached = reached

    async def next_piece(self, sent: int) -> str:
        if sent:
            self.reached.set()
            await anyio.sleep_forever()
        return "evil" * 20_000


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_cancelled_by_asyncio_s_own_means(root: Path, anyio_backend: str) -> None:
    """Which reaches into what anyio shields, at any moment."""
    assert anyio_backend == "asyncio"
    before = tree(root)
    files = Files(root, require_read=False)
    for steps in range(12):
        task = asyncio.create_task(files.write("a.txt", Slow(anyio.Event())))
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    reached = anyio.Event()
    task = asyncio.create_task(files.write("a.txt", Slow(reached)))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: tree(root) == before)


def test_discarded_before_it_began(root: Path) -> None:
    """A thread that was left behind comes late: it must not make what nobody discards any more."""
    before = tree(root)
    for path in ("a.txt", "new/a.txt"):
        change = Change(Files(root), tuple(path.split("/")))
        change.discard()
        with pytest.raises(OSError, match="canceled"):
            change.begin()
        with pytest.raises(OSError, match="canceled"):
            change.commit(Expected(None))
    assert tree(root) == before


@pytest.mark.anyio
async def test_cancelled_at_every_step(root: Path) -> None:
    """Whenever it comes, the file is the old one or the new one, and nothing else is there."""
    files = Files(root, require_read=False)
    for steps in range(25):
        (root / "a.txt").write_text("inside")
        files.clear_read_cache()
        async with executing(files.tools) as writings:
            writing = writings.whole("Write", '{"path": "a.txt", "content": "outcome"}')
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            writings.tasks.cancel_scope.cancel()
        written = tree(root)
        assert written in ({"a.txt": b"inside"}, {"a.txt": b"outcome"})
        if writing.call.response is not None and not writing.call.is_error:
            assert written == {"a.txt": b"outcome"}


# --- two at once ------------------------------------------------------------------------------------------------------


class Meeting:
    """A place where several wait for each other."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self._complete = anyio.Event()

    async def join(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._complete.set()
        await self._complete.wait()


class AtOnce(TextStream):
    """A content that ends when that of all others does."""

    def __init__(self, text: str, meeting: Meeting) -> None:
        self._text = text
        self._meeting = meeting

    async def next_piece(self, sent: int) -> str:
        if sent:
            await self._meeting.join()
        return self._text[sent:]


@pytest.mark.parametrize(
    ("path", "is_shared", "is_named"),
    [
        pytest.param("a.txt", True, False, id="one Files"),
        pytest.param("a.txt", False, False, id="each its own"),
        pytest.param("a.txt", True, True, id="one Files, the version named"),
        pytest.param("a.txt", False, True, id="each its own, the version named"),
        pytest.param("new.txt", True, False, id="a new file"),
        pytest.param("new/new.txt", False, False, id="in a new folder"),
    ],
)
@pytest.mark.anyio
async def test_writers_at_once(root: Path, path: str, is_shared: bool, is_named: bool) -> None:
    """Exactly one wins; the others are told, and overwrite nothing."""
    count = 3
    everybody = [Files(root)] * count if is_shared else [Files(root) for _ in range(count)]
    for files in everybody:
        await answer_of(files.read, path=path)
    meeting = Meeting(count)
    told = mtime_ms(root / path) if is_named else None
    answers: dict[int, ToolResponse] = {}

    async def write(number: int) -> None:
        content = AtOnce(f"writer {number}", meeting)
        answers[number] = await everybody[number].write(path, content, Later[int | None].of(told))

    with anyio.fail_after(SLOWLY_S):
        async with anyio.create_task_group() as tasks:
            for number in range(count):
                tasks.start_soon(write, number)
    (winner,) = [number for number, answer in answers.items() if answer.code is None]
    assert {answer.code for answer in answers.values()} == {None, ToolErrorCode.CONFLICT}
    assert (root / path).read_text() == f"writer {winner}"
    assert not parts_in(root)


@pytest.mark.slow
@pytest.mark.anyio
async def test_editors_at_once(root: Path) -> None:
    """Every edit that was said to be made is in the file; none was lost to another."""
    path = root / "a.txt"
    path.write_text("".join(f"<{number}>" for number in range(10)))
    made: set[int] = set()
    everybody = [Files(root) for _ in range(10)]

    async def edit(number: int) -> None:
        tool = everybody[number].edit
        response = await answer_of(tool, path="a.txt", old_string=f"<{number}>", new_string=f"[{number}]")
        if response.code is None:
            made.add(number)
        else:
            assert response.code == ToolErrorCode.CONFLICT

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(edit, number)
    assert made
    assert path.read_text() == "".join(f"[{n}]" if n in made else f"<{n}>" for n in range(10))
