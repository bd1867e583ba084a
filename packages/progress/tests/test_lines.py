"""Progress about lines: its form, the lines of a text that grows, and those that are shown."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given, strategies as st
from packages.progress.tests.page_modules import PageModules
from tests.tables import rows

import eagerstream
from eagerstream_progress import Hub
from eagerstream_progress._lines import LineProgress, LineState, TextLines, shown_lines
from eagerstream_testing import reply, tool_use
from eagerstream_toolkit import CodeTool

FORM = {"parameter": "code", "line": 3, "end_line": 5, "state": "running"}


def test_the_form() -> None:
    """Lines before the statement have run, its own have its state, later ones wait; an unknown word is a bad end."""
    value = {**FORM, "statement": 2, "calls": ["fetch", "look", "fetch", 7], "output": "1\n2\n3\n"}
    progress = LineProgress.of(value, {"code": ""})
    assert progress is not None
    assert [progress.state_of(number).value for number in (2, 3, 5, 6)] == ["done", "running", "running", "waiting"]
    assert progress.summary == "lines 3 to 5 running · fetch x2, look"
    assert progress.output_lines(2, 100) == ["2", "3"]
    assert progress._replace(state="done").state_of(5) is LineState.DONE
    assert progress._replace(state="raised\x1b[2J").summary == "lines 3 to 5 raised · fetch x2, look"
    assert progress._replace(state="raised").state_of(3) is LineState.FAILED
    unbegun = progress._replace(line=0, end_line=0)
    assert (unbegun.state_of(1), unbegun.summary) == (LineState.WAITING, "no line has run")


@rows(
    "changed",
    [
        *({"parameter": name} for name in ("other", "number", None)),
        *({"line": line} for line in (-1, 6, True, "3", 3.0, None)),
        *({"end_line": line} for line in (2, None, 2**53)),
        {"state": 1},
    ],
)
def test_what_is_no_progress_about_lines(changed: dict[str, Any]) -> None:
    """A value that only resembles it is shown as any other progress."""
    assert LineProgress.of({**FORM, **changed}, {"code": "x", "number": 5}) is None


@given(st.lists(st.text("ab\r\n\x0c\u2028", max_size=5), max_size=8), st.integers(0, 3))
def test_lines_in_any_pieces(pieces: list[str], repeats: int) -> None:
    """However the text grows: the same lines as if it were read at once, by Python's line ends."""
    pieces = [piece * 40**repeats if number == 0 else piece for number, piece in enumerate(pieces)][:4]
    lines, text = TextLines(), ""
    for piece in pieces:
        text += piece
        lines.read(text)
    if text.endswith("\r"):
        text += "\n"
        lines.read(text)
    expected = re.split(r"\r\n|\r|\n", text)
    assert lines.count == len(expected)
    for number in {1, 2, len(expected) // 2, len(expected) - 1, len(expected)} & {*range(1, len(expected) + 1)}:
        assert lines.line(text, number, 10**9) == expected[number - 1]
        assert lines.line(text, number, 2) == expected[number - 1][:2]


def test_a_text_that_is_replaced() -> None:
    """A repeated key of the input replaces the text, and its lines are counted anew."""
    lines = TextLines()
    lines.read("a\nb\nc")
    lines.read("x\ny\nz and more")
    assert lines.count == 3
    lines.read("")
    assert (lines.count, lines.line("", 1, 10)) == (1, "")


@given(
    st.integers(1, 20), st.integers(1, 200), st.integers(0, 220), st.integers(0, 30),
    st.sampled_from(["running", "done", "lost"]), st.booleans(),
)  # fmt: skip
def test_the_lines_that_are_shown(rows: int, count: int, line: int, more: int, state: str, is_growing: bool) -> None:
    """They fit, are in order, and have both the statement and the end of a growing text if there is room for two."""
    progress = LineProgress("code", line, line + more, state)
    ranges = list(shown_lines(rows, count, progress, is_growing=is_growing))
    shown = [number for each in ranges for number in each]
    assert shown == sorted(set(shown))
    assert set(shown) <= {*range(1, count + 1)}
    assert len(shown) == min(rows, count) - (len(ranges) == 2 and rows > 2)
    matters = line and state != "done"
    if is_growing and (rows > 1 or not matters):
        assert count in shown
    if matters or not is_growing:
        assert min(max(line, 1), count) in shown


@rows(
    "line, state, is_growing, expected",
    [
        (3, "running", True, [range(2, 4), range(19, 21)]),
        (3, "done", True, [range(16, 21)]),
        (0, "running", True, [range(16, 21)]),
        (18, "running", True, [range(16, 21)]),
        (3, "done", False, [range(2, 7)]),
    ],
)
def test_the_end_of_a_growing_text(line: int, state: str, is_growing: bool, expected: list[range]) -> None:
    """It has all rows if no statement needs any: each has ended, none has begun, or it is in the end itself."""
    assert list(shown_lines(5, 20, LineProgress("code", line, line, state), is_growing=is_growing)) == expected


def test_the_page_reads_the_same_lines(modules: PageModules) -> None:
    """The page's own code finds the same lines in the same pieces, and gives each the same state."""
    random_ = Random(7)
    texts = [["".join(random_.choices("ab\r\n", k=random_.randrange(9))) for _ in range(5)] for _ in range(60)]
    texts += [["a\r"], ["a\n" * 500, "x" * 9_000, "\r", "\n\ry"]]
    reports = [
        {**FORM, **changed}
        for changed in (
            {},
            {"state": "done"},
            {"state": "lost"},
            {"line": 0, "end_line": 0},
            {"line": 6},
            {"line": True},
        )
    ]
    script = """
      import { lineProgress, lineState, TextLines } from "./lines.js";
      const [texts, reports] = JSON.parse(given);
      tell([
        texts.map((pieces) => {
          const lines = new TextLines();
          let text = "";
          for (const piece of pieces) lines.read(text += piece);
          return [lines.count, lines.places(text, Math.ceil(lines.count / 2), 3).map(([start, end]) => text.slice(start, end))];
        }),
        ...[[false, null], [true, "valid"], [true, "incomplete"]].map(([isOver, outcome]) => reports.map((progress) => {
          const read = lineProgress({ progress, partial: { code: "" }, outcome, isError: false }, isOver);
          return read && [2, 3, 5, 6].map((number) => lineState(read, number));
        })),
      ]);"""
    texts = [[piece for piece in pieces if piece] for pieces in texts]
    lines_of_page, states_of_page, states_at_end, states_of_cut = modules.run(script, json.dumps([texts, reports]))
    expected: list[Any] = []
    for pieces in texts:
        lines, text = TextLines(), ""
        for piece in pieces:
            text += piece
            lines.read(text)
        first = (lines.count + 1) // 2
        shown = range(first, min(first + 3, lines.count + 1))
        expected.append([lines.count, [lines.line(text, number, 10**9) for number in shown]])
    assert lines_of_page == expected
    read = [LineProgress.of(report, {"code": ""}) for report in reports]
    assert states_of_page == [each and [each.state_of(number).value for number in (2, 3, 5, 6)] for each in read]
    assert [states_at_end[1], states_of_cut[1]] == [["done"] * 4, ["done", "done", "done", "waiting"]]
    assert states_at_end[0] == ["done", "failed", "failed", "waiting"], "nothing runs any more"


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_code_tool_reports_this_form() -> None:
    """Each report of a real run of code has it, and the last one says where the code has failed."""

    @eagerstream.tool
    async def fetch(number: int) -> int:
        """Fetch a number."""
        return number

    code = "a = await fetch(number=1)\nprint(a)\nb = [\n    1 / 0]\nc = 3\n"
    question: MessageParam = {"role": "user", "content": "Compute."}
    client = reply(tool_use("run_code", {"code": code}))
    async with (
        CodeTool([fetch]) as run_code,
        eagerstream.run(client, model="m", max_tokens=10, max_turns=1, tools=[run_code], messages=[question]) as run,
    ):
        log = Hub().observe(run)
        await run.finish()
    reported = [record["value"] for record in log.records() if record["type"] == "tool_progress"]
    read = [LineProgress.of(value, {"code": code}) for value in reported]
    assert None not in read
    assert [each.summary for each in read if each and each.calls] == ["line 1 running · fetch"]
    last = read[-1]
    assert last is not None
    assert last.summary == "lines 3 to 4 raised"
    assert last.output_lines(3, 100) == ["1"]
