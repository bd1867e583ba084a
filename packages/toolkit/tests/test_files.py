"""`Files`: what Read shows, what Write writes, and how both know of changes by others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.files_calls import (
    answer_of,
    executing,
    facts,
    mtime_ms,
    needs_no_root,
    parts_in,
    touched,
    tree,
)
from tests.support import until

from eagerstream.errors import ToolError
from eagerstream.tools import TextStream, ToolErrorCode, ToolResponse, ToolStatus
from eagerstream_toolkit import Files, Write

MANY = 5000
PAGE_BYTES = 51_200


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of a model, beside which other things are."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def shown(response: ToolResponse) -> str:
    """The content behind the text."""
    assert len(response.content) == 1
    return str(response.content[0]["text"])


# --- the four tools ---------------------------------------------------------------------------------------------------


def test_four_tools(root: Path) -> None:
    """They are handed over together, and each streams its input."""
    files = Files(root)
    assert [tool.name for tool in files] == ["Read", "Write", "Edit", "MultiEdit"]
    assert [*files] == files.tools == [files.read, files.write, files.edit, files.multi_edit]
    for tool in files:
        definition = tool.to_dict()
        assert definition["eager_input_streaming"] is True
        assert definition["description"]
        assert all(schema["description"] for schema in definition["input_schema"]["properties"].values())
        assert str(root) not in json.dumps(definition)
    assert files.write.is_streaming
    assert len({tool.group for tool in files}) == 1


def test_options_of_one_tool(root: Path) -> None:
    """Each takes the options of any tool, and stays with the others."""
    files = Files(root)
    write = Write(files, name="write_file", timeout_s=5)
    assert (write.name, write.timeout_s, write.group) == ("write_file", 5, files.write.group)


# --- Read -------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_read(root: Path) -> None:
    """The text tells the figures, a block of its own has the content as it is, and the data both."""
    path = root / "a.txt"
    path.write_text("one\ntwo\nthree")
    files = Files(root)
    response = await answer_of(files.read, path="a.txt")
    assert response.status is ToolStatus.SUCCESS
    assert shown(response) == "one\ntwo\nthree"
    assert response.text == (
        f"Read 3 of 3 lines of 'a.txt', from line 0 on (the first is 0); 13 bytes, file_mtime_ms={mtime_ms(path)}"
    )
    assert response.data == {
        "content": "one\ntwo\nthree",
        "lines": 3,
        "total_lines": 3,
        "size": 13,
        "file_mtime_ms": mtime_ms(path),
        "file_size_bytes": 13,
        "offset": 0,
        "limit": 2000,
    }


_LINES = [
    ("a\nb\nc\n", 0, 2, ("a\nb\n", 2, 3)),  # the first lines
    ("a\nb\nc\n", 1, 1, ("b\n", 1, 3)),  # in the middle
    ("a\nb\nc", 2, 9, ("c", 1, 3)),  # the last one, not ended
    ("", 0, 9, ("", 0, 0)),  # empty
    ("\n\n", 1, 9, ("\n", 1, 2)),  # empty lines
    ("a\u2028b\x0bc\x85d\re\n", 0, 9, ("a\u2028b\x0bc\x85d\re\n", 1, 1)),  # only LF ends a line
    ("a\r\nb\r\n", 1, 1, ("b\n", 1, 2)),  # CRLF is shown as LF
    ("a\r\nb\n", 0, 9, ("a\r\nb\n", 2, 2)),  # mixed line ends are shown
    ("\ufeffa\n", 0, 9, ("a\n", 1, 1)),  # a byte order mark is not
]


@pytest.mark.anyio
async def test_lines(root: Path) -> None:
    """What was asked for is a success, also where the file goes on."""
    for content, offset, limit, expected in _LINES:
        with case(content, offset, limit, expected):
            (root / "a.txt").write_bytes(content.encode())
            response = await answer_of(Files(root).read, path="a.txt", offset=offset, limit=limit)
            assert response.status is ToolStatus.SUCCESS
            assert tuple(response.data[name] for name in ("content", "lines", "total_lines")) == expected


@pytest.mark.anyio
async def test_more_lines_than_are_shown(root: Path) -> None:
    """Reading on as the results say gives all of the file."""
    lines = [f"line {number}\n" for number in range(MANY)]
    (root / "a.txt").write_text("".join(lines))
    files = Files(root)
    response = await answer_of(files.read, path="a.txt")
    assert response.status is ToolStatus.PARTIAL
    assert response.reason == "There is more: continue with offset=2000"
    got = shown(response)
    while response.status is ToolStatus.PARTIAL:
        response = await answer_of(files.read, path="a.txt", offset=int(str(response.reason).rpartition("=")[2]))
        got += shown(response)
    assert got == "".join(lines)


@pytest.mark.anyio
async def test_more_bytes_than_are_shown(root: Path) -> None:
    """A result is bounded in bytes, too, and only whole lines are in it, unless one is too long by itself."""
    wide = "\u00fc" * 20_000 + "\n"
    (root / "a.txt").write_text(wide * 2 + "x" * 60_000 + "\nend\n")
    files = Files(root)
    first = await answer_of(files.read, path="a.txt", limit=9)
    assert (first.data["content"], first.reason) == (wide, "There is more: continue with offset=1")
    long = await answer_of(files.read, path="a.txt", offset=2)
    assert long.data["content"] == "x" * PAGE_BYTES
    assert long.reason == (
        "The end of line 2 is left out: the line has more than 51200 bytes. There is more: continue with offset=3"
    )
    assert (await answer_of(files.read, path="a.txt", offset=3)).data["content"] == "end\n"


@pytest.mark.anyio
async def test_a_character_is_not_cut(root: Path) -> None:
    """The bound may fall inside one."""
    (root / "a.txt").write_text("x" + "\u20ac" * 20_000)
    response = await answer_of(Files(root).read, path="a.txt")
    assert response.data["content"] == "x" + "\u20ac" * ((PAGE_BYTES - 1) // 3)
    assert response.reason == "The end of line 0 is left out: the line has more than 51200 bytes"


@pytest.mark.anyio
async def test_a_folder(root: Path) -> None:
    """It is listed, page by page as well; links are told of, and not followed."""
    (root / "sub").mkdir()
    (root / "sub" / "deeper").write_text("")
    (root / "b.txt").write_text("12345")
    (root / "new\nline").write_text("")
    (root / "link").symlink_to("/etc/passwd")
    files = Files(root)
    response = await answer_of(files.read, path=".")
    assert response.status is ToolStatus.SUCCESS
    assert shown(response) == "b.txt 5\nlink@\n'new\\nline' 0\nsub/\n"
    assert response.text == "'.' is a folder; 4 entries, from entry 0 on (the first is 0)"
    assert response.data["is_directory"] is True
    assert response.data["entries"][0] == {"name": "b.txt", "type": "file", "size": 5}
    assert [entry["type"] for entry in response.data["entries"]] == ["file", "link", "file", "directory"]
    second = await answer_of(files.read, path=".", offset=1, limit=1)
    assert (second.status, shown(second)) == (ToolStatus.SUCCESS, "link@\n")
    assert (await answer_of(files.read, path=".", offset=9)).data["entries"] == []


@pytest.mark.anyio
async def test_a_folder_with_many_files(root: Path) -> None:
    """The rest of it is asked for."""
    names = [f"{number:03}{'x' * 245}" for number in range(250)]
    for name in names:
        (root / name).touch()
    files = Files(root)
    first = await answer_of(files.read, path=".")
    assert first.status is ToolStatus.PARTIAL
    count = len(first.data["entries"])
    assert first.reason == f"There is more: continue with offset={count}"
    rest = await answer_of(files.read, path=".", offset=count)
    assert [entry["name"] for entry in first.data["entries"] + rest.data["entries"]] == names


_WHAT_CANNOT_BE_READ = [
    ("missing", 0, (ToolErrorCode.NOT_FOUND, "'missing' does not exist")),  # missing
    (
        "a.txt/b",
        0,
        (ToolErrorCode.NOT_FOUND, "'a.txt/b' cannot exist: a part of the path is a file, not a folder"),
    ),  # below a file
    ("a.txt", 2, (ToolErrorCode.INVALID_PARAM, "offset=2 is behind the end of 'a.txt'")),  # behind
    ("nul", 0, (ToolErrorCode.BINARY_FILE, "'nul' is not UTF-8 text")),  # binary
    ("latin", 0, (ToolErrorCode.BINARY_FILE, "'latin' is not UTF-8 text")),  # not UTF-8
]


@pytest.mark.anyio
async def test_what_cannot_be_read(root: Path) -> None:
    """Each has a code of its own, and nothing is remembered of it."""
    for path, offset, expected in _WHAT_CANNOT_BE_READ:
        with case(path, offset, expected):
            (root / "a.txt").write_text("1\n2\n")
            (root / "nul").write_bytes(b"a\0b")
            (root / "latin").write_bytes(b"caf\xe9")
            files = Files(root)
            response = await answer_of(files.read, path=path, offset=offset)
            assert facts(response) == expected
            assert response.context is not None
            assert response.context["path"] == path
            assert files.get_read_metadata(path) is None


@needs_no_root
@pytest.mark.anyio
async def test_what_may_not_be_read(root: Path) -> None:
    """The system's word counts."""
    (root / "a.txt").write_text("secret")
    (root / "a.txt").chmod(0)
    assert facts(await answer_of(Files(root).read, path="a.txt")) == (
        ToolErrorCode.PERMISSION_DENIED,
        "No permission for 'a.txt'",
    )


# --- what is known ----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_cache(root: Path) -> None:
    """What is read is remembered by place, however the path is written; it can be given, asked for, and cleared."""
    (root / "a.txt").write_text("1234")
    files = Files(root)
    assert files.get_read_metadata("a.txt") is None
    await answer_of(files.read, path="./a.txt")
    known = {"file_mtime_ms": mtime_ms(root / "a.txt"), "file_size_bytes": 4}
    assert files.get_read_metadata("a.txt") == known
    files.cache_read_metadata("b.txt", known)
    files.clear_read_cache("a.txt")
    assert (files.get_read_metadata("a.txt"), files.get_read_metadata("b.txt")) == (None, known)
    files.clear_read_cache()
    assert files.get_read_metadata("b.txt") is None
    with pytest.raises(ToolError, match="leads out"):
        files.get_read_metadata("../a.txt")


@pytest.mark.parametrize("changed", [None, "5678", "longer"], ids=["not", "in place", "in size"])
@pytest.mark.anyio
async def test_known_from_another_process(root: Path, changed: str | None) -> None:
    """What is told counts like what was read: a conversation goes on where it was."""
    path = root / "a.txt"
    path.write_text("1234")
    files = Files(root)
    files.cache_read_metadata("a.txt", {"file_mtime_ms": mtime_ms(path), "file_size_bytes": 4})
    if changed is not None:
        touched(path, changed)
    response = await answer_of(files.write, path="a.txt", content="new")
    assert response.code == (ToolErrorCode.CONFLICT if changed else None)
    assert path.read_text() == (changed or "new")


@pytest.mark.anyio
async def test_the_cache_is_bounded(root: Path) -> None:
    """The files that were read first are forgotten."""
    files = Files(root)
    metadata = {"file_mtime_ms": 1, "file_size_bytes": 1}
    for number in range(10_001):
        files.cache_read_metadata(f"{number}", metadata)
    assert (files.get_read_metadata("0"), files.get_read_metadata("1")) == (None, metadata)


# --- Write ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_write_a_new_file(root: Path) -> None:
    """Folders on the way are made; what was written is known, and may be replaced."""
    files = Files(root)
    response = await answer_of(files.write, path="a/b/c.txt", content="gr\u00fcn\r\n")
    path = root / "a" / "b" / "c.txt"
    assert path.read_bytes() == "gr\u00fcn\r\n".encode()
    assert response.text == "Wrote 7 bytes to 'a/b/c.txt'"
    assert response.data == {
        "written": True,
        "size_bytes": 7,
        "file_mtime_ms": mtime_ms(path),
        "backup_path": None,
    }
    assert files.get_read_metadata("a/b/c.txt") == {"file_mtime_ms": mtime_ms(path), "file_size_bytes": 7}
    assert (await answer_of(files.write, path="a/b/c.txt", content="")).data["size_bytes"] == 0
    assert tree(root) == {"a": None, "a/b": None, "a/b/c.txt": b""}


@pytest.mark.anyio
async def test_write_over_what_was_not_read(root: Path) -> None:
    """Refused; after a Read, or with the mtime of the file, it is done."""
    path = root / "a.txt"
    path.write_text("precious")
    files = Files(root)
    response = await answer_of(files.write, path="a.txt", content="new")
    assert response.code == ToolErrorCode.CONFLICT
    assert response.text.startswith("'a.txt' exists, and was not read.")
    assert path.read_text() == "precious"
    assert (await answer_of(files.write, path="a.txt", content="new", file_mtime_ms=mtime_ms(path))).data["written"]
    assert path.read_text() == "new"


@pytest.mark.anyio
async def test_write_over_what_need_not_be_read(root: Path) -> None:
    """As HelloAgents has it: only a version that is named is compared."""
    (root / "a.txt").write_text("old")
    files = Files(root, require_read=False)
    assert (await answer_of(files.write, path="a.txt", content="new")).data["written"]
    assert tree(root) == {"a.txt": b"new"}


@pytest.mark.anyio
async def test_a_version_that_is_not_the_file_s(root: Path) -> None:
    """CONFLICT, with both versions; nothing is written."""
    path = root / "a.txt"
    path.write_text("old")
    now = mtime_ms(path)
    response = await answer_of(Files(root).write, path="a.txt", content="new", file_mtime_ms=now - 1)
    said = f"'a.txt' was changed since it was read: its file_mtime_ms is {now}, not {now - 1}."
    assert facts(response) == (ToolErrorCode.CONFLICT, f"{said} Nothing was written. Read it again.")
    assert response.context == {"path": "a.txt", "current_mtime_ms": now, "cached_mtime_ms": now - 1}
    assert tree(root) == {"a.txt": b"old"}


@pytest.mark.anyio
async def test_deleted_since_it_was_read(root: Path) -> None:
    """It is not made anew unseen; a Read that finds nothing clears the way."""
    path = root / "a.txt"
    path.write_text("old")
    files = Files(root)
    await answer_of(files.read, path="a.txt")
    path.unlink()
    response = await answer_of(files.write, path="a.txt", content="new")
    assert facts(response) == (
        ToolErrorCode.CONFLICT,
        "'a.txt' was deleted since it was read. Nothing was written. Read it again.",
    )
    named = await answer_of(files.write, path="a.txt", content="new", file_mtime_ms=1)
    assert named.context == {"path": "a.txt", "current_mtime_ms": None, "cached_mtime_ms": 1}
    assert tree(root) == {}
    await answer_of(files.read, path="a.txt")
    assert (await answer_of(files.write, path="a.txt", content="new")).data["written"]


@pytest.mark.anyio
async def test_backups(root: Path) -> None:
    """What is replaced is kept, each time, also twice in a second; what is new needs none."""
    files = Files(root, backups=True)
    contents = ["first", "second", "third"]
    responses = [await answer_of(files.write, path="sub/a.txt", content=content) for content in contents]
    backups = [response.data["backup_path"] for response in responses]
    assert backups[0] is None
    assert all(re.fullmatch(r"sub/\.backups/a\.txt\.\d{8}_\d{6}(\.\d)?\.bak", str(backup)) for backup in backups[1:])
    assert [(root / str(backup)).read_text() for backup in backups[1:]] == contents[:2]
    edited = await answer_of(files.edit, path="sub/a.txt", old_string="third", new_string="3")
    assert (root / edited.data["backup_path"]).read_text() == "third"


@pytest.mark.anyio
async def test_a_write_in_another_s_way(root: Path) -> None:
    """A folder stands there; a part of the path is a file."""
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    files = Files(root)
    before = tree(root)
    assert facts(await answer_of(files.write, path="folder", content="y")) == (
        ToolErrorCode.IS_DIRECTORY,
        "'folder' is a folder",
    )
    assert (await answer_of(files.write, path="file/y", content="y")).code == ToolErrorCode.NOT_FOUND
    assert (await answer_of(files.write, path="x" * 300, content="y")).code == ToolErrorCode.INTERNAL_ERROR
    assert tree(root) == before


@pytest.mark.anyio
async def test_called_by_hand(root: Path) -> None:
    """The tool still is its function."""
    response: ToolResponse = await Files(root).write("a.txt", TextStream.of("by hand"))
    assert response.data["written"]
    assert tree(root) == {"a.txt": b"by hand"}


# --- Write, while it is being written ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("content", "file_mtime_ms"), ("file_mtime_ms", "content")], ids=["behind", "front"])
@pytest.mark.anyio
async def test_it_streams(root: Path, order: tuple[str, str]) -> None:
    """What has come is in a temporary file; the file itself is exchanged when the whole input has come."""
    path = root / "a.txt"
    path.write_text("old")
    files = Files(root)
    given: dict[str, Any] = {"content": "x" * 200_000, "file_mtime_ms": mtime_ms(path)}
    raw = json.dumps({"path": "a.txt", **{name: given[name] for name in order}})
    async with executing(files.tools) as writings:
        writing = writings.begin("Write", raw[:150_000])
        await until(lambda: any(part.stat().st_size >= 64 * 1024 for part in parts_in(root)))
        assert path.read_text() == "old"
        writing.feed(raw[150_000:-1])
        await until(lambda: any(part.stat().st_size > 150_000 for part in parts_in(root)))
        assert path.read_text() == "old"
        writing.feed("}").end()
        assert await writing.answered() == (False, "Wrote 200000 bytes to 'a.txt'")
    assert tree(root) == {"a.txt": b"x" * 200_000}


@pytest.mark.anyio
async def test_each_call_sees_those_in_front_of_it(root: Path) -> None:
    """In call order: a Read behind a Write that is still being written waits for it."""
    files = Files(root)
    async with executing(files.tools) as writings:
        write = writings.begin("Write", '{"path": "a.txt", "content": "on')
        read = writings.whole("Read", '{"path": "a.txt"}')
        await until(lambda: parts_in(root))
        write.feed('e"}').end()
        is_error, said = await read.answered()
    assert not is_error
    assert said.endswith("one")
