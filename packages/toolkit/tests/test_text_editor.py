"""`TextEditor`: Anthropic's text editor tool, version by version, text by text."""

from __future__ import annotations

import os
import typing
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic.types import beta
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.support import conversation, names, results, said, says, texts
from tests.tables import rows

from eagerstream.errors import UsageError
from eagerstream.tools import Tool
from eagerstream_toolkit import EagerTextEditor, Memory, TextEditor, _lines
from eagerstream_toolkit._growing_file import MAX_FILE_BYTES
from eagerstream_toolkit._text_editor.tool import TextEditorVersion
from eagerstream_toolkit._text_files import Document

NEWEST = "text_editor_20250728"
WITH_UNDO: list[TextEditorVersion] = ["text_editor_20250124", "text_editor_20241022"]


@pytest.fixture
def editor(tmp_path: Path) -> TextEditor:
    return TextEditor(tmp_path, root_name="/repo")


# --- definitions ------------------------------------------------------------------------------------------------------


@rows("version", typing.get_args(TextEditorVersion))
def test_definitions(tmp_path: Path, version: TextEditorVersion) -> None:
    """Name and type are those of the anthropic package, which was made with the API."""
    param = getattr(beta, f"BetaToolTextEditor{version.removeprefix('text_editor_')}Param")
    hints = typing.get_type_hints(param)
    definition = TextEditor(tmp_path, version=version).to_dict()
    assert set(definition) == {"type", "name"}
    for field, value in definition.items():
        assert typing.get_args(hints[field]) == (value,)
    assert ("max_characters" in hints) == (version == NEWEST)


def test_what_goes_into_the_definition(tmp_path: Path) -> None:
    """And what is eagerstream's own stays out of it."""
    editor = TextEditor(
        tmp_path, max_characters=500, cache_control={"type": "ephemeral"}, defer_loading=None, timeout_s=5
    )
    assert editor.to_dict() == {
        "type": NEWEST,
        "name": "str_replace_based_edit_tool",
        "max_characters": 500,
        "cache_control": {"type": "ephemeral"},
    }
    assert editor.timeout_s == 5


@rows(
    "options",
    [
        {"version": "text_editor_20990101"},
        {"max_characters": 0},
        {"max_characters": True},
        {"max_characters": 10, "version": "text_editor_20250429"},
        {"root_name": "repo"},
        {"root_name": "/repo/"},
        {"name": "mine"},
        {"definition": {"type": "x", "name": "y"}},
        {"eager": True},
    ],
)
def test_wrong_settings(tmp_path: Path, options: dict[str, Any]) -> None:
    """They are told when the tool is made."""
    with pytest.raises(UsageError):
        TextEditor(tmp_path, **options)


# --- in a run ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_calls_of_one_reply_follow_one_another(tmp_path: Path, editor: TextEditor) -> None:
    """A view after an edit in the same reply sees it."""
    path = "/repo/src/a.py"
    result = await conversation(
        editor,
        {"command": "create", "path": path, "file_text": "x = 1\n"},
        {"command": "view", "path": path},
        {"command": "str_replace", "path": path, "old_str": "1", "new_str": "2"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "import os"},
        {"command": "view", "path": path, "view_range": [1, -1]},
        {"command": "view", "path": "/repo/none.py"},
    )
    assert results(result) == [
        ("File created successfully at: /repo/src/a.py", False),
        ("     1\tx = 1", False),
        ("Successfully replaced text at exactly one location.", False),
        ("Successfully inserted text after line 0 of /repo/src/a.py.", False),
        ("     1\timport os\n     2\tx = 2", False),
        ("Error: File not found", True),
    ]
    assert (tmp_path / "src" / "a.py").read_text() == "import os\nx = 2\n"


def _changed_at(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


# --- texts ------------------------------------------------------------------------------------------------------------


_CANNOT_BE_DONE: list[tuple[dict[str, Any], str]] = [
        ({}, "Error: `command` is missing"),
        ({"command": 3}, "Error: `command` must be text, not an integer"),
        ({"command": "undo_edit", "path": "a.txt"}, "Error: Unknown command 'undo_edit'. There are: view, create, str_replace, insert"),
        ({"command": "view"}, "Error: `path` is missing"),
        ({"command": "view", "path": ["a.txt"]}, "Error: `path` must be text, not a list"),
        ({"command": "view", "path": "a.txt/b"}, "Error: File not found"),
        ({"command": "view", "path": "a.txt", "view_range": "1-2"}, "Error: Invalid `view_range` parameter. It should be a list of two integers."),
        ({"command": "view", "path": "a.txt", "view_range": [1]}, "Error: Invalid `view_range` parameter. It should be a list of two integers."),
        ({"command": "view", "path": "a.txt", "view_range": [True, 2]}, "Error: Invalid `view_range` parameter. It should be a list of two integers."),
        ({"command": "view", "path": "a.txt", "view_range": [0, 2]}, "Error: Invalid `view_range` parameter. Its first element `0` should be within the range of lines of the file: [1, 3]"),
        ({"command": "view", "path": "a.txt", "view_range": [4, -1]}, "Error: Invalid `view_range` parameter. Its first element `4` should be within the range of lines of the file: [1, 3]"),
        ({"command": "view", "path": "a.txt", "view_range": [2, 4]}, "Error: Invalid `view_range` parameter. Its second element `4` should not be larger than the number of lines in the file: `3`"),
        ({"command": "view", "path": "a.txt", "view_range": [2, 1]}, "Error: Invalid `view_range` parameter. Its second element `1` should be -1, or not smaller than its first `2`"),
        ({"command": "view", "path": "a.txt", "view_range": [2, -2]}, "Error: Invalid `view_range` parameter. Its second element `-2` should be -1, or not smaller than its first `2`"),
        ({"command": "view", "path": ".", "view_range": [1, 2]}, "Error: The `view_range` parameter is not allowed when `path` points to a directory."),
        ({"command": "create", "path": "new.txt"}, "Error: `file_text` is missing"),
        ({"command": "create", "path": "new.txt", "file_text": {"a": 1}}, "Error: `file_text` must be text, not an object"),
        ({"command": "create", "path": "sub", "file_text": ""}, "Error: sub is a directory"),
        ({"command": "create", "path": ".", "file_text": ""}, "Error: . is a directory"),
        ({"command": "create", "path": "a.txt/b", "file_text": ""}, "Error: a.txt/b cannot be created: a file stands in its way"),
        ({"command": "str_replace", "path": "a.txt"}, "Error: `old_str` is missing"),
        ({"command": "str_replace", "path": "a.txt", "old_str": ""}, "Error: `old_str` must not be empty"),
        ({"command": "str_replace", "path": "a.txt", "old_str": "zz"}, "Error: No match found for replacement. Please check your text and try again."),
        ({"command": "str_replace", "path": "a.txt", "old_str": "two"}, "Error: Found 2 matches for replacement text. Please provide more context to make a unique match."),
        ({"command": "str_replace", "path": "none.txt", "old_str": "a"}, "Error: File not found"),
        ({"command": "str_replace", "path": "sub", "old_str": "a"}, "Error: sub is a directory"),
        ({"command": "str_replace", "path": "read-only.txt", "old_str": "r"}, "Error: Permission denied. Cannot write to file."),
        ({"command": "create", "path": "read-only.txt", "file_text": "r"}, "Error: Permission denied. Cannot write to file."),
        ({"command": "insert", "path": "a.txt", "insert_text": "x"}, "Error: `insert_line` is missing"),
        ({"command": "insert", "path": "a.txt", "insert_line": "1", "insert_text": "x"}, "Error: `insert_line` must be an integer, not text"),
        ({"command": "insert", "path": "a.txt", "insert_line": True, "insert_text": "x"}, "Error: `insert_line` must be an integer, not a boolean"),
        ({"command": "insert", "path": "a.txt", "insert_line": 1}, "Error: `insert_text` is missing"),
        ({"command": "insert", "path": "a.txt", "insert_line": 4, "insert_text": "x"}, "Error: Invalid `insert_line` parameter: 4. It should be within the range of lines of the file: [0, 3]"),
        ({"command": "insert", "path": "a.txt", "insert_line": -1, "insert_text": "x"}, "Error: Invalid `insert_line` parameter: -1. It should be within the range of lines of the file: [0, 3]"),
        ({"command": "view", "path": "binary"}, "Error: binary is a binary file"),
        ({"command": "view", "path": "latin-1.txt"}, "Error: latin-1.txt is not a text file in UTF-8"),
        ({"command": "str_replace", "path": "latin-1.txt", "old_str": "caf"}, "Error: latin-1.txt is not a text file in UTF-8"),
        ({"command": "insert", "path": "binary", "insert_line": 0, "insert_text": "x"}, "Error: binary is a binary file"),
        ({"command": "view", "path": "huge.txt"}, "Error: huge.txt is larger than 16,777,216 bytes"),
        ({"command": "view", "path": "lines.txt"}, "File lines.txt exceeds maximum line limit of 999,999 lines."),
]  # fmt: skip


def test_what_cannot_be_done(tmp_path: Path) -> None:
    """It is told in words that say what to do instead, and nothing is changed."""
    (tmp_path / "a.txt").write_text("one\ntwo\ntwo\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin-1.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "read-only.txt").write_text("r")
    (tmp_path / "read-only.txt").chmod(0o444)
    (tmp_path / "huge.txt").touch()
    os.truncate(tmp_path / "huge.txt", MAX_FILE_BYTES + 1)
    (tmp_path / "lines.txt").write_text("\n" * 1_000_000)
    before = _changed_at(tmp_path)
    editor = TextEditor(tmp_path)
    for input, told in _CANNOT_BE_DONE:
        with case(input):
            assert says(editor, **input) == told
            assert _changed_at(tmp_path) == before


@pytest.mark.anyio
async def test_viewing(tmp_path: Path) -> None:
    """Numbers count from 1; only LF ends lines; an empty file says so."""
    editor = TextEditor(tmp_path, root_name="/repo")
    (tmp_path / "a.txt").write_text("one\u2028still one\ntwo\n\nfour", encoding="utf-8")
    assert await said(editor, command="view", path="a.txt") == (
        "     1\tone\u2028still one\n     2\ttwo\n     3\t\n     4\tfour"
    )
    assert await said(editor, command="view", path="/repo/a.txt", view_range=[2, 3]) == "     2\ttwo\n     3\t"
    (tmp_path / "empty").touch()
    assert await said(editor, command="view", path="empty") == "The file /repo/empty is empty."
    assert await said(editor, command="view", path="empty", view_range=[1, -1]) == "The file /repo/empty is empty."


@pytest.mark.anyio
async def test_viewing_a_folder(tmp_path: Path) -> None:
    """Two levels, without what is hidden; what lies deeper, or is left out, is not looked into."""
    for path in ("b/c/d/e.txt", "b/c.txt", ".git/config", "node_modules/x/y.js", "b/.hidden"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("12345")
    told = await said(TextEditor(tmp_path, root_name="/repo"), command="view", path="/repo")
    header, *entries = told.splitlines()
    assert header.endswith("up to 2 levels deep in /repo, excluding hidden items and node_modules:")
    assert [entry.partition("\t")[2] for entry in entries] == ["/repo", "/repo/b/", "/repo/b/c/", "/repo/b/c.txt"]
    assert entries[-1] == "5B\t/repo/b/c.txt"


@pytest.mark.anyio
async def test_a_folder_with_very_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of it is listed, and said to be one."""
    assert _lines._MAX_LISTED == 1_000
    monkeypatch.setattr(_lines, "_MAX_LISTED", 30)
    for number in range(31):
        (tmp_path / f"{number:04}").touch()
    told = await said(TextEditor(tmp_path), command="view", path=".")
    assert told.startswith("[PARTIAL] Only the first 30 are listed.")
    assert len(told.splitlines()) == 3 + 30


@pytest.mark.anyio
async def test_max_characters(tmp_path: Path) -> None:
    """What is shown ends with a whole line, and the rest can be asked for."""
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    editor = TextEditor(tmp_path, max_characters=50)
    assert await said(editor, command="view", path="a.txt") == (
        "[PARTIAL] Cut to 50 characters: these are lines 1 to 3, and 10 is the last that was asked for. "
        "Use view_range for the others.\n     1\tline 1\n     2\tline 2\n     3\tline 3"
    )
    assert "     10\tline 10" not in await said(editor, command="view", path="a.txt", view_range=[4, -1])
    (tmp_path / "a.txt").write_text("x" * 100)
    assert (await said(editor, command="view", path="a.txt")).endswith("\n     1\t" + "x" * 43)


# --- what survives ----------------------------------------------------------------------------------------------------


_EDITS_KEEP_THE_REST: list[tuple[bytes, dict[str, Any], bytes | None]] = [
    (b"a\r\nb\r\nc\r\n", {"old_str": "a\nb", "new_str": "x\ny\nz"}, b"x\r\ny\r\nz\r\nc\r\n"),
    (b"a\r\nb\r\nc\r\n", {"old_str": "a\r\nb", "new_str": "x\r\ny"}, b"x\r\ny\r\nc\r\n"),
    (b"a\r\nb", {"old_str": "a\nb"}, b""),
    (b"a\r\nb\nc\r\nd\n", {"old_str": "b\nc", "new_str": "B\nC\nC2"}, b"a\r\nB\nC\nC2\r\nd\n"),
    (b"a\nb\r\n", {"old_str": "a", "new_str": "x\ny"}, b"x\ny\nb\r\n"),
    (b"a\nb\n", {"old_str": "a", "new_str": "x\r\ny"}, b"x\r\ny\nb\n"),
    (b"a\rb\n", {"old_str": "\r", "new_str": "-"}, b"a-b\n"),
    (b"\xef\xbb\xbfa\n", {"old_str": "a", "new_str": "\u00e9"}, b"\xef\xbb\xbf\xc3\xa9\n"),
    (b"a\nb", {"old_str": "b", "new_str": "c"}, b"a\nc"),
    (b"a\nb\n", {"old_str": "\n", "new_str": ""}, None),
    (b"a\nb", {"insert_line": 2, "insert_text": "c"}, b"a\nb\nc"),
    (b"a\nb", {"insert_line": 2, "insert_text": "c\n"}, b"a\nb\nc"),
    (b"a\nb", {"insert_line": 1, "insert_text": "x"}, b"a\nx\nb"),
    (b"a\nb\n", {"insert_line": 2, "new_str": "c"}, b"a\nb\nc\n"),
    (b"a\nb\n", {"insert_line": 0, "insert_text": "x\n\n"}, b"x\n\na\nb\n"),
    (b"", {"insert_line": 0, "insert_text": "x"}, b"x\n"),
    (b"a\r\nb\r\n", {"insert_line": 1, "insert_text": "x\ny"}, b"a\r\nx\r\ny\r\nb\r\n"),
    (b"a\r\nb", {"insert_line": 2, "insert_text": "x"}, b"a\r\nb\r\nx"),
    (b"\xef\xbb\xbfa\r\n", {"insert_line": 0, "insert_text": "x"}, b"\xef\xbb\xbfx\r\na\r\n"),
    (b"a\n", {"old_str": "a", "new_str": "\\1 \\n {} $1"}, b"\\1 \\n {} $1\n"),
]


def test_edits_keep_the_rest(tmp_path: Path) -> None:
    """Line ends, byte order mark, a missing line end at the end: what an edit does not mean, it does not change."""
    for before, input, after in _EDITS_KEEP_THE_REST:
        with case(before, input, after):
            path = tmp_path / "a.txt"
            path.write_bytes(before)
            path.chmod(0o754)
            command = "str_replace" if "old_str" in input else "insert"
            says(TextEditor(tmp_path), command=command, path="a.txt", **input)
            assert path.read_bytes() == (before if after is None else after)
            assert path.stat().st_mode & 0o777 == 0o754


@pytest.mark.anyio
async def test_creating(tmp_path: Path) -> None:
    """A text is written as it is, folders are made on the way, and a file that is there is replaced, which is said."""
    editor = TextEditor(tmp_path)
    create = {"command": "create", "path": "a/b/c.txt"}
    assert await said(editor, **create, file_text="a\r\n\u00e9\ud800") == "File created successfully at: a/b/c.txt"
    assert (tmp_path / "a/b/c.txt").read_bytes() == "a\r\n\u00e9\ufffd".encode()
    assert await said(editor, **create, file_text="") == "File replaced successfully at: a/b/c.txt"
    assert (tmp_path / "a/b/c.txt").read_bytes() == b""


@pytest.mark.anyio
async def test_a_file_that_somebody_else_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their change is not written over: the model looks again."""
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    whole = Document.encode

    def encode(document: Document) -> bytes:
        path.write_text("theirs, and longer\n")
        return whole(document)

    monkeypatch.setattr(Document, "encode", encode)
    told = await said(TextEditor(tmp_path), command="str_replace", path="a.txt", old_str="one", new_str="two")
    assert told == "Error: a.txt was changed by somebody else. View it, and try again."
    assert path.read_text() == "theirs, and longer\n"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.anyio
async def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays whole, and the model is told without a path of this machine."""

    def full(_handle: int, _content: object) -> int:
        raise OSError(28, os.strerror(28), str(tmp_path))

    (tmp_path / "a.txt").write_text("old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        told = await said(TextEditor(tmp_path), command="create", path="a.txt", file_text="new")
    assert told == "Error: a.txt: No space left on device"
    assert texts(tmp_path) == {"a.txt": "old"}


@pytest.mark.anyio
async def test_editors_at_once(tmp_path: Path) -> None:
    """Edits of one editor follow one another also where several runs make them: none is lost."""
    editor = TextEditor(tmp_path)
    (tmp_path / "a.txt").touch()
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            input = {"command": "insert", "path": "a.txt", "insert_line": 0, "insert_text": f"{number}"}
            tasks.start_soon(editor.call, input)
    assert sorted(map(int, (tmp_path / "a.txt").read_text().split())) == list(range(20))


# --- undo -------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("version", WITH_UNDO)
async def test_undo(tmp_path: Path, version: TextEditorVersion) -> None:
    """Edits of a file are taken back one by one, from the last; the first made it."""
    editor = TextEditor(tmp_path, version=version)
    path = tmp_path / "a.txt"
    undo = {"command": "undo_edit", "path": "a.txt"}
    await said(editor, command="create", path="a.txt", file_text="one\n")
    await said(editor, command="create", path="other.txt", file_text="other")
    await said(editor, command="str_replace", path="a.txt", old_str="one", new_str="two")
    await said(editor, command="insert", path="a.txt", insert_line=0, new_str="zero")
    assert path.read_text() == "zero\ntwo\n"
    assert await said(editor, **undo) == "Last edit to a.txt undone successfully."
    assert path.read_text() == "two\n"
    await said(editor, **undo)
    assert path.read_text() == "one\n"
    await said(editor, **undo)
    assert not path.exists()
    assert await said(editor, **undo) == "Error: No edit history found for a.txt."
    assert (tmp_path / "other.txt").read_text() == "other"


@pytest.mark.anyio
@pytest.mark.parametrize("edits", [1, 2])
async def test_undo_is_of_ones_own_edits_only(tmp_path: Path, edits: int) -> None:
    """What somebody else wrote since is not thrown away."""
    editor = TextEditor(tmp_path, version="text_editor_20250124")
    for number in range(edits):
        await said(editor, command="create", path="a.txt", file_text=f"mine {number}")
    (tmp_path / "a.txt").write_text("theirs")
    assert "changed by somebody else" in await said(editor, command="undo_edit", path="a.txt")
    assert (tmp_path / "a.txt").read_text() == "theirs"


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_history_is_bounded(tmp_path: Path) -> None:
    """A long session does not keep everything that it ever replaced."""
    editor = TextEditor(tmp_path, version="text_editor_20250124")
    for number in range(120):
        await said(editor, command="create", path="a.txt", file_text=str(number))
    undone = 0
    while "undone" in await said(editor, command="undo_edit", path="a.txt"):
        undone += 1
    assert undone == 100


@pytest.mark.anyio
async def test_undo_of_edits_that_are_alike(tmp_path: Path) -> None:
    """There and back and there again: the last one is taken back first, not the first one that was like it."""
    editor = TextEditor(tmp_path, version="text_editor_20250124")
    path = tmp_path / "a.txt"
    path.write_text("A")
    for old, new in ("AB", "BA", "AB"):
        await said(editor, command="str_replace", path="a.txt", old_str=old, new_str=new)
    for left in "ABA":
        assert "undone" in await said(editor, command="undo_edit", path="a.txt")
        assert path.read_text() == left


# --- several tools on one folder ---------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_edits_of_several_tools_at_once(tmp_path: Path) -> None:
    """Each edit that was said to be made is in the file: none was lost to another tool's."""
    path = tmp_path / "a.txt"
    path.touch()
    tools: list[Tool] = [TextEditor(tmp_path), EagerTextEditor(tmp_path), TextEditor(tmp_path), Memory(tmp_path)]
    made: list[str] = []

    async def edit(tool: Tool, name: str) -> None:
        place = "/memories/a.txt" if isinstance(tool, Memory) else "a.txt"
        for number in range(10):
            line = f"{name}.{number}"
            told = await said(tool, command="insert", path=place, insert_line=0, insert_text=line)
            if "changed by somebody else" not in told:
                made.append(line)

    async with anyio.create_task_group() as tasks:
        for number, tool in enumerate(tools):
            tasks.start_soon(edit, tool, str(number))
    assert made
    assert sorted(made) == sorted(path.read_text().split())


@pytest.mark.anyio
async def test_places_that_overlap(tmp_path: Path) -> None:
    """Which of the two is meant cannot be known."""
    for path in ["a.txt", "/memories/a.txt"]:
        with case(path):
            tool = Memory(tmp_path) if path.startswith("/") else TextEditor(tmp_path)
            (tmp_path / "a.txt").write_text("one\naaa\n")
            told = await said(tool, command="str_replace", path=path, old_str="aa", new_str="b")
            assert "Found 2 matches" in told or "in lines: 2, 2." in told
            assert (tmp_path / "a.txt").read_text() == "one\naaa\n"


@rows(
    "content",
    [b"a\r\r\nb\r", b"\x01\r\n\x01\n", b"\r\n\n" * 50_000 + b"end", b"\n\r" * 40_000, "\u00e9\r\n".encode() * 40_000],
)
def test_line_ends_come_back(content: bytes) -> None:
    """Whatever they are, an edit elsewhere leaves them; also where the text is encoded in several pieces."""
    document = Document.of(content, shown="a.txt")
    assert document.encode() == content
    assert document.inserted(0, "new\n").replaced(0, 4, "").encode() == content
