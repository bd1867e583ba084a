"""Diffs of text edits that grow line by line."""

from __future__ import annotations

import difflib
import json
import sys
from random import Random
from typing import Any, cast

import pytest
from packages.progress.tests.page_modules import PageModules

from eagerstream_progress._diff import CallDiff, LineChange, TextDiff
from eagerstream_progress._record import EditRecord

MARKS = {LineChange.SAME: " ", LineChange.ADDED: "+", LineChange.REMOVED: "-", LineChange.PENDING: "."}


def edit(
    before: str = "", head: str = "", tail: str | None = None, after: str = "", *, line: int | None = 10, **more: Any
) -> EditRecord:
    context = {"before": before, "head": head, "tail": tail, "after": after}
    record: dict[str, Any] = {"v": 2, "seq": 5, "at_s": 0.1, "type": "edit", "block": 1, "path": "a.py"}
    record |= {"new": "/new", "old": "/old", "line": line, "replaced_lines": None, "context": context, **more}
    return cast("EditRecord", record)


def drawn(diff: TextDiff, new: str = "") -> list[str]:
    lines = [diff.line(new, number, 100) for number in range(1, diff.count + 1)]
    return [f"{MARKS[line.change]}{line.number} {line.text}{'|' if line.is_open else ''}" for line in lines]


def test_a_diff_grows() -> None:
    """The same lines at the front stay, the rest waits until the first difference, and the end is a proper diff."""
    diff = TextDiff(edit("def f():\n", "    ", " # here", "\nend\n"), "a = 1\n    b = 2\n    return a")
    assert drawn(diff) == [
        " 10 def f():",
        *[".11     a = 1", ".12     b = 2", ".13     return a # here"],
        *[" 14 ", " 15 end"],
    ]
    diff.read("a = 1\n    b", is_whole=False)
    assert drawn(diff)[1:4] == [" 11     a = 1", ".12     b = 2", ".13     return a # here"]
    assert (diff.newest, diff.added, diff.removed) == (3, 0, 0)
    diff.read("a = 1\n    b = 3\n    ret", is_whole=False)
    assert drawn(diff, "a = 1\n    b = 3\n    ret")[2:] == [
        *["-12     b = 2", "-13     return a # here", "+12     b = 3", "+13     ret|"],
        *[" 14 ", " 15 end"],
    ]
    assert (diff.newest, diff.added, diff.removed) == (6, 2, 2)
    diff.read("a = 1\n    b = 3\n    return a", is_whole=True)
    assert drawn(diff)[1:] == [
        *[" 11     a = 1", "-12     b = 2", "+12     b = 3", " 13     return a # here"],
        *[" 14 ", " 15 end"],
    ]
    assert (diff.newest, diff.added, diff.removed) == (4, 1, 1)


def test_new_texts() -> None:
    """An inserted text, one in place of a file, one that is empty, and one that begins anew."""
    inserted = TextDiff(edit("a\n", after="b\n", old=None), "")
    inserted.read("x\ny\n", is_whole=False)
    assert drawn(inserted, "x\ny\n") == [" 10 a", "+11 x", "+12 y", "+13 |", " 14 b"]
    inserted.read("x\ny\n", is_whole=True)
    assert drawn(inserted) == [" 10 a", "+11 x", "+12 y", " 13 b"]
    created = TextDiff(edit(line=1, old=None, replaced_lines=7, context=None), "")
    created.read("x\ny", is_whole=True)
    assert (drawn(created), created.added, created.removed) == (["+1 x", "+2 y"], 2, 7)
    removed = TextDiff(edit(line=None), "a\nb\n")
    removed.read("", is_whole=True)
    assert drawn(removed) == ["-None a", "-None b"]
    again = TextDiff(edit(), "a\nb")
    again.read("x\ny\nz", is_whole=False)
    again.read("a\nc", is_whole=False)  # a repeated key
    assert drawn(again, "a\nc") == [" 10 a", "-11 b", "+11 c|"]


def test_line_ends() -> None:
    """A line end in two pieces is one, and a carriage return is no part of a line."""
    diff = TextDiff(edit(), "a\r\nb\r\n")
    diff.read("a\r", is_whole=False)
    diff.read("a\r\nb", is_whole=False)
    assert drawn(diff) == [" 10 a", ".11 b"]
    diff.read("a\r\nb\r\n", is_whole=True)
    assert drawn(diff) == [" 10 a", " 11 b"]


def test_the_cost_is_that_of_the_new_text() -> None:
    """Each character is compared once, in pieces of any size, whatever the size of the replaced text."""
    new = "".join(f"line {number}\n" for number in range(2_000))
    compared = []
    for old in (new, new * 20):
        diff = TextDiff(edit(), old)
        for end in range(0, len(new), 7):
            diff.read(new[:end], is_whole=False)
        diff.read(new, is_whole=False)
        compared.append(diff.compared_chars)
    assert compared == [len(new) - new.count("\n")] * 2
    diff, owners = TextDiff(edit(), new), sys.getrefcount(new)
    diff.read(new, is_whole=False)
    assert sys.getrefcount(new) == owners, "appending to a text with another owner copies it"
    late = TextDiff(edit(), "other\n")
    late.read(new[:3], is_whole=False)
    late.read(new, is_whole=False)
    assert late.compared_chars <= 8, "after the first difference, nothing is compared"


@pytest.mark.parametrize("lines", [6, 300])
def test_the_end_is_a_diff_of_both_texts(lines: int) -> None:
    """Removed and same lines are the old text, added and same ones the new one; small ones are as short as difflib's."""
    random_ = Random(lines)
    for _ in range(60 if lines < 10 else 2):
        old, new = (
            ["".join(random_.choices("ab", k=2)) for _ in range(random_.randrange(lines + 1))] for _ in range(2)
        )
        diff = TextDiff(edit(), "\n".join([*old, ""]))
        diff.read("\n".join([*new, ""]), is_whole=True)
        found = [diff.line("", number, 100) for number in range(1, diff.count + 1)]
        assert [line.text for line in found if line.change is not LineChange.ADDED] == old
        assert [line.text for line in found if line.change is not LineChange.REMOVED] == new
        numbers = [line.number for line in found if line.change is not LineChange.REMOVED]
        assert numbers == list(range(10, 10 + len(new)))
        same = sum(
            block.size for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        )
        assert lines > 10 or len(new) - diff.added >= same


def test_several_edits() -> None:
    """Each has its own texts. Missing texts, and those of another form, give no diff."""
    edits = [edit(new=f"/edits/{place}/new", old=f"/edits/{place}/old") for place in range(2)]
    diff = CallDiff(edits)
    fields: dict[str, Any] = {"edits": [{"old": "a\n", "new": "b\n"}, {"old": "c\nd\n"}]}
    assert diff.read(fields, (), is_valid=False)
    assert (diff.counts, diff.parameters) == ("+1 -1", {"edits"})
    fields["edits"][1]["new"] = "c\n"
    assert diff.read(fields, (), is_valid=True)
    assert [drawn(each) for each in diff.diffs] == [["-10 a", "+10 b"], [" 10 c", "-11 d"]]
    wrong: dict[str, Any]
    for wrong in ({}, {"edits": {}}, {"edits": [{"old": 1}]}, {"edits": "x"}):
        assert not CallDiff(edits).read(wrong, (), is_valid=True)
    assert not CallDiff([edit(old=None)]).read({}, (), is_valid=True)


def test_the_page_has_the_same_lines(modules: PageModules) -> None:
    """The page's own code draws the same lines after each piece, and counts the same."""
    random_ = Random(11)
    cases: list[Any] = []
    for number in range(120):
        old = "".join(random_.choices("ab\r\n", k=random_.randrange(14)))
        pieces = ["".join(random_.choices("ab\r\n", k=random_.randrange(1, 6))) for _ in range(4)]
        pieces[0] = old[:3] + pieces[0]
        context = [
            ("b\na\n", "a", None, "b\n"),
            ("a\n", "", "a", ""),
            ("", "", "b", ""),
            ("a\n", "", "", "b\n"),
            ("a\n" * 3, "b", "a", "b\n" * 3),
        ][number % 5]
        line = None if number % 7 == 0 else number
        cases.append([edit(*context, line=line), old, pieces])
    cases.append([edit(), "".join(f"{n % 7}\n" for n in range(400)), ["".join(f"{n % 5}\n" for n in range(300))]])
    script = """
      import { TextDiff } from "./diff.js";
      tell(JSON.parse(given).map(([edit, old, pieces]) => {
        const diff = new TextDiff(edit, old);
        let text = "";
        const states = [...pieces, ""].map((piece, place) => {
          diff.read(text += piece, place === pieces.length);
          return [diff.added, diff.removed, diff.newest, diff.rows(1, diff.count).map((row) => Object.values(row))];
        });
        const middle = Math.ceil(diff.count / 2);
        return [...states, diff.rows(middle, 3).map((row) => Object.values(row))];
      }));"""
    expected: list[Any] = []
    for record, old, pieces in cases:
        diff, text = TextDiff(record, old), ""
        states: list[Any] = []
        for place, piece in enumerate([*pieces, ""]):
            text += piece
            diff.read(text, is_whole=place == len(pieces))
            lines = [diff.line(text, number, 1000) for number in range(1, diff.count + 1)]
            shown = [[line.change.value, line.number, line.text, line.is_open] for line in lines]
            states.append([diff.added, diff.removed, diff.newest, shown])
        middle = (diff.count + 1) // 2
        expected.append([*states, states[-1][3][max(0, middle - 1) : middle + 2]])
    assert modules.run(script, json.dumps(cases)) == expected
