"""What a hostile model asks of the file tools, beside the paths and links of `test_jail_attacks`."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages.toolkit.tests.files_calls import INPUTS, answer_of, attack, attacked, executing, mtime_ms, tree

from eagerstream.errors import ToolError
from eagerstream.tools import TextStream, ToolErrorCode, ToolResponse
from eagerstream_toolkit import Files, Write

MIB = 1024 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """The folder of the model, in a world in which nothing else may change."""
    with attacked(tmp_path) as folder:
        yield folder


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
    mtime = mtime_ms(root / "huge")
    assert (await answer_of(files.write, path="huge", content="small", file_mtime_ms=mtime)).data["written"]


@pytest.fixture
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may have a MiB, and not 16: 16 take a sixth of a second to encode and write."""
    for module in ("_growing_file", "_files.change"):
        monkeypatch.setattr(f"eagerstream_toolkit.{module}.MAX_FILE_BYTES", MIB)


@pytest.mark.anyio
async def test_a_content_that_is_huge(root: Path, small_bound: None) -> None:
    """It is refused when it is over the bound, and nothing of it stays."""
    before = tree(root)
    for path in ("a.txt", "new/new.txt"):
        with pytest.raises(ToolError, match=f"{path} would be larger than 1,048,576 bytes"):
            await Files(root, require_read=False).write(path, TextStream.of("\u20ac" * (MIB // 2)))
        assert tree(root) == before


@pytest.mark.anyio
async def test_a_file_of_line_ends(root: Path) -> None:
    """Many lines are no reason to take long, or much memory, over one of them."""
    (root / "a.txt").write_bytes(b"\n" * MIB)
    response = await answer_of(Files(root).read, path="a.txt", offset=MIB - 1)
    assert (response.data["lines"], response.data["total_lines"]) == (1, MIB)


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
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("eagerstream")]
    assert all(line.startswith("the call ") for line in ours)
    assert not any(word in caplog.text for word in ("inside", "secret", "a.txt", "../", str(root)))


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
