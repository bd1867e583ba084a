"""`Summaries`: a line about each call, and nothing of what the model wrote. Hubs and terminals without contents."""

from __future__ import annotations

import gc
import io
import json
import weakref
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from packages.progress.tests.observed import viewed
from packages.wire.tests.inputs import ended
from rich.console import Console
from tests.streams import REQUEST, wire_events
from tests.support import LocalAPI
from tests.tables import rows

import eagerstream
from eagerstream import InputDelta, InputStop, MessageAssembler, ToolResponse, ToolStop, UsageError
from eagerstream.inputs import GrowingInput
from eagerstream.tools import ToolErrorCode
from eagerstream_progress import Hub, Summaries, Summary, creates, edits, record_schema
from eagerstream_progress._record import record_adapter
from eagerstream_progress._summary import CallFields, Formatter
from eagerstream_progress.terminal import terminal_progress
from eagerstream_progress.web import serve
from eagerstream_testing import reply, text, thinking, tool_use
from eagerstream_wire import ToolInput

SECRET = "hunter2"


def lines_of(name: str, input: Mapping[str, Any], size: int, summaries: Summaries) -> Iterator[tuple[ToolInput, str]]:
    """The input and its line at each fragment, and at the end."""
    assembler: MessageAssembler[GrowingInput] = MessageAssembler(input_type=GrowingInput)
    for wire_event in wire_events(reply(tool_use(name, dict(input), fragment_chars=size)).body):
        for event in assembler.feed(wire_event):
            if isinstance(event, InputDelta | InputStop):
                yield event.input, summaries.of(event.input)


def number_of_lines(text: Any) -> int:
    """As an editor counts them."""
    return len(text.split("\n")) - text.endswith("\n") if isinstance(text, str) and text else 0


@given(st.text('a\n\r"', max_size=40), st.integers(1, 9))
def test_lines_of_a_new_file_at_every_cut(content: str, size: int) -> None:
    """They are counted as the text grows, also if an escape is cut."""
    for input, line in lines_of("Write", {"path": "a.py", "content": content}, size, Summaries()):
        number = number_of_lines(input.partial.get("content"))
        shown = "a.py" if input.partial.get("path") == "a.py" else input.partial.get("path") or "a file"
        assert line == f"Creating {shown}, {number} line{'' if number == 1 else 's'}"


_EDIT = st.fixed_dictionaries({"old_string": st.text("a\n", max_size=9), "new_string": st.text("a\n", max_size=9)})


@given(st.lists(_EDIT, max_size=5), st.integers(1, 9))
def test_lines_of_edits_at_every_cut(changes: list[dict[str, str]], size: int) -> None:
    """Finished edits are counted once."""
    for input, line in lines_of("MultiEdit", {"path": "a.py", "edits": changes}, size, Summaries()):
        so_far: Any = input.partial.get("edits", [])
        added, removed = (
            sum(number_of_lines(edit.get(f"{name}_string")) for edit in so_far) for name in ("new", "old")
        )
        assert line.endswith(f", +{added} -{removed}")


@rows(
    "name, input, line",
    [
        ("Edit", {"path": "a", "old_string": "1\n2\n3", "new_string": "1\n"}, "Editing a, +1 -3"),
        ("text_editor", {"command": "create", "path": "a", "file_text": "1\n2"}, "Creating a, 2 lines"),
        ("str_replace_based_edit_tool", {"command": "str_replace", "path": "a", "old_str": "1"}, "Editing a, +0 -1"),
        ("memory", {"command": "insert", "path": "a", "insert_line": 1, "insert_text": "1\n2\n"}, "Editing a, +2 -0"),
        ("memory", {"command": "rename", "old_path": "a", "new_path": "b"}, "Renaming a"),
        ("memory", {"command": "delete", "path": "a"}, "Deleting a"),
        ("str_replace_editor", {"command": "undo_edit", "path": "a"}, "Undoing an edit of a"),
        ("text_editor", {"command": "view", "path": "a"}, "Reading a"),
        ("text_editor", {"command": SECRET, "path": "a"}, "Working on a file"),
        ("Read", {"path": "a"}, "Reading a"),
        ("bash", {"command": SECRET}, "Running a command"),
        ("run_code", {"code": f"{SECRET}\n2\n"}, "Running code, 2 lines"),
        ("web_search", {"query": SECRET}, "Searching the web"),
        ("get_weather", {"city": SECRET}, "get_weather, 19 characters"),
        ("Write", {"path": ["a"], "content": {"a": 1}}, "Creating a file, 0 lines"),
        ("Write", {"path": "\x1b[2J\u202ea\nb" + "/c" * 100, "content": ""}, f"Creating …{'/c' * 100}"[:10] + "…"),
        ("Write", {"path": "\x1b[2J\u202ea\nb", "content": ["1", "2"]}, "Creating a b, 2 lines"),
    ],
)
def test_known_tools(name: str, input: dict[str, Any], line: str) -> None:
    """The tools with the API's schemas, our own, others, and what hostile models write."""
    *_, (_, shown) = lines_of(name, input, 5, Summaries())
    if line.endswith("…"):
        assert shown == f"Creating …{'/c' * 100}"[: len("Creating …")] + ("/c" * 100)[-79:] + ", 0 lines"
    else:
        assert shown == line


def test_formatters_of_your_own() -> None:
    """A text, words for both times, a ready one for other fields, and one that fails."""

    def book(fields: CallFields) -> str:
        return f"Booking a table for {fields.value('guests', 'number')}"

    def fail(fields: CallFields) -> str:
        raise KeyError(fields.name)

    formatters: dict[str, Formatter] = {
        "book": book,
        "fail": fail,
        "make_file": creates("filename", "lines_of_text"),
        "change": edits("file", "before", "after"),
        "Read": lambda fields: Summary("Looking at a page", "Looked at a page", str(fields.lines("path"))),
    }
    summaries = Summaries(formatters)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("book", {"guests": {"number": 3}}, "Booking a table for 3"),
        ("fail", {"a": 1}, "fail, 8 characters"),
        ("make_file", {"filename": "a", "lines_of_text": ["1"]}, "Creating a, 1 line"),
        ("change", {"file": "a", "before": "1", "after": "2\n3"}, "Editing a, +2 -1"),
        ("Read", {"path": "a"}, "Looking at a page, 1"),
    ]
    for name, input, line in cases:
        *_, (_, shown) = lines_of(name, input, 3, summaries)
        assert shown == line


def test_a_key_that_comes_twice() -> None:
    """The text of the last one counts, as in the value."""
    input = ended('{"path": "a", "content": "1\\n2\\n3", "content": "1"}')
    assert CallFields(input).lines("content") == 1


def test_counting_looks_at_new_text_only() -> None:
    """The work of all looks together is that of one look at the end."""
    looked_at = 0

    class Text(str):
        __slots__ = ()

        def count(self, what: str, start: int = 0) -> int:  # type: ignore[override]
            nonlocal looked_at
            looked_at += len(self) - start
            return super().count(what, start)

    input: Any = SimpleNamespace(outcome=None)
    counts: dict[Any, Any] = {}
    for size in range(0, 5_000, 5):
        input.partial = {"content": Text("line\n" * (size // 5))}
        assert CallFields(input, counts).lines("content") == size // 5
    assert looked_at < 5_000


def test_inputs_of_the_wire_core_that_grow_in_turn() -> None:
    """They take no weak references, and the last one alone is kept."""
    inputs = [ended(json.dumps({"path": "a", "content": "1\n" * number})) for number in (1, 2)]
    summaries = Summaries({"tool": creates()})
    lines = [summaries.of(input) for input in (*inputs, *inputs)]
    assert lines == ["Creating a, 1 line", "Creating a, 2 lines"] * 2


def test_inputs_are_not_kept() -> None:
    """However many runs one object serves."""
    summaries = Summaries()
    [*_, (input, _)] = lines_of("create", {"path": "a"}, 4, summaries)
    reference = weakref.ref(input)
    del input
    gc.collect()
    assert reference() is None


@eagerstream.tool
async def create(path: str, content: str) -> ToolResponse:
    """Create a file."""
    if path == "refused":
        return ToolResponse.error(ToolErrorCode.INVALID_PARAM, SECRET)
    return ToolResponse.success(f"{SECRET}: {content}")


@eagerstream.tool
async def count(words: list[str]) -> Any:
    """Count words."""
    yield SECRET
    yield f"{len(words)} {SECRET}"


_FORMATTERS = {"create": creates()}
_BODY = reply(
    thinking(SECRET),
    text(SECRET),
    tool_use("create", {"path": "a.py", "content": f"{SECRET}\n{SECRET}"}),
    tool_use("create", {"path": "refused", "content": f"{SECRET}\n"}),
    tool_use("create", f'{{"path": "a.py", "content": {SECRET}'),
    tool_use("count", {"words": [SECRET] * 3}),
)
_LINES = [
    "Created a.py, 2 lines",
    "Creating refused, 1 line: failed",
    "Creating a.py, 0 lines: not executed",
    f"count: done, {len(json.dumps({'words': [SECRET] * 3}))} characters",
]


@pytest.mark.anyio
async def test_ends_of_calls() -> None:
    """Done, failed, and not executed."""
    summaries = Summaries(_FORMATTERS)
    lines: dict[int, str] = {}
    async with eagerstream.run(
        LocalAPI([_BODY], [reply(text("Done."))]).transport(), tools=[create, count], **REQUEST
    ) as run:
        async for event in run:
            if isinstance(event, ToolStop):
                lines[event.call.input.index] = summaries.of_call(event.call)
    assert [lines[index] for index in sorted(lines)] == _LINES


@pytest.mark.anyio
async def test_a_hub_without_contents() -> None:
    """Nothing of the contents is in the records, in a file of them, or in the bytes that a page gets."""
    hub = Hub(contents=False, formatters=_FORMATTERS)
    async with (
        serve(hub) as server,
        eagerstream.run(LocalAPI([_BODY], [reply(text(SECRET))]).transport(), tools=[create, count], **REQUEST) as run,
    ):
        log = hub.observe(run)
        await run.finish()
        head = f"GET /events?run={log.id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {server.token}\r\n\r\n"
        received = b""
        async with await anyio.connect_tcp("127.0.0.1", server.port) as connection:
            await connection.send(head.encode())
            with anyio.fail_after(10):
                while b"event: end" not in received:
                    received += await connection.receive()
    assert b"Created a.py, 2 lines" in received
    assert SECRET.encode() not in received
    assert SECRET not in json.dumps(log.records())
    for record in log.records():
        record_adapter().validate_python(record)
    view = viewed(log.records())
    assert [call.result_text for call in view.calls] == _LINES
    assert [call.partial["summary"] for call in view.calls[:2]] == [
        "Creating a.py, 2 lines",
        "Creating refused, 1 line",
    ]
    assert record_schema()


@pytest.mark.anyio
async def test_a_terminal_without_contents() -> None:
    """The lines are printed, and nothing else of the calls."""
    file = io.StringIO()
    api = LocalAPI([_BODY], [reply(text(SECRET))])
    async with (
        eagerstream.run(api.transport(), tools=[create, count], **REQUEST) as run,
        terminal_progress(run, console=Console(file=file, width=200), contents=False),
    ):
        await run.finish()
    assert "create, " in file.getvalue()
    assert SECRET not in file.getvalue()


def test_settings_that_contradict_each_other() -> None:
    """Said at once: otherwise contents would be shown that should not be."""
    with pytest.raises(UsageError, match=r"Hub\(contents=False\)"):
        terminal_progress(Hub(), contents=False)
    with pytest.raises(UsageError, match="formatters are for contents=False"):
        Hub(formatters=_FORMATTERS)
