"""What the file tools of HelloAgents keep to: what the registry knows, the folder, any input, threads and event loops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from packages.compat.tests.helloagents.file_tools import CHANGES, EACH, each_change, touch
from packages.toolkit.tests.files_calls import SECRET, attacked

from eagerstream_compat.helloagents import (
    ReadTool,
    ToolErrorCode,
    ToolRegistry,
    ToolResponse,
    ToolStatus,
    WriteTool,
)
from eagerstream_compat.helloagents._builtin import FileTool

# --- what the registry knows ------------------------------------------------------------------------------------------


def test_read_tells_the_registry(root: Path) -> None:
    """The version of a file, by the path that was read; of a folder nothing, and of a file that is gone no longer."""
    registry = ToolRegistry()
    mtime_ms = touch(root / "config.py")
    read = ReadTool(str(root), registry=registry)
    read.run({"path": "config.py"})
    read.run({"path": "."})
    assert registry.read_metadata_cache == {"config.py": {"file_mtime_ms": mtime_ms, "file_size_bytes": 18}}
    read.run({"path": "./config.py"})
    assert registry.get_read_metadata("./config.py") == registry.get_read_metadata("config.py")
    (root / "config.py").unlink()
    read.run({"path": "./config.py"})
    assert registry.read_metadata_cache == {}


@each_change
def test_what_was_read_is_expected(kind: type[FileTool], change: dict[str, Any], root: Path) -> None:
    """A file that others changed since it was read is not changed, by whatever path it is called; read anew, it is."""
    registry = ToolRegistry()
    read, tool = ReadTool(str(root), registry=registry), kind(str(root), registry=registry)
    read.run({"path": "./config.py"})
    touch(root / "config.py", "a = 1 # theirs")
    for path in ("config.py", "./config.py", str(root / "config.py")):
        assert tool.run({"path": path, **change}).code == ToolErrorCode.CONFLICT
    assert (root / "config.py").read_text() == "a = 1 # theirs"
    read.run({"path": "config.py"})
    assert tool.run({"path": "config.py", **change}).status == ToolStatus.SUCCESS


def test_own_changes_are_known(root: Path) -> None:
    """Tools of one registry do not take each other's changes for somebody else's."""
    registry = ToolRegistry()
    read, write, edit, multi = (kind(str(root), registry=registry) for kind in EACH)
    read.run({"path": "config.py"})
    for tool, change in ((edit, CHANGES[1][1]), (write, {"content": "a = 1"}), (multi, CHANGES[2][1])):
        assert tool.run({"path": "config.py", **change}).status == ToolStatus.SUCCESS
    assert read.run({"path": "config.py"}).data["content"] == "mine"


def test_a_file_that_is_gone_can_be_made_again(root: Path) -> None:
    """Who expects a file that others have removed is told; who has read that it is gone may write it."""
    registry = ToolRegistry()
    read, write = ReadTool(str(root), registry=registry), WriteTool(str(root), registry=registry)
    read.run({"path": "config.py"})
    (root / "config.py").unlink()
    assert write.run({"path": "config.py", "content": "x"}).code == ToolErrorCode.CONFLICT
    assert read.run({"path": "config.py"}).code == ToolErrorCode.NOT_FOUND
    assert write.run({"path": "config.py", "content": "x"}).status == ToolStatus.SUCCESS


# --- what a model may write -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EACH)
def test_missing_parameters(kind: type[FileTool], root: Path) -> None:
    """The first that is missing is named; None and an empty path are as good as missing."""
    tool = kind(str(root))
    required = [each.name for each in tool.get_parameters() if each.required]
    assert tool.run({}).text == "参数 'path' 不能为空"
    assert tool.run({"path": ""}).text == "参数 'path' 不能为空"
    given: dict[str, Any] = {"path": "config.py"}
    for name in required[1:]:
        response = tool.run({**given, name: None})
        assert (response.code, response.text) == (ToolErrorCode.INVALID_PARAM, f"参数 '{name}' 不能为空")
        given[name] = "x"


def test_no_path_leads_out(tmp_path: Path) -> None:
    """Confined to the folder, with and without a registry, which is told nothing either."""
    change = {"content": "evil", "old_string": SECRET, "new_string": "evil"}
    edits = [{"old_string": SECRET, "new_string": "evil"}]
    registry = ToolRegistry()
    with attacked(tmp_path) as inside:
        root = str(inside)
        for tool in [kind(root, registry=known) for kind in EACH for known in (None, registry)]:
            for path in ("../secret.txt", "/etc/hostname", "..\\secret.txt", "root-sibling/../../secret.txt"):
                response = tool.run({"path": path, **change, "edits": edits})
                assert response.code == ToolErrorCode.PERMISSION_DENIED, (tool.name, path)
                assert SECRET not in response.to_json()
    assert registry.read_metadata_cache == {}


_TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.sampled_from(["a.txt", "x", "."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["old_string", "?"]), inner),
    max_leaves=6,
)
_NAMES = ["path", "offset", "limit", "content", "old_string", "new_string", "edits", "file_mtime_ms", "?"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> list[FileTool]:
    """One of each kind, of one folder."""
    folder, registry = tmp_path_factory.mktemp("any"), ToolRegistry()
    return [kind(folder, registry=registry) for kind in EACH]


@given(parameters=st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_whatever_is_given_is_answered(parameters: dict[str, Any], tools: list[FileTool]) -> None:
    """Any JSON as any parameter gives a response that can be written down, and never raises."""

    async def answers() -> list[ToolResponse]:
        return [await tool.arun(parameters) for tool in tools]

    for response in anyio.run(answers):
        assert isinstance(response, ToolResponse)
        assert response.to_json()


def test_windows_paths(root: Path) -> None:
    """A backslash is taken for a slash, as HelloAgents reads it."""
    (root / "src").mkdir()
    (root / "src/a.py").write_text("x")
    assert ReadTool(str(root)).run({"path": "src\\a.py"}).data["content"] == "x"


# --- threads and event loops ------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_in_an_event_loop(root: Path) -> None:
    """Awaited, several at once; and as a plain function, which a program may call there as well."""
    read, write = ReadTool(str(root)), WriteTool(str(root))
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(write.arun, {"path": f"{number}.txt", "content": str(number)})
    assert [read.run({"path": f"{number}.txt"}).data["content"] for number in range(5)] == list("01234")
    assert (await read.arun({"path": "config.py"})).data["size"] == 18


@pytest.mark.anyio
async def test_a_file_that_takes_long_does_not_hold_the_loop(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk is waited for, the event loop goes on; cancelled, the call leaves nothing in the registry."""
    reached, go_on = threading.Event(), threading.Event()
    registry = ToolRegistry()
    read = ReadTool(str(root), registry=registry)
    look: Callable[..., Any] = read._files.jail.read

    def slowly(*args: Any) -> Any:
        reached.set()
        go_on.wait(20)
        return look(*args)

    monkeypatch.setattr(read._files.jail, "read", slowly)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read.arun, {"path": "config.py"})
            with anyio.fail_after(20):
                await anyio.to_thread.run_sync(reached.wait)
            tasks.cancel_scope.cancel()
    finally:
        go_on.set()
    assert registry.read_metadata_cache == {}


def test_from_many_threads(root: Path) -> None:
    """Programs that run tools in threads of their own: every call is answered, and the file is one of theirs, whole."""
    write = WriteTool(str(root))
    contents = [str(number) * 1000 for number in range(8)]
    responses: list[ToolResponse] = []
    threads = [
        threading.Thread(target=lambda text=text: responses.append(write.run({"path": "a.txt", "content": text})))
        for text in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(responses) == len(contents)
    assert {response.code for response in responses} <= {None, ToolErrorCode.CONFLICT}
    assert ToolStatus.SUCCESS in {response.status for response in responses}
    assert (root / "a.txt").read_text() in contents
    assert not list(root.rglob("*.part"))
