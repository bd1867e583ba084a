"""Session updates of ACP: what an editor is told of a run, and what it is never told."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any

import pytest
from acp.schema import SessionNotification, ToolCallUpdate
from acp.utils import serialize_params
from hypothesis import given, strategies as st
from packages.progress.tests.observed import events_of, recorded
from packages.progress.tests.stories import HOSTILE, Story, stories
from packages.progress.tests.streams import IMAGE, Told, told_faults, told_recordings
from tests.reliability.schedules import at_bytes
from tests.streams import cuts_of, made_recordings
from tests.tables import rows

from eagerstream._support.json_values import encodable
from eagerstream_progress import Record, RunLog
from eagerstream_progress._exact import marked
from eagerstream_progress._merge import merge_records
from eagerstream_progress.acp import ACPEncoder, ACPTool
from eagerstream_progress.acp._call import MAX_PARTIAL_BYTES
from eagerstream_progress.acp._content import MAX_TEXT_CHARS, prompt_blocks
from eagerstream_progress.acp._tools import MAX_LOCATIONS, Places, kind_of, title_of

CWD = "/home/ada/project"
EDITOR = "str_replace_based_edit_tool"


def cut(text: str, chars: int) -> list[str]:
    return [text[at : at + chars] for at in range(0, len(text), chars)]


def records_of(raw: Any, *, chars: int = 1, name: str = "Write", **options: Any) -> list[Record]:
    """The records of one call whose input comes in fragments of so many characters."""
    text = raw if isinstance(raw, str) else json.dumps(raw)
    return recorded(events_of(*cut(text, chars), name=name), **options)


def encoded(records: Iterable[Record], **options: Any) -> list[Any]:
    """The updates of records that come one at a time, as plain JSON that any reader takes."""
    encoder = ACPEncoder(cwd=CWD, **options)
    updates = [update for record in records for update in encoder.encode([record])]
    return [check(update) for update in updates]


def check(update: dict[str, Any]) -> Any:
    """The update as the official library sends it: nothing of it is lost, and strict readers can read the line."""
    known = SessionNotification.model_validate({"sessionId": "s", "update": update})
    sent = serialize_params(known)
    line = json.dumps(sent, allow_nan=False)
    json.dumps(sent, ensure_ascii=False).encode()  # no half of a surrogate pair
    assert deepest(sent) <= 100
    assert json.loads(line)["update"] == without_null_texts(update)
    return update


def without_null_texts(update: dict[str, Any]) -> dict[str, Any]:
    """A missing text and null are the same in the protocol."""
    if "content" not in update or not isinstance(update["content"], list):
        return update
    return {**update, "content": [{k: v for k, v in item.items() if v is not None} for item in update["content"]]}


def deepest(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def paths(updates: Iterable[dict[str, Any]]) -> list[str]:
    return [place["path"] for update in updates for place in update.get("locations", ())]


def last_input(updates: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return next(update for update in reversed(updates) if "rawInput" in update)


# --- finished fields --------------------------------------------------------------------------------------------------


def test_a_path_is_shown_when_it_is_finished() -> None:
    """In single characters: not before its closing quote, and then at once, while the text is still written."""
    path = "src/deep/app.py"
    records = records_of({"path": path, "content": "print()\n" * 20}, name="Write")
    encoder = ACPEncoder(cwd=CWD)
    seen: list[str] = []
    for record in records:
        updates = encoder.encode([record])
        if record["type"] == "input_delta" and "path" in record["finished"]:
            assert paths(updates) == [f"{CWD}/{path}"]
        seen += paths(updates)
    assert set(seen) == {f"{CWD}/{path}"}
    # In between, the input grew: each value begins with the one before.
    inputs = [update["rawInput"] for update in encoded(records) if "rawInput" in update]
    texts = [input.get("content", "") for input in inputs]
    assert len(set(texts)) > 5
    assert all(later.startswith(text) for text, later in pairwise(texts))
    assert inputs[0]["path"] != path
    assert inputs[-1] == {"path": path, "content": "print()\n" * 20}


_KEYS = st.sampled_from(["path", "file_path", "paths", "text"])
_WHOLE = st.text("abc/.", max_size=6).map(lambda text: f"{text}$")  # only a complete path ends with the sign
_VALUES = st.one_of(_WHOLE, st.lists(_WHOLE, max_size=3), st.integers(), st.dictionaries(_KEYS, _WHOLE, max_size=2))


@given(st.lists(st.tuples(_KEYS, _VALUES), max_size=6), st.booleans(), st.data())
def test_no_half_of_a_path(fields: list[tuple[str, Any]], ends: bool, data: st.DataObject) -> None:
    """However an input is cut and merged, late watchers included, and if its keys come twice: each path is complete."""
    text = "{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in fields) + "}"
    if not ends:
        text = text[: data.draw(st.integers(0, len(text)))]
    records = recorded(events_of(*data.draw(cuts_of(text)), name="open"))
    log = RunLog("run")
    late = data.draw(st.integers(0, len(records)))
    log.append(records[:late])
    batches: list[list[Record]] = [log.snapshot().records] if data.draw(st.booleans()) else [records[:late]]
    batches += [merge_records(records[at : at + 3]) for at in range(late, len(records), 3)]
    encoder = ACPEncoder(cwd=CWD)
    for batch in batches:
        updates = [check(update) for update in encoder.encode(batch)]
        assert all(path.endswith("$") for path in paths(updates))
        titles = [update["title"] for update in updates if "title" in update]
        assert all(title == "open" or title.endswith("$`") for title in titles)


@rows("chars", [1, 7, 30, 50, 100])
def test_a_key_that_comes_twice(chars: int) -> None:
    """An editor would follow the second value as it grows. It is shown at the end, to those who come late as well."""
    whole = {f"{CWD}/a.py", f"{CWD}/bcdefgh.py"}
    records = records_of('{"path":"a.py","x":1,"path":"/home/ada/project/bcdefgh.py"}', chars=chars, name="open")
    for late in range(len(records)):
        log = RunLog("run")
        log.append(records[:late])
        encoder = ACPEncoder(cwd=CWD)
        updates = encoder.encode(log.snapshot().records)
        updates += [update for record in records[late:] for update in encoder.encode([record])]
        shown = paths(updates)
        assert set(shown) <= whole
        assert shown[-1] == f"{CWD}/bcdefgh.py"


# --- the cost ---------------------------------------------------------------------------------------------------------


def size_of(updates: Iterable[Any]) -> int:
    return sum(len(json.dumps(update, separators=(",", ":"))) for update in updates)


def test_the_size_of_all_updates_is_linear() -> None:
    """ACP has no patches: the value is sent again when it has grown by a quarter. Each fragment comes alone here."""
    for chars in (2_000, 8_000, 32_000):
        input = {"path": "a.py", "text": "x" * chars}
        raw = len(json.dumps(input))
        updates = encoded(records_of(input, chars=8, name="open"))
        assert 20 < len(updates) < 80
        assert size_of(updates) < 6 * raw + 200 * len(updates)


def test_a_long_input_is_not_shown_while_it_grows() -> None:
    """Beyond 64 KiB, it comes once more, at its end; what is larger than a message comes shortened."""
    for chars in (200_000, 1_500_000):
        updates = encoded(records_of({"path": "a.py", "text": "x" * chars}, chars=1_000, name="open"))
        *growing, last = [update for update in updates if "rawInput" in update]
        assert size_of(growing) < 5 * MAX_PARTIAL_BYTES + 200 * len(growing)
        assert len(last["rawInput"]["text"]) == (chars if chars < MAX_TEXT_CHARS else pytest.approx(16_384, abs=100))
        assert last["rawInput"]["path"] == "a.py"


def test_an_input_of_many_fields() -> None:
    """Neither many small values nor a list of many paths makes a large message."""
    records = records_of({f"field{number:030}": number for number in range(40_000)}, chars=99_000, name="open")
    assert "too large to be shown" in last_input(encoded(records))["rawInput"]
    updates = encoded(records_of({"paths": [f"{number}.py" for number in range(1_000)]}, chars=500, name="open"))
    assert len(last_input(updates)["locations"]) == MAX_LOCATIONS


# --- paths, titles, kinds ---------------------------------------------------------------------------------------------


@rows(
    "path, shown",
    [
        ("src/app.py", f"{CWD}/src/app.py"),
        ("./src/../app.py", f"{CWD}/app.py"),
        (f"{CWD}/a b.py", f"{CWD}/a b.py"),
        (f"{CWD}/über.py", f"{CWD}/über.py"),
        (".", CWD),
        ("/srv/shared/x.py", "/srv/shared/x.py"),
        ("/etc/passwd", None),
        ("../other/x.py", None),
        ("src/../../x.py", None),
        (f"{CWD}-of-somebody/x.py", None),
        (f"{CWD}/../x.py", None),
        (f"/{CWD}/x.py", None),  # two slashes at the start are a place of their own
        ("", None),
        ("a\nb.py", None),
        ("a\x1b[2Jb.py", None),
        ("a\x00.py", None),
        ("a\u202eyp.exe", None),
        ("a\ud800.py", None),
        ("x" * 5_000, None),
        (7, None),
        (None, None),
        ({"path": "a.py"}, None),
    ],
)
def test_paths(path: Any, shown: str | None) -> None:
    """Only paths in the folders of the session are shown, as absolute ones: an editor opens them without a question."""
    assert Places(CWD, ["/srv/shared/"]).absolute(path) == shown


def test_names_of_a_tools_own() -> None:
    """A program says where its tool's paths are. What it finds has to be in the folders, too, and may fail."""

    def real_path(path: str) -> str | None:
        return path.replace("/repo", CWD) if path.startswith("/repo") else {"no": None, "out": "/etc/passwd"}[path]

    for path, shown in (("/repo/a.py", [f"{CWD}/a.py"]), ("no", []), ("out", []), ("unknown", []), ("/repo/../x", [])):
        updates = encoded(records_of({"path": path}, name="Read"), real_path=real_path)
        assert [*dict.fromkeys(paths(updates))] == shown


@rows(
    "name, text, title",
    [
        ("Write", "src/app.py", "Write `src/app.py`"),
        ("bash", "ls -la\nrm -rf /", "bash `ls -la rm -rf /`"),
        ("mcp__files__read", "", "mcp__files__read"),
        ("[click](http://x)", "", "?click??http://x?"),
        ("<img src=x>\n# a", "`](http://x)", "?img src?x? ? a `'](http://x)`"),
        ("\x1b[31mred", "\x1b]0;x\x07", "red"),
        ("", "", "tool"),
        ("é" * 500, "\ud800", f"{'é' * 120}? `\ufffd`"),
    ],
)
def test_titles(name: str, text: str, title: str) -> None:
    """Editors read Markdown in titles: a name that a model made up, or a path, makes no link, image or heading."""
    assert title_of(name, text) == title


@rows(
    "name, kind",
    [
        *(
            ("read_file", "read"),
            ("list_dir", "read"),
            ("make_file", "edit"),
            ("writeFile", "edit"),
            ("rename", "move"),
        ),
        *(("deleteFile", "delete"), ("grep", "search"), ("run_tests", "execute"), ("think", "think")),
        *(
            ("fetch_page", "fetch"),
            ("get_weather", "other"),
            ("reader", "other"),
            ("", "other"),
            ("switch_mode", "other"),
        ),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    """The kind of an unknown tool comes from the words of its name."""
    assert kind_of(name) == kind


@rows(
    "name, input, kind, diffs",
    [
        ("Read", {"path": "a.py"}, "read", []),
        ("Write", {"path": "a.py", "content": "x\n"}, "edit", [(None, "x\n")]),
        ("Edit", {"path": "a.py", "old_string": "x", "new_string": ""}, "edit", [("x", "")]),
        (
            "MultiEdit",
            {"path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}, 7, {"old_string": "z"}]},
            "edit",
            [("x", "y")],
        ),
        (EDITOR, {"command": "view", "path": "a.py", "view_range": [3, 9]}, "read", []),
        (EDITOR, {"command": "create", "path": "a.py", "file_text": "x"}, "edit", [(None, "x")]),
        (
            "text_editor",
            {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"},
            "edit",
            [("x", "y")],
        ),
        (
            "text_editor",
            {"command": "insert", "path": "a.py", "insert_line": 2, "insert_text": "y"},
            "edit",
            [("", "y")],
        ),
        (EDITOR, {"command": "insert", "path": "a.py", "insert_line": 2, "new_str": "y"}, "edit", [("", "y")]),
        (EDITOR, {"command": "undo_edit", "path": "a.py"}, "edit", []),
        (EDITOR, {"command": ["create"], "path": "a.py", "file_text": "x"}, "other", []),
        ("memory", {"command": "create", "path": "/memories/x", "file_text": "x"}, "edit", []),
        ("memory", {"command": ["view"], "path": "/memories/x"}, "other", []),
        ("bash", {"command": "ls"}, "execute", []),
        ("web_fetch", {"url": "http://x"}, "fetch", []),
        ("unknown_tool", {"path": "a.py", "content": "x"}, "other", []),
        ("Write", {"path": "/etc/passwd", "content": "x"}, "edit", []),
        ("Write", {"path": "a.py", "content": 7}, "edit", []),
        ("save", {"name": "a.py", "body": "x"}, "edit", [(None, "x")]),
        ("broken", {"path": "a.py"}, "other", []),
    ],
)
def test_tools(name: str, input: dict[str, Any], kind: str, diffs: list[Any]) -> None:
    """The kind, the files and the diffs of known tools, and of those that the program describes."""
    tools = {
        "save": ACPTool(kind="edit", paths=["name"], new="body"),
        "broken": lambda fields: ACPTool(kind=fields["nothing"]),
    }
    updates = encoded(records_of(input, name=name), tools=tools)
    end = last_input(updates)
    assert end["kind"] == kind
    assert [(diff["oldText"], diff["newText"]) for diff in end.get("content", ())] == diffs
    assert all(diff["path"] == f"{CWD}/a.py" for diff in end.get("content", ()))
    is_shown = "a.py" in input.values() and not isinstance(input.get("command"), list)
    lines = {"view_range": 3, "insert_line": 2}
    line = next(({"line": line} for field, line in lines.items() if field in input), {})
    assert end.get("locations", []) == ([{"path": f"{CWD}/a.py", **line}] if is_shown else [])


def test_no_diff_before_the_end() -> None:
    """An input that is cut has none, and one whose texts are larger than a message has none."""
    whole = {"path": "a.py", "content": "x" * 30}
    updates = encoded(records_of(json.dumps(whole)[:-2], name="Write"))
    assert not any(item["type"] == "diff" for update in updates for item in update.get("content", ()))
    updates = encoded(records_of({**whole, "content": "x" * (MAX_TEXT_CHARS + 1)}, chars=9_999, name="Write"))
    assert not any(item["type"] == "diff" for update in updates for item in update.get("content", ()))


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run() -> None:
    """Thinking, text, a call and its result: ids tell messages and calls apart."""
    story = Story().turn()
    thought = story.block()
    story.add("block_start", block=thought, index=0, kind="thinking")
    story.add("thinking_delta", block=thought, thinking="Hm.")
    story.add("block_stop", block=thought, content={"type": "thinking", "signature": "x"})
    story.text("Let ", "me.")
    call = story.call('{"path":"a.py"}', "read_file")
    story.add("tool_start", block=call).add("tool_progress", block=call, value={"lines": 3})
    story.result(call, [{"type": "text", "text": "found"}, IMAGE, {"type": "search_result", "title": "x"}])
    story.turn_stop().turn().text("Done.").end()
    encoder = ACPEncoder(cwd=CWD)
    updates = [check(update) for update in encoder.encode(story.records)]
    assert encoder.stop_reason == "end_turn"
    assert [(update["sessionUpdate"], update.get("status")) for update in updates] == [
        ("agent_thought_chunk", None),
        ("agent_message_chunk", None),
        ("agent_message_chunk", None),
        ("tool_call", "pending"),
        ("tool_call_update", None),
        ("tool_call_update", "in_progress"),
        ("tool_call_update", None),
        ("tool_call_update", "completed"),
        ("agent_message_chunk", None),
    ]
    assert [update.get("messageId") for update in updates[:3]] == ["run1.1", "run1.2", "run1.2"]
    assert {update["toolCallId"] for update in updates[3:8]} == {"run1.3"}
    assert updates[6]["content"] == [{"type": "content", "content": {"type": "text", "text": '{"lines": 3}'}}]
    assert [item["content"] for item in updates[7]["content"]] == [
        {"type": "text", "text": "found"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "text", "text": '{"type": "search_result", "title": "x"}'},
    ]


@rows(
    "status, reason",
    [
        *(("completed", "end_turn"), ("truncated", "max_tokens"), ("limit", "max_turn_requests")),
        *(("refused", "refusal"), ("cancelled", "cancelled"), ("waiting", "end_turn"), ("error", None)),
    ],
)
def test_stop_reasons(status: str, reason: str | None) -> None:
    """An error has none: the prompt is answered with it."""
    encoder = ACPEncoder(cwd=CWD)
    encoder.encode(Story().turn().end(status).records)
    assert encoder.stop_reason == reason


def test_a_call_of_the_api() -> None:
    """It runs from the end of its input on, and its result comes in a block of its own."""
    story = Story().turn()
    story.search()
    story.found({"type": "web_search_result", "title": "x", "url": "http://x"})
    updates = encoded(story.end().records)
    assert [update.get("status") for update in updates] == ["pending", "in_progress", "completed"]
    assert updates[0]["kind"] == "search"
    assert "web_search_result" in updates[-1]["content"][0]["content"]["text"]


def test_a_response_that_starts_again() -> None:
    """Its calls have failed, and a chunk says that its text is void: the protocol cannot take text back."""
    story = Story().turn().text("Let me")
    call = story.input("read_file")
    updates = encoded(story.restart().message(restarted=True).text("Let me see.").end().records)
    assert [update["sessionUpdate"] for update in updates] == [
        *("agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk", "agent_message_chunk")
    ]
    assert updates[2]["status"] == "failed"
    assert updates[2]["toolCallId"] == f"run1.{call}"
    assert "starts again" in updates[3]["content"]["text"]


def test_a_question() -> None:
    """It shows the complete call: a client may show nothing else of it. It is there until somebody has decided."""
    story = Story().turn()
    call = story.input("Write", input={"path": "a.py", "content": "x", "id": 2**53 + 1})
    encoder = ACPEncoder(cwd=CWD)
    encoder.encode(story.stop(call).add("approval_start", block=call).records)
    assert encoder.asked == [call]
    question = encoder.question(call)
    assert serialize_params(ToolCallUpdate.model_validate(question))["title"] == "Write `a.py`"
    assert question["rawInput"] == {"path": "a.py", "content": "x", "id": {"$number": str(2**53 + 1)}}
    assert question["content"] == [{"type": "diff", "path": f"{CWD}/a.py", "newText": "x", "oldText": None}]
    encoder.encode(story.add("approval_stop", block=call, approved=True, reason=None).records[-1:])
    assert encoder.asked == []


@rows("value", [*HOSTILE, '{"a": 1e999, "b": -1e999', '{"text": "\\ud83d', '{"a": "\\ud800", "path": "b'])
def test_hostile_inputs(value: Any) -> None:
    """Readers in Rust refuse a line with deep nesting, infinities or half characters, and leave: `check` looks."""
    encoded(records_of(value, chars=3))
    encoded(records_of(value, chars=10_000))


def test_halves_of_characters_in_texts() -> None:
    """A character that is cut comes complete; a half alone comes as the sign for what is not known."""
    updates = encoded(Story().turn().text("a\ud83d", "\ude00b", "\ude00").end().records)
    assert "".join(update["content"]["text"] for update in updates) == "a\U0001f600b\ufffd"


@given(stories())
def test_any_story(story: Story) -> None:
    """Calls start once, end at most once, and at the end of the run nothing is left open."""
    check_calls(encoded(story.records), is_over=story.records[-1]["type"] == "run_stop")


def check_calls(updates: Sequence[dict[str, Any]], *, is_over: bool = True) -> None:
    status: dict[str, Any] = {}
    for update in updates:
        if update["sessionUpdate"].startswith("tool_call"):
            id = update["toolCallId"]
            assert (update["sessionUpdate"] == "tool_call") == (id not in status)
            assert status.get(id) not in ("completed", "failed")
            status[id] = update.get("status", status.get(id))
    assert not is_over or set(status.values()) <= {"completed", "failed"}


def check_told(told: Told) -> None:
    for records in (told.records, told.snapshot):
        updates = encoded(records)
        check_calls(updates)
        calls = [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"]
        inputs = {update["toolCallId"]: update["rawInput"] for update in updates if "rawInput" in update}
        run = records[0]["run"]  # type: ignore[typeddict-item]
        for call in told.calls():
            assert f"{run}.{call.block}" in calls, told.name
            if call.outcome == "valid":
                value = json.loads(call.raw or json.dumps(call.partial))
                assert inputs[f"{run}.{call.block}"] == marked(encodable(value)), told.name


def test_recordings() -> None:
    """Each of our own recordings becomes updates that the official library takes, with all calls and inputs."""
    for told in told_recordings(random.Random(len(CWD)).sample([*made_recordings()], 12)):
        check_told(told)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_all_recordings_and_faults() -> None:
    """As above, for every recording, and a connection that is lost within events."""
    for told in chain(told_recordings(), told_faults(at_bytes(step=31))):
        check_told(told)


# --- prompts ----------------------------------------------------------------------------------------------------------


def test_prompts() -> None:
    """Texts, images and the files that an editor adds, as blocks of the API."""
    png, pdf = "image/png", "application/pdf"
    content = prompt_blocks(
        [
            {"type": "text", "text": "Look:"},
            {"type": "text", "text": " "},
            {"type": "image", "mimeType": png, "data": "aa"},
            {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
            {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}},
            {"type": "resource", "resource": {"uri": "file:///c", "mimeType": png, "blob": "bb"}},
            {"type": "resource", "resource": {"uri": "file:///d", "mimeType": pdf, "blob": "cc"}},
        ]
    )
    assert content == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "base64", "media_type": png, "data": "aa"}},
        {"type": "text", "text": "[a.py](file:///a.py)"},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "x = 1"},
            "title": "file:///b.py",
        },
        {"type": "image", "source": {"type": "base64", "media_type": png, "data": "bb"}},
        {"type": "document", "source": {"type": "base64", "media_type": pdf, "data": "cc"}},
    ]


@rows(
    "block",
    [
        {"type": "audio", "mimeType": "audio/wav", "data": "aa"},
        {"type": "image", "mimeType": "image/x", "data": "aa"},
        {"type": "resource", "resource": {"uri": "x", "mimeType": "application/zip", "blob": "aa"}},
        {"type": "text", "text": "\n"},
    ],
)
def test_prompts_that_are_refused(block: dict[str, Any]) -> None:
    """The API would refuse them, after the cost of a request."""
    with pytest.raises(ValueError, match="prompt"):
        prompt_blocks([block])
