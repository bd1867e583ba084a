"""Records of text edits: asked of the tool while its input is written, read once, and never in the way of the run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anthropic import AsyncAnthropic
from rich.console import Console
from tests.streams import MESSAGE_STOP, REQUEST, block_stop, input_delta, message_delta, message_start, tool_start
from tests.support import Gate, LocalAPI, until

import eagerstream
from eagerstream import TextEdit, Tool, tool
from eagerstream_progress import Hub, RunLog, load_records, save_records
from eagerstream_progress._edits import EditFinder
from eagerstream_progress._frame import Frame, RunState
from eagerstream_progress._merge import MergedRecords
from eagerstream_progress._record import record_adapter
from eagerstream_progress._view import CallView, RunView
from eagerstream_testing import ReplayServer, Scenario, Timing, reply, tool_use
from eagerstream_toolkit import EagerTextEditor, Files, Memory, TextEditor
from eagerstream_toolkit._text_files import TextFiles

pytestmark = pytest.mark.anyio

CODE = "".join(f"line {number}\n" for number in range(1, 21))


class Writing:
    """A run whose call is being written.

    Attributes:
        log: Its log.
        gates: The places where the response waits, one behind each fragment but the last.
    """

    def __init__(self, log: RunLog, gates: Sequence[Gate]) -> None:
        self.log = log
        self.gates = gates

    @property
    def edits(self) -> list[Any]:
        return [record for record in self.log.records() if record["type"] == "edit"]

    @property
    def call(self) -> CallView:
        view = RunView()
        for record in self.log.records():
            view.feed(record)
        return view.calls[-1]

    def lines(self) -> list[str]:
        """The diffs as they are now."""
        diff = self.call.diff
        assert diff is not None
        return [
            f"{line.change.value} {line.number} {line.text}"
            for place, each in enumerate(diff.diffs)
            for line in (
                each.line(diff.new_text(self.call.partial, place), number, 100) for number in range(1, each.count + 1)
            )
        ]


@asynccontextmanager
async def writing(tool: Tool, *fragments: str, hub: Hub | None = None, stops: bool = True) -> AsyncIterator[Writing]:
    """A run with one call. The block is left after its end, for which all gates are opened."""
    gates = [Gate() for _ in fragments[1:]]
    body: list[Any] = [message_start(), tool_start(0, tool.name)]
    for fragment, gate in zip(fragments, [*gates, None], strict=True):
        body += [input_delta(0, fragment), *([gate] if gate else [])]
    end = (
        [block_stop(0), message_delta("tool_use"), MESSAGE_STOP]
        if stops
        else [message_delta("max_tokens"), MESSAGE_STOP]
    )
    client = LocalAPI([*body, *end]).anthropic()
    async with eagerstream.run(client, **REQUEST, tools=[tool], max_turns=1) as run:
        log = (hub or Hub()).observe(run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.finish)
            try:
                yield Writing(log, gates)
            finally:
                for gate in gates:
                    gate.opened.set()


def parts(*places: int, **input: Any) -> list[str]:
    """The text of an input, cut at places."""
    text = json.dumps(input)
    ends = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


def cut_after(what: str, **input: Any) -> list[str]:
    return parts(json.dumps(input).index(what) + len(what), **input)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text(CODE)
    return tmp_path


@pytest.mark.parametrize("make", [TextEditor, EagerTextEditor])
async def test_a_replaced_text(folder: Path, make: Callable[[Path], Tool]) -> None:
    """Its place is known once the old text is finished, and the new one grows in it, with the lines around it."""
    input = {"command": "str_replace", "path": "a.py", "old_str": "ne 9\nline 10\nli", "new_str": "ne 9\nnew\nli"}
    async with writing(make(folder), *cut_after('new_str": "ne 9\\nne', **input)) as seen:
        await until(lambda: seen.edits)
        (edit,) = seen.edits
        assert (edit["path"], edit["new"], edit["old"], edit["line"]) == ("a.py", "/new_str", "/old_str", 6)
        assert edit["context"] == {
            "before": "line 6\nline 7\nline 8\n",
            "head": "li",
            "tail": "ne 11",
            "after": "line 12\nline 13\nline 14\n",
        }
        assert seen.lines()[3:7] == ["same 9 line 9", "removed 10 line 10", "removed 11 line 11", "added 10 ne"]
        assert seen.call.diff is not None
        assert seen.call.diff.counts == "+1 -2"
    assert seen.lines()[3:6] == ["same 9 line 9", "removed 10 line 10", "added 10 new"]
    assert seen.call.diff.counts == "+1 -1"
    assert (folder / "a.py").read_text() == CODE.replace("line 10", "new")
    assert len(seen.edits) == 1


async def test_an_inserted_text(folder: Path) -> None:
    """It stands between the lines around its place, also at the start and at the end of the file."""
    for line, before, number in (
        (0, "", 1),
        (7, "line 5\nline 6\nline 7\n", 5),
        (20, "line 18\nline 19\nline 20\n", 18),
    ):
        input = {"command": "insert", "path": "a.py", "insert_line": line, "insert_text": "x\ny"}
        async with writing(EagerTextEditor(folder), *cut_after('"x', **input)) as seen:
            await until(lambda: seen.edits)
            (edit,) = seen.edits
            assert (edit["context"]["before"], edit["line"]) == (before, number)
        assert f"added {line + 1} x" in seen.lines()
        (folder / "a.py").write_text(CODE)
    (folder / "a.py").write_text("a\nb")  # without a last line end
    input = {"command": "insert", "path": "a.py", "insert_line": 2, "insert_text": "x\ny"}
    async with writing(EagerTextEditor(folder), *cut_after('"x', **input)) as seen:
        await until(lambda: seen.edits)
    assert seen.lines() == ["same 1 a", "same 2 b", "added 3 x", "added 4 y"]
    assert (folder / "a.py").read_text() == "a\nb\nx\ny"


@pytest.mark.parametrize("name", ["a.py", "new.py"])
async def test_a_complete_file(folder: Path, name: str) -> None:
    """The lines of an existing file count as removed, also while the editor writes a new one under its own name."""
    for made, field in ((EagerTextEditor(folder), "file_text"), (Files(folder, require_read=False).write, "content")):
        (folder / "new.py").unlink(missing_ok=True)
        (folder / "a.py").write_text(CODE)
        input = {"command": "create"} if field == "file_text" else {}
        async with writing(made, *cut_after("x\\n", **input, path=name, **{field: "x\ny\n"})) as seen:
            await until(lambda: seen.edits)
            assert seen.lines() == ["added 1 x", "added 2 "]
        assert seen.edits[0]["replaced_lines"] == (20 if name == "a.py" else 0)
        assert seen.lines() == ["added 1 x", "added 2 y"]


async def test_several_edits(folder: Path) -> None:
    """Each is told when its old text is finished, and stands where those before it have left its text."""
    edits = [
        {"old_string": "line 2\n", "new_string": "line 2\nx\ny\n"},
        {"old_string": "line 4\n", "new_string": ""},
        {"old_string": "not there", "new_string": "z"},
    ]
    input = json.dumps({"path": "a.py", "edits": edits})
    place = input.index("line 4") + 12
    async with writing(Files(folder).multi_edit, input[:place], input[place:]) as seen:
        await until(lambda: len(seen.edits) == 2)
        assert [edit["new"] for edit in seen.edits] == ["/edits/0/new_string", "/edits/1/new_string"]
        assert [edit["line"] for edit in seen.edits] == [1, 3]
        assert "pending 6 line 4" in seen.lines()
    assert seen.call.diff is not None


@pytest.mark.parametrize("old", ["nowhere", "line 1", "", 5])
async def test_a_text_without_a_place(folder: Path, old: Any) -> None:
    """A text that is missing, occurs twice or is none gives no line numbers, and the call gets its answer as ever."""
    input = {"command": "str_replace", "path": "a.py", "old_str": old, "new_str": "x"}
    async with writing(TextEditor(folder), *cut_after('"x', **input)) as seen:
        await until(lambda: seen.edits)
    (edit,) = seen.edits
    assert (edit["line"], edit["context"]) == (None, None)
    assert seen.call.phase.value == "failed"
    assert (seen.call.diff is None) == (old == 5)


async def test_paths_outside_read_nothing(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A path that leads out gives no edit. A link, a pipe, a device, a binary and a huge file give one without text."""
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("line 9\n")
    (folder / "link").symlink_to(outside)
    (folder / "binary").write_bytes(b"line 9\n\0")
    os.mkfifo(folder / "fifo")
    with (folder / "huge").open("wb") as file:
        file.truncate(50 * 2**20)
    rest = {"command": "str_replace", "old_str": "line 9\n", "new_str": "x"}
    for path in (str(outside), "../secret", "%2e%2e/secret"):
        async with writing(TextEditor(folder), *cut_after('"x', path=path, **rest)) as seen:
            await seen.gates[0].reached.wait()
        assert seen.edits == []
        assert seen.call.phase.value == "failed"
    for path in ("link", "fifo", "binary", "huge", "missing"):
        async with writing(TextEditor(folder), *cut_after('"x', path=path, **rest)) as seen:
            await until(lambda: seen.edits)
        assert [(edit["path"], edit["line"], edit["context"]) for edit in seen.edits] == [(path, None, None)], path


async def test_a_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a long text is written the disk is not touched again, and a file that changes meanwhile changes no diff."""
    reads: list[Any] = []
    read = TextFiles.document

    def counted(self: TextFiles, parts: Any) -> Any:
        reads.append(parts)
        return read(self, parts)

    monkeypatch.setattr(TextFiles, "document", counted)
    (folder / "a.py").write_text(CODE * 20_000 + "the end\n")
    new = "\n".join(f"new {number}" for number in range(200))
    input = {"command": "str_replace", "path": "a.py", "old_str": "the end", "new_str": new}
    text = json.dumps(input)
    start = text.index("new 0")
    async with writing(
        EagerTextEditor(folder), text[:start], *(text[at : at + 40] for at in range(start, len(text), 40))
    ) as seen:
        await until(lambda: seen.edits)
        (folder / "a.py").write_text("other")
        for gate in seen.gates:
            gate.opened.set()
        await until(lambda: seen.call.input_stop_s is not None)
        assert len(reads) == 1
    (edit,) = seen.edits
    assert edit["line"] == 20 * 20_000 - 2
    assert len(json.dumps(edit)) < 500, "a record does not grow with its file"
    assert f"added {20 * 20_000 + 200} new 199" in seen.lines()
    assert seen.call.phase.value == "failed", "the tool reads the file itself"


async def test_a_slow_disk_delays_nothing(folder: Path) -> None:
    """The run ends while the disk hangs, and what comes after the end of the call is dropped."""
    hangs, ended = threading.Event(), threading.Event()

    def edits(input: Any) -> TextEdit:
        hangs.wait(30)
        ended.set()
        return TextEdit(path="a", new="text", text="")

    @tool(edits=edits)
    async def put(path: str, text: str) -> str:
        """Put a text."""
        return "put"

    try:
        with anyio.fail_after(20):
            async with writing(put, *cut_after('"x', path="a", text="x")) as seen:
                await seen.gates[0].reached.wait()
        assert seen.call.phase.value == "done"
    finally:
        hangs.set()
    await until(ended.is_set)
    await anyio.lowlevel.checkpoint()
    assert seen.edits == []


async def test_a_person_is_asked_while_the_disk_is_slow(folder: Path) -> None:
    """An edit that is found while a call waits for a person is shown at once: nothing else comes meanwhile."""
    goes_on = threading.Event()
    hub = Hub()

    def edits(input: Any) -> TextEdit:
        goes_on.wait(30)
        return TextEdit(path="a", new="text", text="b\n")

    @tool(edits=edits, approve=hub.approve)
    async def put(path: str, text: str) -> str:
        """Put a text."""
        return "put"

    async with writing(put, *cut_after('"x', path="a", text="x"), hub=hub) as seen:
        seen.gates[0].opened.set()
        await until(lambda: hub.questions)
        assert seen.edits == []
        goes_on.set()
        await until(lambda: seen.edits)
        assert seen.lines() == ["added 1 x"]
        hub.decide(*hub.questions[0], approved=True)


async def test_tools_that_say_nonsense(caplog: pytest.LogCaptureFixture) -> None:
    """A function that fails, gives something else, or never knows leaves the call as it is, and is not asked for ever."""
    asked: list[dict[str, Any]] = []
    answers: list[Callable[[], Any]] = [lambda: 1 / 0, lambda: "x", lambda: None]

    def edits(input: Any) -> Any:
        asked.append(dict(input))
        return answers[len(asked) % 3]()

    @tool(edits=edits, definition={"name": "put", "input_schema": {"type": "object"}})
    async def put(input: dict[str, Any]) -> str:
        return "put"

    input = json.dumps({f"f{number}": number for number in range(40)})
    async with writing(put, *(input[at : at + 11] for at in range(0, len(input), 11))) as seen:
        for gate in seen.gates:
            await gate.reached.wait()
            with suppress(TimeoutError), anyio.fail_after(0.02):
                await until(lambda: False)
            gate.opened.set()
    assert seen.edits == []
    assert seen.call.phase.value == "done"
    assert 1 < len(asked) <= 16
    assert asked[0] == {"f0": 0}
    assert "ZeroDivisionError" in caplog.text
    wrong: Any = TextEdit(path=5, new="f1", text="x")  # type: ignore[arg-type]
    answers[:] = [lambda: wrong] * 3
    asked.clear()
    async with writing(put, input) as seen:
        pass
    assert (seen.edits, len(asked)) == ([], 1)


async def test_an_input_that_is_cut(folder: Path) -> None:
    """A path that never finishes is not asked about. A text that is cut keeps the diff that it had."""
    async with writing(TextEditor(folder), '{"command": "create", "pa', 'th": "a.p', stops=False) as seen:
        pass
    assert seen.edits == []
    input = {"command": "str_replace", "path": "a.py", "old_str": "line 9\nline 10\n", "new_str": "line 9\nx"}
    whole = cut_after('new_str": "line 9\\n', **input)[0]
    async with writing(TextEditor(folder), whole, "li", stops=False) as seen:
        await until(lambda: seen.edits)
    assert seen.lines()[3:5] == ["same 9 line 9", "pending 10 line 10"]


async def test_without_contents_no_file_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that shows no contents asks no tool."""
    monkeypatch.setattr(EditFinder, "start", lambda *_: pytest.fail("a tool was asked"))
    input = {"command": "create", "path": "b.py", "file_text": "x"}
    async with writing(TextEditor(folder), *cut_after('"x', **input), hub=Hub(contents=False)) as seen:
        pass
    assert seen.call.phase.value == "done"
    assert seen.edits == []


async def test_late_watchers_and_saved_runs_have_it(folder: Path, tmp_path: Path) -> None:
    """Merged, saved and loaded, it is the same. Secrets of the file are masked, and texts that are no longer kept give no diff."""
    key = "sk-ant-api03-" + "aB3dE6gH9k" * 9
    (folder / "a.py").write_text(f"key = '{key}'\nold\n")
    input = {"command": "str_replace", "path": "a.py", "old_str": "old\n", "new_str": "new\n"}
    async with writing(Memory(folder), *cut_after('"ne', **{**input, "path": "/memories/a.py"})) as seen:
        await until(lambda: seen.edits)
    for is_merged in (True, False):
        async with seen.log.watch(merges=is_merged) as watcher:
            batch = await anext(watcher)
        assert [record for record in batch.records if record["type"] == "edit"] == seen.edits
    save_records(tmp_path / "run.jsonl", seen.log.records())
    assert key not in (tmp_path / "run.jsonl").read_text()
    loaded = load_records(tmp_path / "run.jsonl")
    view = RunView()
    for record in loaded:
        view.feed(record)
    diff = view.calls[0].diff
    assert diff is not None
    assert (diff.path, diff.counts) == ("/memories/a.py", "+1 -1")
    merged = MergedRecords(max_chars=1)  # nothing is kept
    for record in seen.log.records():
        merged.add(record)
    view = RunView()
    for record in merged.records():
        record_adapter().validate_python(record)
        view.feed(record)
    assert view.calls[0].diff is None


async def test_through_a_server_with_the_editor(folder: Path) -> None:
    """Written at the speed of a model, with the real client, it is there long before the end, and the terminal shows it."""
    new = "".join(f"new line {number}\n" for number in range(40))
    input = {"command": "str_replace", "path": "a.py", "old_str": "line 5\n", "new_str": new}
    frames: list[str] = []
    view = RunView()

    def draw() -> None:
        console = Console(file=StringIO(), width=80, height=30, force_terminal=False)
        console.print(Frame(lambda: [RunState(view, 1.0)]))
        frames.append(console.file.getvalue())  # type: ignore[attr-defined]

    scenario = Scenario(reply(tool_use("text_editor", input)), timing=Timing(tokens_per_second=200))
    async with ReplayServer(scenario) as server, AsyncAnthropic(api_key="k", base_url=server.base_url) as client:
        async with eagerstream.run(client, **REQUEST, tools=[EagerTextEditor(folder)], max_turns=1) as run:
            log = Hub().observe(run)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.finish)
                async with log.watch(min_interval_s=0.02) as watcher:
                    async for batch in watcher:
                        for record in batch.records:
                            view.feed(record)
                        draw()
    grown = [frame for frame in frames if "± a.py" in frame and "▌" in frame]
    assert len({frame.count("+   ") for frame in grown}) > 1, "it grows"
    assert any("-    5 line 5" in frame and "+    5 new line 0" in frame for frame in grown)
    assert "+40 -1" in frames[-1]
    assert "✓ text_editor  done" in frames[-1]
