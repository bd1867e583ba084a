"""The file tools of HelloAgents, called as its programs call them."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from packages.compat.tests.helloagents.file_tools import EACH, each_change, touch
from tests.tables import rows

from eagerstream import UsageError
from eagerstream_compat.helloagents import (
    EditTool,
    MultiEditTool,
    ReadTool,
    Tool,
    ToolErrorCode,
    ToolParameter,
    ToolResponse,
    ToolStatus,
    WriteTool,
    truncate_results,
)
from eagerstream_compat.helloagents._builtin import CALCULATOR_WORDS, FILE_WORDS, FileTool
from eagerstream_toolkit import Calculator
from eagerstream_toolkit._files.shared import FileWords

# --- the programs of the document -------------------------------------------------------------------------------------


def test_the_read_program(root: Path) -> None:
    """A file that is there and one that is not, with the answers that the document shows."""
    read_tool = ReadTool(project_root=str(root))

    response = read_tool.run({"path": "config.py"})
    assert response.status == ToolStatus.SUCCESS
    assert response.text == "文件读取成功"
    assert response.data["content"] == "a = 1\nb = 2\nb = 3\n"
    assert response.data["size"] == 18

    response = read_tool.run({"path": "not_exist.py"})
    assert response.status == ToolStatus.ERROR
    assert response.text == "文件 'not_exist.py' 不存在"
    assert response.error_info == {"code": "NOT_FOUND", "message": "文件 'not_exist.py' 不存在"}


class SearchTool(Tool):
    """The document shows only what it answers."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(name="search", description="Search")
        self._found = found

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        assert parameters["query"]
        return truncate_results(self._found, 100)

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter(name="query", type="string", description="What to look for")]


def test_the_search_program() -> None:
    """Five hundred results are cut to a hundred, and the response says so."""
    search_tool = SearchTool([f"result {number}" for number in range(500)])

    response = search_tool.run({"query": "python"})
    assert response.status == ToolStatus.PARTIAL
    assert response.text == "搜索完成(前 100 条结果)"
    assert response.data == {"results": search_tool._found[:100], "total": 500, "truncated": True}
    assert response.reason == "结果过多,已截断到 100 条"


# --- what they are ----------------------------------------------------------------------------------------------------


@rows(
    "kind, name, expected",
    [
        (ReadTool, "Read", ["path: string", "offset: integer?", "limit: integer?"]),
        (WriteTool, "Write", ["path: string", "content: string", "file_mtime_ms: integer?"]),
        (EditTool, "Edit", ["path: string", "old_string: string", "new_string: string", "file_mtime_ms: integer?"]),
        (MultiEditTool, "MultiEdit", ["path: string", "edits: array", "file_mtime_ms: integer?"]),
    ],
)
def test_names_and_parameters(kind: type[FileTool], name: str, expected: list[str], root: Path) -> None:
    """A model that knows HelloAgents' tools finds them again."""
    tool = kind(str(root))
    assert tool.name == name
    parameters = tool.get_parameters()
    assert [f"{each.name}: {each.type}{'' if each.required else '?'}" for each in parameters] == expected
    assert tool.description
    assert all(each.description for each in parameters)
    assert {each.name: each.default for each in parameters if each.default is not None} == (
        {"offset": 0, "limit": 2000} if kind is ReadTool else {}
    )


def test_the_definition_for_the_api(root: Path) -> None:
    """It says what an edit looks like, which a list of parameters cannot; of the others it says the same as the list."""
    for kind in EACH:
        tool = kind(str(root))
        definition = tool.to_anthropic()
        assert (definition["name"], definition["description"]) == (tool.name, tool.description)
        schema = definition["input_schema"]
        assert list(schema["properties"]) == [each.name for each in tool.get_parameters()]
        assert schema["required"] == [each.name for each in tool.get_parameters() if each.required]
    edits = MultiEditTool(str(root)).to_anthropic()["input_schema"]
    assert edits["properties"]["edits"]["items"] == {"$ref": "#/$defs/Replacement"}
    assert set(edits["$defs"]["Replacement"]["properties"]) == {"old_string", "new_string"}


def test_the_group(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One for all tools of a folder, and another for another folder: a loop runs a group's calls in call order."""
    assert len({kind(str(root)).group for kind in EACH}) == 1
    assert ReadTool(tmp_path_factory.mktemp("other")).group != ReadTool(root).group


def test_the_folder(root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current one, or `project_root`, or `working_dir` in its place; one that is not there is told at once."""
    monkeypatch.chdir(root)
    other = tmp_path_factory.mktemp("other")
    (other / "config.py").write_text("other")
    assert ReadTool().run({"path": "config.py"}).data["size"] == 18
    assert ReadTool(str(root), working_dir=str(other)).run({"path": "config.py"}).data["content"] == "other"
    with pytest.raises(UsageError, match="is not a folder"):
        ReadTool(project_root=str(root / "none"))


# --- reading ----------------------------------------------------------------------------------------------------------


def test_data_of_a_file(root: Path) -> None:
    """All keys of HelloAgents, the document's `size`, and the lines as a block for the model."""
    mtime_ms = touch(root / "config.py")
    response = ReadTool(str(root)).run({"path": "config.py", "offset": 1, "limit": 1})
    assert response.data == {
        "content": "b = 2\n",
        "lines": 1,
        "total_lines": 3,
        "size": 18,
        "file_mtime_ms": mtime_ms,
        "file_size_bytes": 18,
        "offset": 1,
        "limit": 1,
    }
    assert response.content == [{"type": "text", "text": "b = 2\n"}]


def test_limits(root: Path) -> None:
    """No limit where it is 0 or less, and none left out where the offset is less: as HelloAgents takes them."""
    (root / "long.txt").write_text("x\n" * 3000)
    read = ReadTool(str(root))
    response = read.run({"path": "long.txt"})
    assert (response.status, response.data["lines"]) == (ToolStatus.PARTIAL, 2000)
    assert response.reason == "内容未完: 请用 offset=2000 继续读取"
    for limit in (0, -1):
        assert read.run({"path": "long.txt", "limit": limit, "offset": -1}).data["lines"] == 3000
    assert read.run({"path": "long.txt", "limit": None, "offset": None}).data["lines"] == 2000


def test_listing(root: Path) -> None:
    """A folder is listed in the text, which is what the programs show; files and folders are counted."""
    (root / "src").mkdir()
    response = ReadTool(str(root)).run({"path": "."})
    assert response.text.splitlines()[1:] == ["config.py 18", "src/"]
    assert response.content == []
    assert response.data["is_directory"] is True
    assert (response.data["total_files"], response.data["total_dirs"]) == (1, 1)
    assert [(entry["name"], entry["type"]) for entry in response.data["entries"]] == [
        ("config.py", "file"),
        ("src", "directory"),
    ]


# --- writing and editing ----------------------------------------------------------------------------------------------


def test_write(root: Path) -> None:
    """A new file, with its folders; one that replaces another, which is kept."""
    write = WriteTool(str(root))
    response = write.run({"path": "new/a.txt", "content": "hé"})
    assert response.status == ToolStatus.SUCCESS
    mtime_ms = (root / "new/a.txt").stat().st_mtime_ns // 1_000_000
    assert response.data == {"written": True, "size_bytes": 3, "file_mtime_ms": mtime_ms, "backup_path": None}
    response = write.run({"path": "new/a.txt", "content": ""})
    assert (root / "new/a.txt").read_text() == ""
    assert response.data["backup_path"].startswith("new/.backups/a.txt.")
    assert (root / response.data["backup_path"]).read_text() == "hé"


def test_edit(root: Path) -> None:
    """One piece, which must be there once; the data says by how much the file grew."""
    edit = EditTool(str(root))
    response = edit.run({"path": "config.py", "old_string": "a = 1", "new_string": "a = 10"})
    assert (response.data["modified"], response.data["changed_bytes"]) == (True, 1)
    assert (root / response.data["backup_path"]).read_text() == "a = 1\nb = 2\nb = 3\n"
    response = edit.run({"path": "config.py", "old_string": "b = ", "new_string": "c"})
    assert response.code == ToolErrorCode.INVALID_PARAM
    assert response.text == "old_string 必须唯一匹配文件内容。找到 2 处匹配。"
    assert (root / "config.py").read_text() == "a = 10\nb = 2\nb = 3\n"


def test_multi_edit(root: Path) -> None:
    """Each edit sees those before it; where one cannot be made, none is."""
    multi = MultiEditTool(str(root))
    edits = [{"old_string": "b = 2", "new_string": "c = 2"}, {"old_string": "b = ", "new_string": "d = "}]
    response = multi.run({"path": "config.py", "edits": edits})
    assert (response.data["modified"], response.data["num_edits"], response.data["changed_bytes"]) == (True, 2, 0)
    assert (root / "config.py").read_text() == "a = 1\nc = 2\nd = 3\n"
    edits = [{"old_string": "a", "new_string": "x"}, {"old_string": "zz", "new_string": ""}]
    response = multi.run({"path": "config.py", "edits": edits})
    assert response.code == ToolErrorCode.INVALID_PARAM
    assert "old_string 必须唯一匹配文件内容。找到 0 处匹配。" in response.text
    assert (root / "config.py").read_text() == "a = 1\nc = 2\nd = 3\n"


@each_change
def test_conflict(kind: type[FileTool], change: dict[str, Any], root: Path) -> None:
    """A version that is no longer there is not replaced, and both times are told; the right one is."""
    mtime_ms = touch(root / "config.py")
    tool = kind(str(root))
    response = tool.run({"path": "config.py", **change, "file_mtime_ms": mtime_ms - 1})
    assert response.code == ToolErrorCode.CONFLICT
    assert response.context is not None
    assert response.context["current_mtime_ms"] == mtime_ms
    assert response.context["cached_mtime_ms"] == mtime_ms - 1
    assert "mine" not in (root / "config.py").read_text()
    assert not (root / ".backups").exists()
    assert tool.run({"path": "config.py", **change, "file_mtime_ms": mtime_ms}).status == ToolStatus.SUCCESS
    assert "mine" in (root / "config.py").read_text()


@each_change
def test_without_a_registry_nothing_is_remembered(kind: type[FileTool], change: dict[str, Any], root: Path) -> None:
    """Each call stands alone: what others do between two of them is no conflict, unless a time is given."""
    tool = kind(str(root))
    original = (root / "config.py").read_text()
    for mtime_s in (1_700_000_000, 1_800_000_000):
        assert tool.run({"path": "config.py", **change}).status == ToolStatus.SUCCESS
        touch(root / "config.py", original, mtime_s=mtime_s)


def test_every_text_has_the_same_places_as_the_english_one() -> None:
    """A text that forgets a place would hide a fact; one that makes up a place would fail only when it is used."""

    def places(words: FileWords) -> dict[str, set[str]]:
        return {name: set(re.findall(r"{(\w+)", text)) for name, text in asdict(words).items()}

    assert places(FileWords()) | {"read": set()} == places(FILE_WORDS)  # `read` is laid down, and has none
    assert CALCULATOR_WORDS.keys() == Calculator.words.keys()
