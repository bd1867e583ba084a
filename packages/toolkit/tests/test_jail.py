"""`Jail` and `GrowingFile`: what they do for those who mean well; `test_jail_attacks` is about the others."""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from packages.toolkit.tests.support import handles_in, needs_proc
from tests.tables import rows

from eagerstream.errors import ToolError, UsageError
from eagerstream.tools import Tool, ToolOptions
from eagerstream_toolkit import EagerTextEditor, Files, Jail, Memory, TextEditor, Write
from eagerstream_toolkit._growing_file import MAX_FILE_BYTES
from eagerstream_toolkit._paths import MAX_DEPTH


@pytest.fixture
def jail(tmp_path: Path) -> Jail:
    return Jail(tmp_path)


@rows("path", ["a/b", "./a/b", "a//b/", "{root}/a/b", "{root}/./a//b"])
def test_paths(jail: Jail, tmp_path: Path, path: str) -> None:
    """Relative, or from the folder's own path; however they are written, they name one place."""
    assert jail.parts(path.format(root=tmp_path)) == ("a", "b")
    assert Jail(tmp_path, name="/repo").parts("/repo/a/b") == ("a", "b")


def test_what_places_are_called(jail: Jail, tmp_path: Path) -> None:
    """Never by a path of this machine."""
    assert [jail.shown(()), jail.shown(("a", "b"))] == [".", "a/b"]
    named = Jail(tmp_path, name="/repo")
    assert [named.shown(()), named.shown(("a", "b"))] == ["/repo", "/repo/a/b"]


def test_a_folder_behind_a_link(tmp_path: Path) -> None:
    """The one who sets the jail up may name it by a link; the model may use either path."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    jail = Jail(tmp_path / "link")
    for name in ("real", "link"):
        assert jail.parts(str(tmp_path / name / "a")) == ("a",)


def test_a_file_grows_and_stays(jail: Jail, tmp_path: Path) -> None:
    """Each piece is there at once; after the end nothing is done any more."""
    file = jail.create(("new", "a.txt"))
    file.write(b"one")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"one"
    file.write(b"two")
    assert file.commit().st_size == 6
    file.discard()
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"onetwo"
    with pytest.raises(FileExistsError):
        jail.create(("new", "a.txt"))


def test_folders_that_were_made_in_vain(jail: Jail, tmp_path: Path) -> None:
    """They go with the file, but for those that somebody has put something into."""
    first, second = jail.create(("a", "b", "c", "one")), jail.create(("a", "x", "two"))
    first.discard()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "two", "x"]
    second.discard()
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]  # it was not made for the second


def test_replacing_keeps_what_a_file_is(jail: Jail, tmp_path: Path) -> None:
    """Its permissions and its owner, but no bits that would run it as somebody else."""
    path = tmp_path / "a"
    path.write_text("old")
    if os.geteuid() == 0:
        os.chown(path, 1234, 1235)
    path.chmod(0o4750)
    before = path.stat()
    jail.write(("a",), b"new")
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o750
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert path.read_bytes() == b"new"


def test_what_replaces_a_secret_is_one(jail: Jail, tmp_path: Path) -> None:
    """Also while it is written: others can see it grow in the folder, and may not read it."""
    (tmp_path / "key").write_text("old")
    (tmp_path / "key").chmod(0o600)
    file = jail.replace(("key",))
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    file.discard()


def test_reading_a_folder(jail: Jail, tmp_path: Path) -> None:
    """It is told as what it is."""
    (tmp_path / "folder").mkdir()
    for parts in ((), ("folder",)):
        with pytest.raises(IsADirectoryError):
            jail.read(parts)


def test_the_largest_file(jail: Jail, tmp_path: Path) -> None:
    """The bound itself is allowed, in one piece or in several, and nothing stays of what is over it."""
    jail.write(("a",), bytes(MAX_FILE_BYTES))
    assert len(jail.read(("a",))[0]) == MAX_FILE_BYTES
    file = jail.create(("b",))
    file.write(bytes(MAX_FILE_BYTES))
    with pytest.raises(ToolError, match="b would be larger than"):
        file.write(b"x")
    file.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_walking(jail: Jail, tmp_path: Path) -> None:
    """By name, the contents of a folder behind it; no deeper and no more than asked for."""
    for name in ("b/2/x", "b/1", "a", "c/skipped/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("12")

    def names(*, depth: int = 2, max_entries: int = 99) -> list[str]:
        found = jail.walk((), depth=depth, max_entries=max_entries, skip=lambda name: name == "skipped")
        return ["/".join(entry.parts) for entry in found]

    assert names() == ["a", "b", "b/1", "b/2", "c"]
    assert names(depth=3) == ["a", "b", "b/1", "b/2", "b/2/x", "c"]
    assert names(depth=1, max_entries=2) == ["a", "b"]
    assert [(entry.size, entry.is_folder) for entry in jail.walk((), depth=1, max_entries=1)] == [(2, False)]


def test_renaming_goes_no_deeper_than_paths_do(jail: Jail, tmp_path: Path) -> None:
    """What lies in a folder that is moved can still be named, and so deleted."""
    jail.write((*("d",) * 9, "x"), b"")
    deepest = ("e",) * (MAX_DEPTH - 9)
    with pytest.raises(ToolError, match="too deep"):
        jail.rename(("d",), (*deepest, "d"))
    assert not (tmp_path / "e").exists()
    jail.rename(("d",), deepest)
    assert jail.read((*deepest, *("d",) * 8, "x"))[0] == b""


@rows("name", ["repo", "/repo/", "/"])
def test_wrong_names(tmp_path: Path, name: str) -> None:
    """They are told when the jail is made."""
    with pytest.raises(UsageError):
        Jail(tmp_path, name=name)


def test_tools_on_one_folder_take_turns(tmp_path: Path) -> None:
    """Whichever they are, and by whatever path they were given it; others are not waited for."""
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    on_a: list[Tool] = [TextEditor(tmp_path / "a"), EagerTextEditor(tmp_path / "link"), Memory(tmp_path / "a")]
    on_a += Files(tmp_path / "a").tools
    assert len({tool.group for tool in on_a}) == 1
    assert TextEditor(tmp_path).group != on_a[0].group
    assert TextEditor(tmp_path, group="mine").group != TextEditor(tmp_path).group


@rows("folder", ["", "a\0b", __file__, "/does/not/exist"])
@rows("tool", [Jail, Files, TextEditor])
def test_no_folder(tool: Callable[[str], object], folder: str) -> None:
    """None is made. A name that was left empty by mistake does not mean the folder that the program stands in."""
    with pytest.raises(UsageError, match="is not a folder"):
        tool(folder)


def test_options_that_are_none(tmp_path: Path) -> None:
    """As if they were not given."""
    options: ToolOptions = {"name": None, "group": None}
    files = Files(tmp_path)
    tools = [Write(files, **options), EagerTextEditor(tmp_path, **options)]
    assert [tool.name for tool in tools] == ["Write", "text_editor"]
    assert {tool.group and tool.group.name for tool in tools} == {files.group}


@needs_proc
def test_a_jail_gives_its_handles_back(tmp_path: Path) -> None:
    """Its own, and one for each folder that is walked."""
    for name in ("a/b/c", "d/e"):
        (tmp_path / name).mkdir(parents=True)
    for _ in range(20):
        assert len(list(Jail(tmp_path).walk((), max_entries=100))) >= 2
    gc.collect()
    assert handles_in(tmp_path) == []


def test_moving_a_folder_into_itself(jail: Jail, tmp_path: Path) -> None:
    """It is refused in words; a place is not taken from itself either, and nothing takes the place of the jail."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(ToolError, match="a/b/c is inside a"):
        jail.rename(("a",), ("a", "b", "c"))
    with pytest.raises(FileExistsError):
        jail.rename(("a",), ("a",))
    with pytest.raises(ToolError, match="itself cannot be changed"):
        jail.rename(("a",), ())


def test_the_status_of_a_link_is_not_told(jail: Jail, tmp_path: Path) -> None:
    """Neither of the link itself nor of what it leads to."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ToolError, match="link"):
        jail.stat(("link",))
