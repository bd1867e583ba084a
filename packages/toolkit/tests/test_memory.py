"""`Memory`: Anthropic's memory tool, beside the anthropic package's own."""

from __future__ import annotations

import time
import typing
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anthropic.tools import BetaLocalFilesystemMemoryTool
from anthropic.types import MemoryTool20250818Param
from anthropic.types.beta import BetaMemoryTool20250818Command
from packages.toolkit.tests.support import conversation, names, results, said, says, texts
from tests.tables import rows

from eagerstream.errors import ToolError, UsageError
from eagerstream_toolkit import Memory
from eagerstream_toolkit._growing_file import GrowingFile
from eagerstream_toolkit._lines import human_size

A = "/memories/a.md"


def test_the_definition(tmp_path: Path) -> None:
    """It is that of the anthropic package; the folder is made."""
    hints = typing.get_type_hints(MemoryTool20250818Param)
    memory = Memory(tmp_path / "new" / "memories", cache_control={"type": "ephemeral"})
    definition = memory.to_dict()
    assert definition.pop("cache_control") == {"type": "ephemeral"}
    assert set(definition) == {"type", "name"}
    for field, value in definition.items():
        assert typing.get_args(hints[field]) == (value,)
    assert (tmp_path / "new" / "memories").is_dir()


def test_it_has_every_command(tmp_path: Path) -> None:
    """Those that the anthropic package knows."""
    commands = typing.get_args(typing.get_args(BetaMemoryTool20250818Command)[0])
    names = [typing.get_args(command.model_fields["command"].annotation)[0] for command in commands]
    memory = Memory(tmp_path)
    with pytest.raises(ToolError) as caught:
        memory._run({"command": "none"})
    assert str(caught.value) == f"Error: Unknown command 'none'. There are: {', '.join(names)}"


@rows("bounds", [{"max_files": 0}, {"max_total_bytes": True}, {"max_file_bytes": 1.5}])
def test_wrong_bounds(tmp_path: Path, bounds: dict[str, Any]) -> None:
    """They are told when the tool is made."""
    with pytest.raises(UsageError):
        Memory(tmp_path, **bounds)


def _shown_size(folder: Path) -> str:
    """Of the folder itself: file systems differ in it."""
    return human_size(folder.stat().st_size)


@pytest.mark.anyio
async def test_calls_of_one_reply(tmp_path: Path) -> None:
    """All six commands, in one run, with the texts of the documentation."""
    size = _shown_size(tmp_path)
    result = await conversation(
        Memory(tmp_path),
        {"command": "view", "path": "/memories"},
        {"command": "create", "path": A, "file_text": "one\ntwo\n"},
        {"command": "create", "path": A, "file_text": "again"},
        {"command": "view", "path": A},
        {"command": "str_replace", "path": A, "old_str": "two", "new_str": "2"},
        {"command": "insert", "path": A, "insert_line": 1, "insert_text": "1.5\n"},
        {"command": "rename", "old_path": A, "new_path": "/memories/sub/b.md"},
        {"command": "delete", "path": "/memories/sub"},
        {"command": "view", "path": "/memories/sub"},
    )
    header = (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
    )
    edited = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    assert results(result) == [
        (f"{header}\n{size}\t/memories", False),
        (f"File created successfully at: {A}", False),
        (f"Error: File {A} already exists", True),
        (f"Here's the content of {A} with line numbers:\n     1\tone\n     2\ttwo", False),
        (f"{edited}\n     1\tone\n     2\t2", False),
        (f"The file {A} has been edited.", False),
        (f"Successfully renamed {A} to /memories/sub/b.md", False),
        ("Successfully deleted /memories/sub", False),
        ("The path /memories/sub does not exist. Please provide a valid path.", True),
    ]
    assert names(tmp_path) == []


@rows("input, told", [
        ({"command": "view", "path": "/memories/x"}, "The path /memories/x does not exist. Please provide a valid path."),
        ({"command": "view", "path": "a.md"}, "Error: `path` must start with /memories"),
        ({"command": "view", "path": "/memories", "view_range": [1, 2]}, None),
        ({"command": "str_replace", "path": "/memories/x", "old_str": "a", "new_str": "b"}, "Error: The path /memories/x does not exist. Please provide a valid path."),
        ({"command": "str_replace", "path": A, "old_str": "zz", "new_str": "b"}, f"No replacement was performed, old_str `zz` did not appear verbatim in {A}."),
        ({"command": "str_replace", "path": A, "old_str": "o", "new_str": "b"}, "No replacement was performed. Multiple occurrences of old_str `o` in lines: 1, 2, 4. Please ensure it is unique"),
        ({"command": "str_replace", "path": A, "old_str": "", "new_str": "b"}, "Error: `old_str` must not be empty"),
        ({"command": "insert", "path": "/memories/x", "insert_line": 0, "insert_text": "a"}, "Error: The path /memories/x does not exist. Please provide a valid path."),
        ({"command": "insert", "path": A, "insert_line": 9, "insert_text": "a"}, "Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]"),
        ({"command": "delete", "path": "/memories/x"}, "Error: The path /memories/x does not exist"),
        ({"command": "delete", "path": "/memories"}, "Error: Cannot delete the /memories directory itself"),
        ({"command": "rename", "old_path": "/memories/x", "new_path": "/memories/y/z"}, "Error: The path /memories/x does not exist"),
        ({"command": "rename", "old_path": A, "new_path": "/memories/b.md"}, "Error: The destination /memories/b.md already exists"),
        ({"command": "rename", "old_path": A, "new_path": "/memories/b.md/c"}, "Error: /memories/b.md/c cannot be created: a file stands in its way"),
        ({"command": "rename", "old_path": "/memories", "new_path": "/memories/c"}, "Error: Cannot rename the /memories directory itself"),
        ({"command": "rename", "old_path": A}, "Error: `new_path` is missing"),
        ({"command": "create", "path": A}, "Error: `file_text` is missing"),
        ({"command": "create", "path": f"{A}/b", "file_text": ""}, f"Error: {A}/b cannot be created: a file stands in its way"),
        ({"command": ["view"]}, "Error: `command` must be text, not a list"),
    ])  # fmt: skip
def test_what_cannot_be_done(tmp_path: Path, input: dict[str, Any], told: str | None) -> None:
    """It is told in the words of the documentation, and nothing is changed."""
    (tmp_path / "a.md").write_text("one\ntwo\nthree\nfour\n")
    (tmp_path / "b.md").write_text("b")
    answer = says(Memory(tmp_path), **input)
    assert answer == told or (told is None and answer.startswith("Here're"))
    assert texts(tmp_path) == {
        "a.md": "one\ntwo\nthree\nfour\n",
        "b.md": "b",
    }


# --- beside the anthropic package's own tool --------------------------------------------------------------------------


SAME: list[dict[str, Any]] = [
    {"command": "create", "path": "/memories/n.md", "file_text": "one\ntwo\nthree\nfour\nfive\nsix"},
    {"command": "create", "path": "/memories/sub/deep/m.md", "file_text": "x" * 1536},
    {"command": "create", "path": "/memories/.hidden", "file_text": "x"},
    {"command": "create", "path": "/memories/n.md", "file_text": "x"},
    {"command": "view", "path": "/memories/n.md"},
    {"command": "view", "path": "/memories/n.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/n.md", "view_range": [5, -1]},
    {"command": "str_replace", "path": "/memories/n.md", "old_str": "four", "new_str": "4\n4b"},
    {"command": "str_replace", "path": "/memories/n.md", "old_str": "e\n", "new_str": "-"},
    {"command": "str_replace", "path": "/memories/n.md", "old_str": "absent", "new_str": "-"},
    {"command": "str_replace", "path": "/memories/none.md", "old_str": "a", "new_str": "b"},
    {"command": "view", "path": "/memories/none.md"},
    {"command": "create", "path": "/memories/i.md", "file_text": "a\nb\n"},
    {"command": "insert", "path": "/memories/i.md", "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": "/memories/i.md", "insert_line": 3, "insert_text": "last"},
    {"command": "rename", "old_path": "/memories/i.md", "new_path": "/memories/sub/j.md"},
    {"command": "rename", "old_path": "/memories/i.md", "new_path": "/memories/k.md"},
    {"command": "rename", "old_path": "/memories/n.md", "new_path": "/memories/sub/j.md"},
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/k"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/sub"},
    {"command": "delete", "path": "/memories/none.md"},
    {"command": "delete", "path": "/memories"},
    {"command": "delete", "path": "/memories/sub"},
]


def _without_known_differences(text: str) -> str:
    """The package leaves out the `Error: ` that the documentation has, and does not name `node_modules`."""
    return text.removeprefix("Error: ").replace(" and node_modules", "")


@pytest.mark.anyio
async def test_the_same_as_the_anthropic_package(tmp_path: Path) -> None:
    """Command by command, both say the same, and leave the same files."""
    ours = Memory(tmp_path / "ours")
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / "theirs"))
    for input in SAME:
        answer = await said(ours, **input)
        try:
            expected = await anyio.to_thread.run_sync(theirs.call, input)
        except Exception as error:
            assert type(error).__name__ == "ToolError"
            expected = str(error)
        assert _without_known_differences(answer) == expected, input
    assert texts(tmp_path / "ours") == texts(tmp_path / "theirs" / "memories")


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_file_has_a_bound(tmp_path: Path) -> None:
    """By whatever command it would grow over it."""
    memory = Memory(tmp_path, max_file_bytes=10)
    over = "and a file may have 10"
    assert over in await said(memory, command="create", path="/memories/dir/a.md", file_text="x" * 11)
    assert names(tmp_path) == []
    await said(memory, command="create", path=A, file_text="0123456789")
    assert over in await said(memory, command="str_replace", path=A, old_str="1", new_str="11")
    assert over in await said(memory, command="insert", path=A, insert_line=0, insert_text="x")
    assert (tmp_path / "a.md").read_text() == "0123456789"
    assert "edited" in await said(memory, command="str_replace", path=A, old_str="1", new_str="")


@pytest.mark.anyio
async def test_all_files_together_have_a_bound(tmp_path: Path) -> None:
    """What makes room, or takes none, can be done at the bound."""
    memory = Memory(tmp_path, max_total_bytes=10)
    await said(memory, command="create", path="/memories/sub/.a", file_text="01234")
    await said(memory, command="create", path=A, file_text="56789")
    over = "Error: the memory has 10 bytes and may have 10. Delete something first"
    assert await said(memory, command="create", path="/memories/c", file_text="x") == over
    assert await said(memory, command="insert", path=A, insert_line=0, insert_text="x") == over
    assert "edited" in await said(memory, command="str_replace", path=A, old_str="56", new_str="65")
    assert "deleted" in await said(memory, command="delete", path="/memories/sub/.a")
    assert "created" in await said(memory, command="create", path="/memories/c", file_text="x")


@pytest.mark.anyio
async def test_there_are_only_so_many_files(tmp_path: Path) -> None:
    """Folders count, too; what was made for a file that may not be is taken back."""
    memory = Memory(tmp_path, max_files=3)
    over = "Error: the memory may have 3 files and folders. Delete some first"
    await said(memory, command="create", path=A, file_text="")
    assert await said(memory, command="create", path="/memories/x/y/z", file_text="") == over
    assert names(tmp_path) == ["a.md"]
    assert "created" in await said(memory, command="create", path="/memories/x/y", file_text="")
    assert await said(memory, command="create", path="/memories/b", file_text="") == over
    assert "edited" in await said(memory, command="insert", path=A, insert_line=0, insert_text="x")


@pytest.mark.anyio
async def test_renaming_makes_no_more_folders_than_there_may_be(tmp_path: Path) -> None:
    """The folders on the way count as those of a new file do, and empty ones would stay behind."""
    memory = Memory(tmp_path, max_files=3)
    await said(memory, command="create", path="/memories/a", file_text="a")
    told = await said(memory, command="rename", old_path="/memories/a", new_path="/memories/1/2/3/a")
    assert told == "Error: the memory may have 3 files and folders. Delete some first"
    assert names(tmp_path) == ["a"]
    told = await said(memory, command="rename", old_path="/memories/a", new_path="/memories/1/2/a")
    assert told == "Successfully renamed /memories/a to /memories/1/2/a"
    told = await said(memory, command="rename", old_path="/memories/1/2/a", new_path="/memories/1/2/b")
    assert told.startswith("Successfully")


@pytest.mark.anyio
async def test_memories_of_one_folder_have_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several runs may have one each: what one is about to write is not overlooked by the other."""
    write = GrowingFile.write

    def write_slowly(file: GrowingFile, content: bytes) -> None:
        time.sleep(0.02)
        write(file, content)

    monkeypatch.setattr(GrowingFile, "write", write_slowly)
    told: list[str] = []

    async def create(memory: Memory, path: str) -> None:
        told.append(await said(memory, command="create", path=path, file_text="x" * 60))

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(create, Memory(tmp_path, max_total_bytes=100), f"/memories/{number}")
    assert sum(each.startswith("File created") for each in told) == 1
    assert len(names(tmp_path)) == 1
