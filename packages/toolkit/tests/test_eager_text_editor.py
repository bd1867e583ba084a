"""`EagerTextEditor`: files that grow on disk while the model writes them, and stay only if their input is whole."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from packages.toolkit.tests.support import conversation, handles_in, names, needs_proc, results, said, texts
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Broken, Gate, LocalAPI, Piece, check_history, until

import eagerstream
from eagerstream import ToolProgress, ToolStart, validate_history
from eagerstream.loop import Run
from eagerstream_testing import encode_event, reply, text
from eagerstream_toolkit import EagerTextEditor, Jail
from eagerstream_toolkit._growing_file import GrowingFile

DONE = reply(text("Done."), message_id="msg_done")
CREATE = '{"command": "create", "path": "/repo/new/poem.txt", "file_text": "'
ENDED: list[Piece] = [block_stop(0), message_delta("tool_use"), MESSAGE_STOP]


@pytest.fixture
def editor(tmp_path: Path) -> EagerTextEditor:
    return EagerTextEditor(tmp_path, root_name="/repo")


def holds(path: Path, content: str) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text() == content


@asynccontextmanager
async def writing(editor: EagerTextEditor, *pieces: Piece | str, **options: Any) -> AsyncIterator[Run]:
    """A run with the anthropic package's own client whose model writes one call; strings are parts of its input."""
    body = [input_delta(0, piece) if isinstance(piece, str) else piece for piece in pieces]
    api = LocalAPI([message_start(), tool_start(0, "text_editor"), *body], [DONE])
    with anyio.fail_after(50):
        async with eagerstream.run(api.anthropic(), **REQUEST, tools=[editor], **options) as run:
            yield run
    check_history(run.result.messages)
    assert validate_history(run.result.messages) == []


# --- growing ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_new_file_grows_at_its_place(tmp_path: Path, editor: EagerTextEditor) -> None:
    """Each piece is there for everybody while the rest is not even sent."""
    path = tmp_path / "new" / "poem.txt"
    gates = [Gate(), Gate(), Gate()]
    pieces = [CREATE, gates[0], "Roses are r", gates[1], "ed,\\nviolets", gates[2], ' are blue.\\n"}', *ENDED]
    async with writing(editor, *pieces) as run:
        for gate, content in zip(gates, ("", "Roses are r", "Roses are red,\nviolets"), strict=True):
            await until(holds(path, content))
            assert not run.result.calls or run.result.calls[0].input.outcome is None
            gate.opened.set()
        await run.finish()
    assert path.read_text() == "Roses are red,\nviolets are blue.\n"
    assert results(run.result) == [("File created successfully at: /repo/new/poem.txt", False)]
    assert names(path.parent) == ["poem.txt"]


@pytest.mark.anyio
async def test_a_file_that_is_there_is_replaced_at_once(tmp_path: Path, editor: EagerTextEditor) -> None:
    """Others see the old one until the input is whole and valid, then the new one."""
    path = tmp_path / "new" / "poem.txt"
    path.parent.mkdir()
    path.write_text("old")
    gates = [Gate(), Gate()]
    pieces = [CREATE, "fresh", gates[0], ' text"', gates[1], "}", *ENDED]
    async with writing(editor, *pieces) as run:

        def grown(content: str) -> Callable[[], bool]:
            return lambda: any(part.read_text() == content for part in path.parent.glob(".*.part"))

        for gate, content in zip(gates, ("fresh", "fresh text"), strict=True):
            await until(grown(content))
            assert path.read_text() == "old"
            gate.opened.set()
        await run.finish()
    assert path.read_text() == "fresh text"
    assert results(run.result) == [("File replaced successfully at: /repo/new/poem.txt", False)]
    assert names(path.parent) == ["poem.txt"]


@pytest.mark.anyio
async def test_progress(editor: EagerTextEditor) -> None:
    """How many lines and characters have been written; the last report has them all."""
    told: list[Any] = []
    async with writing(editor, CREATE, "a\\nb", 'c\\n\\u00e9"}', *ENDED) as run:
        async for event in run:
            if isinstance(event, ToolProgress):
                told.append(event.value)
    assert told[-1] == {"path": "/repo/new/poem.txt", "lines": 3, "characters": 6}


# --- what is cut, or wrong --------------------------------------------------------------------------------------------

CUTS: dict[str, list[Piece | str]] = {
    "max_tokens": [block_stop(0), message_delta("max_tokens"), MESSAGE_STOP],
    "connection lost": [Broken()],
    "refusal": [block_stop(0), message_delta("refusal"), MESSAGE_STOP],
    "not JSON": ["\n oops", *ENDED],
    "not JSON after the text": ['", oops}', *ENDED],
    "cut after the text": ['"', block_stop(0), message_delta("max_tokens"), MESSAGE_STOP],
    "another parameter is wrong": ['", "insert_line": "x"}', *ENDED],
    "an unknown parameter": ['", "mode": "w"}', *ENDED],
    "a parameter comes twice": ['", "path": "/repo/other.txt"}', *ENDED],
    "the text comes twice": ['", "file_text": "y"}', *ENDED],
}


async def _cut(editor: EagerTextEditor, path: Path, how: str, before: str) -> str:
    """What the tool answers to a call that was cut once `before` and "one\\ntwo" were seen on disk."""
    gate = Gate()
    async with writing(editor, CREATE, "one\\ntwo", gate, *CUTS[how], max_restarts=0) as run:
        grown = holds(path, "one\ntwo") if not before else lambda: any(path.parent.glob(".*.part"))
        await until(grown)
        gate.opened.set()
        try:
            await run.finish()
        except eagerstream.EagerStreamError:
            pass
    (call,) = run.result.calls
    assert call.ran
    return json.dumps(call.result)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("how", "before"),
    [*((how, "") for how in CUTS), *((how, "old") for how in ("max_tokens", "cut after the text", "not JSON"))],
)
async def test_nothing_stays_of_an_input_that_is_not_whole(tmp_path: Path, how: str, before: str) -> None:
    """Neither a part of a file nor a folder that was made for it; an old file stays as it was."""
    path = tmp_path / "new" / "poem.txt"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    told = await _cut(EagerTextEditor(tmp_path, root_name="/repo"), path, how, before)
    assert '"is_error": true' in told
    if before:
        assert path.read_text() == before
        path.unlink()
        path.parent.rmdir()
    assert names(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["max_tokens", "connection lost", "not JSON", "cut after the text"])
async def test_keep_partial(tmp_path: Path, how: str) -> None:
    """On request the part stays, and the model is told how much it is."""
    path = tmp_path / "new" / "poem.txt"
    told = await _cut(EagerTextEditor(tmp_path, root_name="/repo", keep_partial=True), path, how, "")
    assert path.read_text() == "one\ntwo"
    assert "[PARTIAL] /repo/new/poem.txt was kept as far as it came: 2 lines, 7 characters." in told
    path.write_text("old")  # a part of the new text is worth less than the whole of the old one
    told = await _cut(EagerTextEditor(tmp_path, root_name="/repo", keep_partial=True), path, how, "old")
    assert texts(path.parent) == {"poem.txt": "old"}
    assert "/repo/new/poem.txt is as it was before." in told


@pytest.mark.anyio
@pytest.mark.parametrize("keep", [False, True])
async def test_a_run_that_is_cancelled(tmp_path: Path, keep: bool) -> None:
    """It leaves nothing behind, or what was asked for."""
    path = tmp_path / "new" / "poem.txt"
    editor = EagerTextEditor(tmp_path, root_name="/repo", keep_partial=keep)
    with anyio.CancelScope() as scope:
        async with writing(editor, CREATE, "one\\ntwo", Gate()) as run:
            await until(holds(path, "one\ntwo"))
            scope.cancel()
            await run.finish()
    assert scope.cancelled_caught
    assert names(tmp_path) == (["new", "new/poem.txt"] if keep else [])


@pytest.mark.anyio
async def test_a_guard_that_says_no(tmp_path: Path) -> None:
    """What was written by then goes, also where parts are kept otherwise."""

    def guard(partial: dict[str, Any]) -> str | None:
        return "No secrets." if "secret" in partial.get("file_text", "") else None

    editor = EagerTextEditor(tmp_path, root_name="/repo", keep_partial=True, guard=guard)
    path = tmp_path / "new" / "poem.txt"
    gate = Gate()
    async with writing(editor, CREATE, "my ", gate, 'secret"}', *ENDED) as run:
        await until(holds(path, "my "))
        gate.opened.set()
        await run.finish()
    assert names(tmp_path) == []
    assert "No secrets." in str(results(run.result))


@pytest.mark.anyio
async def test_a_file_that_is_taken_away_while_it_grows(tmp_path: Path, editor: EagerTextEditor) -> None:
    """What stands in its place by then is somebody else's: it stays, and the model is told."""
    path = tmp_path / "new" / "poem.txt"
    gate = Gate()
    async with writing(editor, CREATE, "mine", gate, '"}', *ENDED) as run:
        await until(holds(path, "mine"))
        path.unlink()
        path.write_text("theirs")
        gate.opened.set()
        await run.finish()
    assert results(run.result) == [("Error: /repo/new/poem.txt was taken away while it was being written", True)]
    assert path.read_text() == "theirs"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "fields"),
    [("str_replace", '"old_str": "one", "new_str": "two"'), ("insert", '"insert_line": 0, "insert_text": "two"')],
)
@pytest.mark.parametrize("end", ["max_tokens", "not JSON after the text"])
async def test_edits_wait_for_the_whole_input(tmp_path: Path, command: str, fields: str, end: str) -> None:
    """All that they need is there, and still nothing is changed where the input turns out not to be usable."""
    (tmp_path / "a.txt").write_text("one")
    raw = f'{{"command": "{command}", "path": "/repo/a.txt", {fields}'
    editor = EagerTextEditor(tmp_path, root_name="/repo")
    gate = Gate()
    async with writing(editor, raw, gate, *([", oops}", *ENDED] if "JSON" in end else CUTS[end])) as run:
        async for event in run:
            if isinstance(event, ToolStart):
                gate.opened.set()
    (call,) = run.result.calls
    assert "Nothing was changed." in str(call.result)
    assert (tmp_path / "a.txt").read_text() == "one"


# --- as any tool ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_calls_of_one_reply_follow_one_another(tmp_path: Path, editor: EagerTextEditor) -> None:
    """All commands, over a real connection."""
    path = "/repo/a.txt"
    lines = "".join(f"line {number}\n" for number in range(1, 501))
    result = await conversation(
        editor,
        {"command": "create", "path": path, "file_text": lines},
        {"command": "str_replace", "path": path, "old_str": "line 77\n", "new_str": None},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "first"},
        {"command": "view", "path": path, "view_range": [77, 78]},
        {"insert_text": "x", "insert_line": 0, "path": path, "command": "insert"},
        {"command": "view", "path": "/repo/none.txt"},
        {"command": "create", "path": "/repo/b.txt"},
        {"command": "create", "path": "/elsewhere/b.txt", "file_text": "b"},
        {"file_text": "", "path": "/repo/empty.txt", "command": "create"},
        {"command": "delete", "path": path},
    )
    contents = [content for content, _ in results(result)]
    assert contents[:7] == [
        "File created successfully at: /repo/a.txt",
        "Successfully replaced text at exactly one location.",
        "Successfully inserted text after line 0 of /repo/a.txt.",
        "    77\tline 76\n    78\tline 78",
        "Successfully inserted text after line 0 of /repo/a.txt.",
        "Error: File not found",
        "Error: `file_text` is missing",
    ]
    assert contents[7].endswith("Error: the path '/elsewhere/b.txt' is not allowed: it leads out")
    assert contents[8] == "File created successfully at: /repo/empty.txt"
    assert "'view', 'create', 'str_replace' or 'insert'" in contents[9]
    assert (tmp_path / "a.txt").read_text() == "x\nfirst\n" + lines.replace("line 77\n", "")
    assert names(tmp_path) == ["a.txt", "empty.txt"]


@pytest.mark.anyio
async def test_an_approval(tmp_path: Path) -> None:
    """Then the input is whole before anything is written."""
    seen: list[bool] = []

    def approve(_: Any) -> bool:
        seen.append((tmp_path / "a.txt").exists())
        return True

    editor = EagerTextEditor(tmp_path, approve=approve)
    result = await conversation(editor, {"command": "create", "path": "a.txt", "file_text": "a"})
    assert results(result) == [("File created successfully at: a.txt", False)]
    assert seen == [False]


@pytest.mark.anyio
async def test_called_by_hand(tmp_path: Path) -> None:
    """Outside a run it is a tool like any other."""
    editor = EagerTextEditor(tmp_path, max_characters=12, name="files")
    assert editor.name == "files"
    assert (
        await said(editor, command="create", path="a.txt", file_text="a\nb\n") == "File created successfully at: a.txt"
    )
    assert "missing" in await said(editor, command="create", path="a.txt")
    assert (await said(editor, command="view", path="a.txt")).endswith("\n     1\ta")
    assert (tmp_path / "a.txt").read_text() == "a\nb\n"


def test_the_definition(editor: EagerTextEditor) -> None:
    """Its input streams, and what only some commands need is not required."""
    definition = editor.to_dict()
    assert definition["eager_input_streaming"] is True
    assert definition["input_schema"]["required"] == ["command", "path"]
    assert editor.is_streaming
    assert encode_event({"type": "x", "definition": definition})


@needs_proc
@pytest.mark.anyio
@pytest.mark.parametrize("keep_partial", [False, True])
@pytest.mark.parametrize("step", ["create", "write", "commit"])
async def test_cancelled_by_asyncio_s_own_means(
    tmp_path: Path, anyio_backend: str, monkeypatch: pytest.MonkeyPatch, step: str, keep_partial: bool
) -> None:
    """`asyncio.timeout` and its like leave a thread behind, which must not go on by itself."""
    if anyio_backend != "asyncio":
        pytest.skip("trio has no other means")
    owner: Any = Jail if step == "create" else GrowingFile
    begun, going_on = threading.Event(), threading.Event()
    inner = getattr(owner, step)

    def slowly(*arguments: Any) -> Any:
        begun.set()
        going_on.wait(50)
        return inner(*arguments)

    monkeypatch.setattr(owner, step, slowly)
    editor = EagerTextEditor(tmp_path, keep_partial=keep_partial)
    task = asyncio.ensure_future(editor.call({"command": "create", "path": "new/a.txt", "file_text": "text"}))
    await until(begun.is_set)
    task.cancel()
    await asyncio.sleep(0)
    going_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handles_in(tmp_path / "new") == []
    whole = {"create": "", "write": "text", "commit": "text"}[step]
    if keep_partial or step == "commit":  # the exchange was under way
        assert texts(tmp_path) == {"new/a.txt": whole}
    else:
        assert names(tmp_path) == []


@pytest.mark.anyio
async def test_cancelled_before_it_began(tmp_path: Path) -> None:
    """There is no part that could be kept."""
    editor = EagerTextEditor(tmp_path, keep_partial=True)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await editor.call({"command": "create", "path": "new/a.txt", "file_text": "text"})
    assert scope.cancelled_caught
    assert names(tmp_path) == []
