"""Paths and file systems made to lead out of a folder, tried through everything that takes paths."""

from __future__ import annotations

import gc
import os
import re
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.files_calls import INPUTS, answer_of
from packages.toolkit.tests.support import handles_in, needs_proc
from tests.tables import rows

from eagerstream.errors import ToolError
from eagerstream.tools import Tool, ToolResponse
from eagerstream_toolkit import EagerTextEditor, Files, Jail, Memory, TextEditor
from eagerstream_toolkit._growing_file import MAX_FILE_BYTES
from eagerstream_toolkit._paths import MAX_DEPTH

SECRET = "the secret of the outside"
ROOT = "/memories"


class World(NamedTuple):
    """A folder to keep in, and what lies around it.

    Attributes:
        root: The folder.
        outside: What must stay as it is.
        before: What lies around the root.
    """

    root: Path
    outside: Path
    before: dict[str, Any]

    def check(self) -> None:
        """Check that what lies around the root is what it was."""
        assert _outside(self.root.parent) == self.before


def snapshot(folder: Path) -> dict[str, Any]:
    """Everything below a folder, byte for byte; symbolic links as themselves."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (at.st_mode, at.st_ino, content)
    return found


@contextmanager
def made_world(tmp_path: Path) -> Iterator[World]:
    """A root with a file and a folder in it; at the end the outside is what it was."""
    (tmp_path / "root" / "inner").mkdir(parents=True)
    (tmp_path / "root" / "notes.txt").write_text("alpha\nbeta\n")
    for name in ("outside", "root-evil", "root2"):
        (tmp_path / name / "folder").mkdir(parents=True)
        (tmp_path / name / "secret.txt").write_text(SECRET)
        (tmp_path / name / "folder" / "secret.txt").write_text(SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    found = World(tmp_path / "root", tmp_path / "outside", _outside(tmp_path))
    yield found
    found.check()


def _outside(folder: Path) -> dict[str, Any]:
    return {name: found for name, found in snapshot(folder).items() if name.partition("/")[0] not in _ROOTS}


_ROOTS = ("root", "root-moved")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One for each test."""
    with made_world(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def still_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all tests that change nothing in it."""
    with made_world(tmp_path_factory.mktemp("still")) as found:
        yield found


EDITING: list[dict[str, Any]] = [
    {"command": "view"},
    {"command": "create", "file_text": "evil"},
    {"command": "str_replace", "old_str": "secret", "new_str": "evil"},
    {"command": "insert", "insert_line": 0, "insert_text": "evil"},
]


def memory_inputs(path: str) -> list[dict[str, Any]]:
    """Every command of the memory tool on a path."""
    return [
        *({**input, "path": path} for input in EDITING),
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": f"{ROOT}/moved"},
        {"command": "rename", "old_path": f"{ROOT}/notes.txt", "new_path": path},
    ]


async def answer(tool: Tool, input: Mapping[str, Any]) -> str:
    """What a tool says, whether it went well or not."""
    try:
        response = await tool.call(dict(input))
    except ToolError as error:
        return str(error)
    assert isinstance(response, ToolResponse)
    return f"{response.reason or ''}{response.text}"


@lru_cache(maxsize=1)  # the still world is attacked many times
def tools_on(root: Path) -> tuple[tuple[str | None, Tool], ...]:
    """The tools for one folder, which they call by a name, or not."""
    kinds = (TextEditor, EagerTextEditor)
    return tuple((name, kind(root, root_name=name)) for kind in kinds for name in (None, ROOT))


def named_tools(world: World) -> tuple[Tool, ...]:
    """The tools that call the root by its name."""
    return TextEditor(world.root, root_name=ROOT), EagerTextEditor(world.root, root_name=ROOT), Memory(world.root)


async def refused(world: World, what: str, path: str) -> str:
    """Try a path with a file tool, of which nothing can succeed; what it says."""
    tools = {tool.name: tool for tool in Files(world.root)}
    try:
        response = await tools[what.partition(" ")[0]].call({"path": path, **INPUTS[what]})
    except ToolError as error:
        return str(error)
    assert response.code is not None
    return str(response.text)


async def attack(world: World, path: str) -> list[str]:
    """Try a path, relative to the root or absolute, with every command of every tool; what they say."""
    said: list[str] = []
    for name, tool in tools_on(world.root):
        at = path if name is None or path.startswith("/") else f"{name}/{path}"
        said += [await answer(tool, {**input, "path": at}) for input in EDITING]
    said += [await refused(world, what, path) for what in INPUTS]
    memory = Memory(world.root)
    for at in (path,) if path.startswith("/") else (path, f"{ROOT}/{path}"):
        said += [await answer(memory, input) for input in memory_inputs(at)]
    for told in said:
        # A path may be repeated to the model that wrote it; what is behind it may not.
        assert SECRET not in told
        assert str(world.root.parent) not in told.replace(path, "").replace(repr(path)[1:-1], "")
        assert "Traceback" not in told
    return said


# --- paths ------------------------------------------------------------------------------------------------------------

OUT = [
    "../outside/secret.txt",  # parent
    "inner/../../outside/secret.txt",  # parent-inside
    "inner/../notes.txt",  # parent-that-stays-inside
    "..",  # parent-alone
    "./../outside/secret.txt",  # dot-parent
    "inner//..//..//outside/secret.txt",  # doubled-slashes
    "../" * 30 + "etc/passwd",  # far-up
    "..\\outside\\secret.txt",  # backslashes
    "inner\\..\\..\\outside\\secret.txt",  # backslashes-inside
    "..\\/outside/secret.txt",  # backslash-and-slash
    "C:\\windows\\win.ini",  # drive
    "\\\\server\\share",  # unc
    "%2e%2e/outside/secret.txt",  # encoded-dots
    "%2e%2e%2foutside%2fsecret.txt",  # encoded-dots-and-slash
    "%2E%2e%2Foutside%2Fsecret.txt",  # encoded-mixed-case
    "..%2foutside%2fsecret.txt",  # encoded-slash
    "..%5coutside%5csecret.txt",  # encoded-backslash
    ".%2e/outside/secret.txt",  # half-encoded
    "%252e%252e%252foutside",  # encoded-twice
    "%25252e%25252e%25252foutside",  # encoded-three-times
    "%" + "25" * 20 + "2e" + "%" + "25" * 20 + "2e/outside",  # encoded-twenty-times
    "%c0%ae%c0%ae/outside/secret.txt",  # overlong-dots
    "%C0%AE%C0%AE%C0%AFoutside",  # overlong-dots-and-slash
    "%25c0%25ae%25c0%25ae/outside",  # overlong-encoded-twice
    "%e0%80%ae%e0%80%ae/outside",  # overlong-three-bytes
    "%f0%80%80%ae%f0%80%80%ae/outside",  # overlong-four-bytes
    "..%00/outside/secret.txt",  # encoded-nul
    "notes.txt\0",  # nul-at-the-end
    "notes.txt\0/../../outside/secret.txt",  # nul-inside
    "notes.txt%00.png",  # encoded-nul-inside
    "notes.txt\nevil",  # line-end
    "notes.txt\x1b[2J",  # escape-sequence
    "\uff0e\uff0e/outside/secret.txt",  # fullwidth-dots
    "\uff0e\uff0e\uff0foutside",  # fullwidth-dots-and-slash
    "\u2025/outside/secret.txt",  # two-dot-leader
    "\u2024\u2024/outside/secret.txt",  # one-dot-leaders
    "\ud800/../outside",  # half-a-surrogate-pair
    "/etc/passwd",  # absolute
    "//etc/passwd",  # absolute-two-slashes
    "/",  # root-of-the-system
    "/proc/self/root/etc/passwd",  # proc-root
    "/proc/self/cwd",  # proc-cwd
    "/proc/self/environ",  # proc-environ
    "/dev/fd/0",  # dev-fd
    "/memories-evil/secret.txt",  # sibling-of-the-name
    "/memoriesevil",  # name-as-a-prefix
    "/memories/../outside/secret.txt",  # parent-of-the-name
    "a/" * (MAX_DEPTH + 1) + "b",  # too-deep
    "a/" * 2047 + "b",  # very-deep
    "x" * 5000,  # huge
]


def test_paths_that_lead_out(still_world: World) -> None:
    """None is taken, by any command of any tool, and nothing changes inside either."""
    before = snapshot(still_world.root)

    async def try_all() -> None:
        for path in OUT:
            with case(path):
                for said in await attack(still_world, path):
                    assert re.match(r"Error: (the path|a path|`(old_|new_)?path`)", said), said
                assert snapshot(still_world.root) == before

    anyio.run(try_all)


@rows("path", ["{0}/root-evil", "{0}/root2", "{0}/outside", "{0}/root/../outside", "//{0}/outside"])
def test_absolute_paths_of_siblings(still_world: World, path: str) -> None:
    """A folder whose path begins with that of the root is another folder."""
    for said in anyio.run(attack, still_world, f"{path.format(still_world.root.parent)}/secret.txt"):
        assert said.startswith(("Error: the path", "Error: `")), said


@rows("path", [*OUT, ""])
def test_the_jail_itself(still_world: World, path: str) -> None:
    """It is the jail that refuses, not what is built on it."""
    for name in (None, ROOT):
        with pytest.raises(ToolError):
            Jail(still_world.root, name=name).parts(path)


_ODD = (
    "...",
    "..a",
    "a..",
    "100%",
    "100%25",
    "50%2",
    "~",
    "~root",
    "$HOME",
    "a b",
    "日本",
    "é",
    "-rf",
    "*",
    ".hidden",
    "`id`",
    "a;b",
    "C:x",
    ".. ",
)


@pytest.mark.anyio
async def test_odd_names_are_names(world: World) -> None:
    """What only looks like more than a name is one, and is found again under it."""
    tools = named_tools(world)
    for name in (*_ODD, "x" * 255):
        path = f"{ROOT}/{name}"
        for tool in tools:
            with case(tool.name, name):
                assert "created" in await answer(tool, {"command": "create", "path": path, "file_text": "hello"})
                assert (world.root / name).read_text() == "hello"
                assert "1\thello" in await answer(tool, {"command": "view", "path": path})
                (world.root / name).unlink()
        files = Files(world.root)
        assert (await answer_of(files.write, path=name, content="hello")).data["written"]
        assert (world.root / name).read_text() == "hello"
        assert (await answer_of(files.read, path=name)).data["content"] == "hello"


@pytest.mark.anyio
async def test_names_that_the_system_refuses(world: World) -> None:
    """A name that is too long is told in words, and leaves no folder behind that was made on the way to it."""
    before = snapshot(world.root)
    for path in ("x" * 256, "new/" + "x" * 256, "new/" + "x" * 256 + "/y"):
        assert all("File name too long" in said for said in await attack_inside(world, path))
    assert snapshot(world.root) == before


async def attack_inside(world: World, path: str) -> list[str]:
    """As `attack`, of a place inside the root, and by the commands that would make or read a file."""
    tools = named_tools(world)
    said: list[str] = []
    for tool in tools:
        for input in EDITING[:2]:
            said.append(await answer(tool, {**input, "path": f"{ROOT}/{path}"}))
    if path.startswith("new/"):  # nothing can be seen in a folder that is not there
        return [each for each in said if "not exist" not in each and "not found" not in each]
    return said


# --- links and other things -------------------------------------------------------------------------------------------


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _socket(path: Path) -> None:
    where = Path.cwd()
    os.chdir(path.parent)  # the address of a socket has 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(where)


def _device(path: Path) -> None:
    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends


def emptied(world: World) -> None:
    """Put into the root what was in it at first."""
    for path in world.root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (world.root / "inner").mkdir()
    (world.root / "notes.txt").write_text("alpha\nbeta\n")


@rows("below", ["", "/secret.txt", "/new.txt"])
@rows(
    "make",
    [
        _link("../outside/secret.txt"),
        _link("../outside"),
        _link("/etc"),
        _link(".."),
        _link("notes.txt"),
        _link("../outside/new.txt"),
        _link("/proc/self/cwd"),
        _link("/dev/zero"),
        _loop,
        os.mkfifo,
        _socket,
        *([_device] if os.geteuid() == 0 else []),  # only root makes devices
    ],
)
def test_what_is_no_file_and_no_folder(world: World, make: Callable[[Path], None], below: str) -> None:
    """It is not followed, not waited for, not written to, not read; what the memory may do is to delete a link."""
    emptied(world)
    make(world.root / "trap")
    said = anyio.run(attack, world, f"trap{below}")
    before_delete = said[: next((at for at, each in enumerate(said) if "deleted" in each), len(said))]
    assert not [each for each in before_delete if "uccessfully" in each]
    world.check()


@pytest.mark.anyio
async def test_a_listing_does_not_follow_links(world: World) -> None:
    """They are named for what they are."""
    (world.root / "inner" / "out").symlink_to("../../outside")
    for tool in named_tools(world):
        said = await answer(tool, {"command": "view", "path": ROOT})
        assert f"{ROOT}/inner/out (symbolic link)" in said
        assert "secret" not in said


@pytest.mark.anyio
async def test_names_that_look_like_several_entries(world: World) -> None:
    """A file that somebody else named stays one line of a listing."""
    (world.root / "a\n4K\tfake").touch()
    (world.root / os.fsdecode(b"\xff\xfe")).touch()
    (world.root / "b\u2028c").touch()
    said = await answer(Memory(world.root), {"command": "view", "path": ROOT})
    assert "/memories/a\\n4K\\tfake\n" in said
    assert len(said.splitlines()) == 1 + 1 + 5
    said.encode()


@pytest.mark.anyio
async def test_a_hard_link_is_left_behind(world: World) -> None:
    """A write makes a new file: the other name of the old one, outside, keeps the old content."""
    for tool in named_tools(world):
        linked = world.root / "linked.txt"
        linked.unlink(missing_ok=True)
        os.link(world.outside / "secret.txt", linked)
        edit = {"command": "str_replace", "path": f"{ROOT}/linked.txt", "old_str": "secret", "new_str": "evil"}
        assert "edited" in (said := await answer(tool, edit)) or "replaced" in said
        assert linked.read_text() == SECRET.replace("secret", "evil")
        assert (world.outside / "secret.txt").read_text() == SECRET


@pytest.mark.anyio
async def test_deleting_a_folder_with_links_in_it(world: World) -> None:
    """The links go, what they point to stays."""
    (world.root / "inner" / "out").symlink_to(world.outside)
    (world.root / "inner" / "file").symlink_to(world.outside / "secret.txt")
    assert await answer(Memory(world.root), {"command": "delete", "path": f"{ROOT}/inner"}) == (
        f"Successfully deleted {ROOT}/inner"
    )
    assert not (world.root / "inner").exists()


# --- things that change meanwhile -------------------------------------------------------------------------------------


@contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[list[int]]:
    """Do something over and over, in a thread; the list holds how often."""
    over = threading.Event()
    count = [0]

    def loop() -> None:
        while not over.is_set():
            with suppress(OSError):  # what is tried meanwhile may be in the way
                step()
            count[0] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def swapping(world: World) -> Callable[[], None]:
    """Put a link to the outside in the place of a folder, and take it away again."""
    place, aside = world.root / "inner", world.root / "aside"

    def step() -> None:
        if not aside.exists():
            place.rename(aside)
        place.symlink_to(world.outside)
        place.unlink()
        aside.rename(place)

    def step_and_mend() -> None:
        try:
            step()
        except OSError:
            shutil.rmtree(place)  # made anew while it was away; a link is no folder to it

    return step_and_mend


swaps_a_place = pytest.mark.parametrize(
    "swaps", [pytest.param(500, marks=pytest.mark.slow), pytest.param(20_000, marks=pytest.mark.nightly)]
)


@swaps_a_place
def test_a_folder_that_becomes_a_link_and_back(world: World, swaps: int) -> None:
    """Between any check and any use: what is opened is what was looked at, so nothing outside is read or written."""
    jail = Jail(world.root)
    (world.root / "inner" / "secret.txt").write_text("inside")
    answers: set[bytes] = set()

    parts = ("inner", "secret.txt")
    with meanwhile(swapping(world)) as count:
        while count[0] < swaps:
            for act in (
                lambda: answers.add(jail.read(parts)[0]),
                lambda: jail.write(parts, b"inside"),
                lambda: jail.create(("inner", "folder", "new.txt")).discard(),
                lambda: jail.rename(parts, ("inner", "moved.txt")),
                lambda: jail.rename(("inner", "moved.txt"), parts),
                lambda: answers.update(str(entry.parts).encode() for entry in jail.walk((), depth=3, max_entries=50)),
                lambda: jail.remove(("inner", "folder")),
            ):
                with suppress(OSError, ToolError):
                    act()
    assert str(("notes.txt",)).encode() in answers
    assert not any(SECRET.encode() in each for each in answers)


@swaps_a_place
def test_a_file_that_becomes_a_link_and_back(world: World, swaps: int) -> None:
    """The same with the file itself."""
    jail = Jail(world.root)
    place, aside = world.root / "notes.txt", world.root / "aside"
    answers: set[bytes] = set()

    def step() -> None:
        with suppress(FileNotFoundError):
            place.rename(aside)
        with suppress(FileExistsError):
            place.symlink_to(world.outside / "secret.txt")
        with suppress(FileNotFoundError):
            place.unlink()
        with suppress(FileNotFoundError):
            aside.rename(place)

    with meanwhile(step) as count:
        while count[0] < swaps:
            for act in (
                lambda: answers.add(jail.read(("notes.txt",))[0]),
                lambda: jail.write(("notes.txt",), b"written"),
                lambda: jail.create(("notes.txt",)).commit(),
                lambda: jail.stat(("notes.txt",)),
                lambda: jail.remove(("notes.txt",)),
            ):
                with suppress(OSError, ToolError):
                    act()
    assert not any(SECRET.encode() in each for each in answers)
    assert not [path.name for path in world.root.iterdir() if path.name.endswith(".part")]


@rows(
    "make, told",
    [(_link("../outside/secret.txt"), "is a symbolic link"), (os.mkfifo, "is no regular file")],
)
def test_between_the_look_and_the_opening(
    world: World, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], told: str
) -> None:
    """The worst moment for a file to become something else: after it was found to be one."""
    emptied(world)
    jail, place = Jail(world.root), world.root / "notes.txt"
    look = os.stat

    def look_and_swap(name: Any, **options: Any) -> os.stat_result:
        found = look(name, **options)
        if name == "notes.txt" and stat.S_ISREG(found.st_mode):
            os.unlink("notes.txt", dir_fd=options["dir_fd"])
            make(place)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look_and_swap)
        with pytest.raises(ToolError, match=told):
            jail.read(("notes.txt",))
    place.unlink()
    place.touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look_and_swap)
        with suppress(ToolError):
            jail.write(("notes.txt",), b"evil")


@pytest.mark.anyio
async def test_tools_while_a_folder_becomes_a_link(world: World) -> None:
    """Whole commands, too, with their several steps."""
    (world.root / "inner" / "secret.txt").write_text("inside")
    tools = named_tools(world)
    path = f"{ROOT}/inner/secret.txt"
    said: set[str] = set()
    with meanwhile(swapping(world)) as count:
        while count[0] < 100:
            for tool in tools:
                for input in EDITING:
                    said.add(await answer(tool, {**input, "path": path}))
    assert not any(SECRET in each for each in said)


def test_the_root_is_moved(world: World) -> None:
    """The folder that it was stays the jail, wherever it goes; what stands in its old place is not looked at."""
    jail = Jail(world.root)
    moved = world.root.with_name("root-moved")
    world.root.rename(moved)
    world.root.symlink_to(world.outside)
    jail.write(("new.txt",), b"new")
    assert (moved / "new.txt").read_bytes() == b"new"
    assert jail.read(("notes.txt",))[0] == b"alpha\nbeta\n"
    with pytest.raises(FileNotFoundError):
        jail.read(("secret.txt",))


@pytest.mark.anyio
async def test_the_root_is_removed(world: World) -> None:
    """Everything is told in words, and nothing is made anywhere."""
    tools = named_tools(world)
    shutil.rmtree(world.root)
    for tool in tools:
        for input in EDITING:
            assert (await answer(tool, {**input, "path": f"{ROOT}/a/b.txt"})).startswith(("Error: ", "The path "))
        assert (await answer(tool, {"command": "view", "path": ROOT})).endswith(f"\t{ROOT}")
    assert not world.root.exists()


_IN_THE_WAY = [
    {"command": "delete", "path": ROOT},
    {"command": "delete", "path": f"{ROOT}/"},
    {"command": "delete", "path": f"{ROOT}/./."},
    {"command": "rename", "old_path": ROOT, "new_path": f"{ROOT}/inner/x"},
    {"command": "rename", "old_path": f"{ROOT}/inner", "new_path": ROOT},
    {"command": "create", "path": f"{ROOT}/", "file_text": ""},
    {"command": "rename", "old_path": f"{ROOT}/inner", "new_path": f"{ROOT}/notes.txt"},
    {"command": "rename", "old_path": f"{ROOT}/notes.txt", "new_path": f"{ROOT}/inner"},
    {"command": "rename", "old_path": f"{ROOT}/notes.txt", "new_path": f"{ROOT}/notes.txt"},
    {"command": "rename", "old_path": f"{ROOT}/notes.txt", "new_path": f"{ROOT}/notes.txt/x"},
    {"command": "rename", "old_path": f"{ROOT}/inner", "new_path": f"{ROOT}/inner/x/y"},
    {"command": "rename", "old_path": f"{ROOT}/inner", "new_path": f"{ROOT}/" + "d/" * (MAX_DEPTH - 1) + "x"},
]


@pytest.mark.anyio
async def test_the_root_and_things_in_the_way(world: World) -> None:
    """Nothing is written over, put into itself, taken from under the tool, or put where nothing can reach it."""
    (world.root / "inner" / "child").mkdir()
    before = snapshot(world.root)
    for input in _IN_THE_WAY:
        with case(input):
            assert (await answer(Memory(world.root), input)).startswith("Error: ")
            assert snapshot(world.root) == before


def test_a_file_that_grows_while_it_is_read(world: World) -> None:
    """No more is read than may be."""
    jail = Jail(world.root)
    path = world.root / "log"
    path.touch()

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"x" * 1000)
        if path.stat().st_size > 100_000:
            os.truncate(path, 0)

    with meanwhile(grow) as count:
        while count[0] < 200:
            with suppress(ToolError):
                assert len(jail.read(("log",), max_bytes=5000)[0]) <= 5000
    os.truncate(path, MAX_FILE_BYTES + 1)  # sparse
    with pytest.raises(ToolError, match="larger than"):
        jail.read(("log",))


# --- handles ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@needs_proc
async def test_no_handle_is_left_open(world: World) -> None:
    """Neither by what succeeds nor by what fails, in whatever way."""
    (world.root / "link").symlink_to("../outside")
    (world.root / "binary").write_bytes(b"\xff\0")
    os.mkfifo(world.root / "fifo")
    tools = named_tools(world)
    paths = ("notes.txt", "inner", "link", "link/x", "fifo", "notes.txt/x", "new/a/b", "binary", "", "x" * 256, "../x")

    async def everything() -> None:
        for tool in tools:
            for path in paths:
                for input in memory_inputs(f"{ROOT}/{path}"):
                    await answer(tool, {"path": f"{ROOT}/{path}", **input}) if isinstance(tool, Memory) else None
                for input in EDITING:
                    await answer(tool, {**input, "path": f"{ROOT}/{path}"})
        jail = Jail(world.root)
        for parts in ((), ("inner",), ("link",)):
            with suppress(OSError, ToolError):
                jail.read(parts)
            next(jail.walk((), depth=2, max_entries=5), None)

    before = handles_in(world.root)
    await everything()
    gc.collect()
    assert handles_in(world.root) == before
