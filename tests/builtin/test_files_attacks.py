"""What a hostile model asks of the file tools: nothing outside is read or written, and nothing is told of it."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eagerstream.builtin import Files, Write
from eagerstream.errors import ToolError
from eagerstream.tools import TextStream, ToolErrorCode, ToolResponse
from tests.builtin.files_calls import INPUTS, answer_of, attack, attacked, executing, tree

MIB = 1024 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The folder of the model, in a world in which nothing else may change."""
    with attacked(tmp_path) as folder:
        yield folder


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../secret.txt", id="one up"),
        pytest.param("x/../../secret.txt", id="down and up"),
        pytest.param("./.././secret.txt", id="dots between"),
        pytest.param("..//secret.txt", id="two slashes"),
        pytest.param("..\\secret.txt", id="backslash"),
        pytest.param("..%2fsecret.txt", id="percent-encoded slash"),
        pytest.param("%2e%2e/secret.txt", id="percent-encoded dots"),
        pytest.param("%252e%252e/secret.txt", id="encoded twice"),
        pytest.param("a.txt\0/../../secret.txt", id="NUL"),
        pytest.param("{outside}/secret.txt", id="absolute"),
        pytest.param("{outside}/root/../secret.txt", id="absolute, through the root"),
        pytest.param("{outside}/root-sibling/secret.txt", id="a folder whose name begins as the root's"),
        pytest.param("//{outside}/secret.txt", id="a network path"),
        pytest.param("/etc/passwd", id="the host's"),
        pytest.param("/proc/self/environ", id="the process's"),
        pytest.param("/proc/self/root/etc/passwd", id="through a process"),
        pytest.param("\ud800/../secret.txt", id="half a surrogate pair"),
        pytest.param("..%c0%afsecret.txt", id="overlong"),
        pytest.param("\u2025/secret.txt", id="two dots in one character"),
        pytest.param("", id="empty"),
        pytest.param("x/" * 5000, id="very long"),
    ],
)
@pytest.mark.anyio
async def test_paths_that_lead_out(root: Path, path: str) -> None:
    """However they are spelled, and nothing is made on the way."""
    before = tree(root)
    files = Files(root)
    for what in INPUTS:
        await attack(files, what, path.replace("{outside}", str(root.parent)))
        assert tree(root) == before


@pytest.mark.parametrize("path", ["~/x", "$HOME/x", "`id`", "a;b", "*", "C:x", "-rf", ".. ", "..."])
@pytest.mark.anyio
async def test_names_that_are_only_odd(root: Path, path: str) -> None:
    """Nothing expands them: they are names inside the root."""
    files = Files(root)
    assert (await answer_of(files.write, path=path, content="x")).data["written"]
    assert (root / path).read_text() == "x"
    assert (await answer_of(files.read, path=path)).data["content"] == "x"


# --- links and other things that are no files -------------------------------------------------------------------------


def link_to_file(root: Path) -> str:
    (root / "link").symlink_to(root.parent / "secret.txt")
    return "link"


def link_inside(root: Path) -> str:
    (root / "link").symlink_to("a.txt")
    return "link"


def link_to_folder(root: Path) -> str:
    (root / "link").symlink_to(root.parent / "folder")
    return "link/secret.txt"


def folder_that_is_a_link(root: Path) -> str:
    (root / "link").symlink_to(root.parent / "folder")
    return "link"


def link_to_nothing(root: Path) -> str:
    (root / "link").symlink_to(root.parent / "new.txt")
    return "link"


def link_to_itself(root: Path) -> str:
    (root / "link").symlink_to("link")
    return "link/x"


def pipe(root: Path) -> str:
    os.mkfifo(root / "pipe")
    return "pipe"


def unix_socket(root: Path) -> str:
    here = Path.cwd()
    os.chdir(root)  # its path has to be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
    finally:
        os.chdir(here)
    return "socket"


@pytest.mark.parametrize(
    "make",
    [
        link_to_file,
        link_inside,
        link_to_folder,
        folder_that_is_a_link,
        link_to_nothing,
        link_to_itself,
        pipe,
        unix_socket,
    ],
)
@pytest.mark.anyio
async def test_no_files(root: Path, make: Callable[[Path], str]) -> None:
    """No link is followed, and no pipe waited for."""
    path = make(root)
    before = tree(root)
    files = Files(root)
    for what in INPUTS:
        await attack(files, what, path)
        assert tree(root) == before


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_file_that_is_huge(root: Path) -> None:
    """It is not read; replacing it is another matter, and needs its version."""
    size = 64 * 1024 * MIB
    with (root / "huge").open("wb") as file:
        file.truncate(size)
    files = Files(root)
    for what in INPUTS:
        await attack(files, what, "huge")
        assert (root / "huge").stat().st_size == size
    mtime = (root / "huge").stat().st_mtime_ns // 1_000_000
    assert (await answer_of(files.write, path="huge", content="small", file_mtime_ms=mtime)).data["written"]


@pytest.mark.parametrize("path", ["a.txt", "new/new.txt"])
@pytest.mark.anyio
async def test_a_content_that_is_huge(root: Path, path: str) -> None:
    """It is refused when it is over the bound, and nothing of it stays."""
    before = tree(root)
    with pytest.raises(ToolError, match=f"{path} would be larger than 16,777,216 bytes"):
        await Files(root, require_read=False).write(path, TextStream.of("\u20ac" * (6 * MIB)))
    assert tree(root) == before


@pytest.mark.anyio
async def test_edits_that_make_a_file_huge(root: Path) -> None:
    """The bound is the same."""
    (root / "a.txt").write_bytes(b"x" * (10 * MIB) + b"y")
    before = tree(root)
    with pytest.raises(ToolError, match="would be larger than"):
        await Files(root).edit("a.txt", "y", "z" * (7 * MIB))
    assert tree(root) == before


@pytest.mark.anyio
async def test_a_file_of_line_ends(root: Path) -> None:
    """Many lines are no reason to take long, or much memory, over one of them."""
    (root / "a.txt").write_bytes(b"\n" * (4 * MIB))
    response = await answer_of(Files(root).read, path="a.txt", offset=4 * MIB - 1)
    assert (response.data["lines"], response.data["total_lines"]) == (1, 4 * MIB)


@pytest.mark.anyio
async def test_an_offset_that_is_huge(root: Path) -> None:
    """Numbers have their bounds."""
    files = Files(root)
    for path in ("a.txt", "."):
        async with executing(files.tools) as writings:
            call = writings.whole("Read", json.dumps({"path": path, "offset": 10**30}))
            assert (await call.answered())[1].startswith("Error: Invalid parameter 'offset'")


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_nothing_is_logged(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Contents, arguments and paths have no place in a log."""
    caplog.set_level(logging.DEBUG)
    files = Files(root)
    for what in INPUTS:
        await attack(files, what, "../secret.txt")
    await answer_of(files.read, path="a.txt")
    assert not [record for record in caplog.records if record.name.startswith("eagerstream")]
    assert "inside" not in caplog.text


@pytest.mark.anyio
async def test_no_place_to_write(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says is told without the host's paths; the old content stays."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device", str(root / "a.txt"))

    files = Files(root, require_read=False)
    before = tree(root)
    monkeypatch.setattr(os, "write", full)
    response: ToolResponse = await files.write("a.txt", TextStream.of("evil"))
    monkeypatch.undo()
    assert (response.code, response.text) == (
        ToolErrorCode.INTERNAL_ERROR,
        "'a.txt' could not be used: No space left on device",
    )
    assert tree(root) == before


@pytest.mark.parametrize("backups", [False, True])
@pytest.mark.anyio
async def test_a_change_that_fails_in_the_end(root: Path, monkeypatch: pytest.MonkeyPatch, backups: bool) -> None:
    """A backup would be of something that was never replaced: it goes again."""

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(root))

    files = Files(root, require_read=False, backups=backups)
    monkeypatch.setattr(os, "replace", fail)
    response: ToolResponse = await files.write("a.txt", TextStream.of("evil"))
    monkeypatch.undo()
    assert (response.code, response.text) == (ToolErrorCode.PERMISSION_DENIED, "No permission for 'a.txt'")
    assert {name: found for name, found in tree(root).items() if found is not None} == {"a.txt": b"inside"}


@pytest.mark.anyio
async def test_a_write_that_must_be_approved(root: Path) -> None:
    """It begins only with its whole input, and a refusal leaves nothing."""
    seen: list[str] = []

    async def ask(call: Any) -> bool:
        seen.append(call.input.value["content"])
        return False

    before = tree(root)
    files = Files(root)
    async with executing([Write(files, approve=ask)]) as writings:
        is_error, _ = await writings.whole("Write", '{"path": "b.txt", "content": "evil"}').answered()
    assert (is_error, seen) == (True, ["evil"])
    assert tree(root) == before
