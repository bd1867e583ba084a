"""The file tools in a run, with the anthropic package's own client, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.toolkit.tests.files_calls import tree
from tests.continuing import CutModel
from tests.streams import REQUEST
from tests.support import anthropic_client, check_history

import eagerstream
from eagerstream import RunStatus, ToolStop
from eagerstream.recordings import Recording
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, text, tool_use
from eagerstream_toolkit import EagerTextEditor, Files

POEM = "".join(f"line {number}\n" for number in range(400))


def results_in(message: Mapping[str, Any]) -> list[str]:
    """What the model was told, call by call."""
    contents = [block["content"] for block in message["content"]]
    return [said if isinstance(said, str) else "\n".join(part["text"] for part in said) for said in contents]


def edit(old: str, new: str, mtime_ms: int, *, id: str) -> Any:
    """An edit of the version that was read."""
    return tool_use("Edit", {"path": "a.py", "old_string": old, "new_string": new, "file_mtime_ms": mtime_ms}, id=id)


@pytest.mark.slow
@pytest.mark.anyio
async def test_read_edit_write(tmp_path: Path) -> None:
    """Read, three edits in one turn that all name the version that was read, and a file that is written as it comes."""
    (tmp_path / "a.py").write_bytes(b"one = 1\r\ntwo = 2\r\n")
    (tmp_path / "poems").mkdir()

    def edits(request: Mapping[str, Any]) -> Recording:
        said = results_in(request["messages"][-1])[0]
        assert said.endswith("one = 1\ntwo = 2\n")
        mtime_ms = int(said.split("file_mtime_ms=")[1].split("\n")[0])
        return reply(
            edit("one = 1", "one = 'I'", mtime_ms, id="e1"),
            edit("two = 2", "two = 'II'", mtime_ms, id="e2"),
            edit("'I'\n", "'i'\n", mtime_ms, id="e3"),
        )

    scenario = Scenario(
        reply(tool_use("Read", {"path": "a.py"})),
        edits,
        reply(tool_use("Write", {"path": "poems/poem.txt", "content": POEM}, fragment_chars=40)),
        reply(text("Done.")),
        timing=Timing(tokens_per_second=5000),
    )
    calls: dict[str, str] = {}
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:
        with anyio.fail_after(50):
            async with eagerstream.run(client, tools=[*Files(tmp_path)], **REQUEST) as run:
                async for event in run:
                    if isinstance(event, ToolStop):
                        calls[event.call.id] = event.call.name
                        assert not event.call.is_error
                        assert event.call.streams is (event.call.name == "Write")
    assert sorted(calls.values()) == ["Edit", "Edit", "Edit", "Read", "Write"]
    assert run.result.status is RunStatus.COMPLETED
    check_history(run.result.messages)
    assert tree(tmp_path) == {
        "a.py": b"one = 'i'\r\ntwo = 'II'\r\n",
        "poems": None,
        "poems/poem.txt": POEM.encode(),
    }
    assert str(tmp_path) not in json.dumps(run.result.messages)


@pytest.mark.anyio
async def test_a_reply_that_is_cut_inside_a_file(tmp_path: Path) -> None:
    """`max_tokens` in the middle of a content: nothing of it is there, and the history can be sent."""
    raw = json.dumps({"path": "new/poem.txt", "content": POEM})[:-100]
    cut = reply(text("Look:"), tool_use("Write", raw, closed=False, fragment_chars=40), stop_reason="max_tokens")
    scenario = Scenario(cut, timing=Timing(tokens_per_second=5000))
    async with ReplayServer(scenario) as server, anthropic_client(server.base_url) as client:
        with anyio.fail_after(50):
            async with eagerstream.run(client, tools=[*Files(tmp_path)], **REQUEST) as run:
                await run.finish()
    assert run.result.status is RunStatus.TRUNCATED
    check_history(run.result.messages)
    assert tree(tmp_path) == {}


@pytest.mark.anyio
@pytest.mark.parametrize("is_lost", [False, True])
async def test_files_that_are_cut_off(tmp_path: Path, is_lost: bool) -> None:
    """Each tool that writes, and the editor, finish a file whose input is cut off, by a limit or a lost connection."""
    files = Files(tmp_path, require_read=False)
    editor = EagerTextEditor(tmp_path, root_name="/repo")
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    calls: list[tuple[Any, dict[str, Any], int]] = [
        (files.write, {"path": "new.txt", "content": POEM}, 900),
        (editor, {"command": "create", "path": "/repo/made.txt", "file_text": POEM}, 900),
        (files.edit, {"path": "old.txt", "old_string": "one", "new_string": POEM}, 900),
    ]
    for used, input, at in calls:
        model = CutModel(input, (at, is_lost), name=used.name)
        given = {**REQUEST, "on_truncated": "continue_input", "restart_delay_s": 0.0}
        with anyio.fail_after(30):
            result = await eagerstream.run(model.transport(), **given, tools=[used])
        assert [call.is_error for call in result.calls] == [False], result.calls[0].text
        assert len(model.asked) == 1
    assert (tmp_path / "new.txt").read_text() == (tmp_path / "made.txt").read_text() == POEM
    assert (tmp_path / "old.txt").read_text() == f"{POEM}\ntwo\n"
