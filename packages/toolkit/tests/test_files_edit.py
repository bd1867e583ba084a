"""`Edit` and `MultiEdit`: one place each, all of them or none, and everything else as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from packages.toolkit.tests.cases import case
from packages.toolkit.tests.files_calls import answer_of, executing, facts, mtime_ms, touched, tree

from eagerstream.tools import ToolErrorCode
from eagerstream_toolkit import Files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def edits_of(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"old_string": old, "new_string": new} for old, new in pairs]


@pytest.mark.anyio
async def test_edit(root: Path) -> None:
    """It need not have been read: the text that is replaced shows that it is known."""
    path = root / "a.txt"
    path.write_text("one two three")
    response = await answer_of(Files(root).edit, path="a.txt", old_string="two", new_string="2\u00fc")
    assert path.read_text() == "one 2\u00fc three"
    assert response.text == "Edited 'a.txt' (+0 bytes)"
    assert response.data == {
        "modified": True,
        "changed_bytes": 0,
        "size_bytes": 13,
        "file_mtime_ms": mtime_ms(path),
        "backup_path": None,
    }


_WHAT_SURVIVES = [
    (b"a\r\nb\r\nc", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc"),  # CRLF, written as LF
    (b"a\r\nb\r\nc", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc"),  # CRLF, written as CRLF
    (b"a\r\nb\nc", "b\nc", "x\n", b"a\r\nx\n"),  # mixed line ends
    (b"a\r\nb\nc", "a\r\nb", "x", b"x\nc"),  # mixed line ends, CRLF named
    (b"a\rb\r", "a\rb", "x", b"x\r"),  # CR alone
    (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),  # a byte order mark
    (b"\xef\xbb\xbfa\r\n", "a\n", "", b"\xef\xbb\xbf"),  # a byte order mark, and nothing else
    (b"a\nb", "b", "x", b"a\nx"),  # no last line end
    (b"a\nb\n", "b\n", "b", b"a\nb"),  # the last line end taken away
    (b"aXb", "X", r"\1 {x} $& %s", rb"a\1 {x} $& %sb"),  # nothing is a pattern
    ("\u0065\u0301".encode(), "e", "o", "o\u0301".encode()),  # a letter without its accent
]


@pytest.mark.anyio
async def test_what_survives(root: Path) -> None:
    """Byte for byte, but for the place that is edited."""
    for content, old, new, expected in _WHAT_SURVIVES:
        with case(content, old, new, expected):
            (root / "a.txt").write_bytes(content)
            assert (await answer_of(Files(root).edit, path="a.txt", old_string=old, new_string=new)).data["modified"]
            assert (root / "a.txt").read_bytes() == expected


_NOT_ONE_MATCH = [
    ("abc", "x", 0),  # none
    ("", "x", 0),  # in an empty file
    ("x x x", "x", 3),  # three
    ("aaa", "aa", 2),  # two that overlap
    ("caf\u00e9", "cafe\u0301", 0),  # another way to write it
    ("a\nb", "a\r\nb", 0),  # other line ends
]


@pytest.mark.anyio
async def test_not_one_match(root: Path) -> None:
    """Refused with the count; guessing which was meant is not for a tool."""
    for content, old, count in _NOT_ONE_MATCH:
        with case(content, old, count):
            (root / "a.txt").write_text(content)
            files = Files(root)
            response = await answer_of(files.edit, path="a.txt", old_string=old, new_string="y")
            assert facts(response) == (
                ToolErrorCode.INVALID_PARAM,
                f"old_string must match exactly one place in the file. It matches {count}.",
            )
            assert response.context == {"path": "a.txt", "matches": count}
            assert tree(root) == {"a.txt": content.encode()}


@pytest.mark.anyio
async def test_edits_follow_each_other(root: Path) -> None:
    """Each sees what those before it left: also what they made, and what they made unique."""
    (root / "a.txt").write_text("one one two")
    edits = edits_of(("one one", "three"), ("three two", "four four"), ("four f", "f"))
    response = await answer_of(Files(root).multi_edit, path="a.txt", edits=edits)
    assert (root / "a.txt").read_text() == "four"
    assert response.text == "Made 3 edits to 'a.txt' (-7 bytes)"
    assert (response.data["num_edits"], response.data["changed_bytes"]) == (3, -7)


_ALL_OR_NOTHING = [
    (("one", "1"), 0),  # replaced by an earlier one
    (("two", "2"), 2),  # made twice by an earlier one
]


@pytest.mark.anyio
async def test_all_or_nothing(root: Path) -> None:
    """An edit that cannot be made undoes those in front of it."""
    for second, count in _ALL_OR_NOTHING:
        with case(second, count):
            (root / "a.txt").write_text("one two")
            edits = edits_of(("one", "two"), second, ("two", "three"))
            response = await answer_of(Files(root).multi_edit, path="a.txt", edits=edits)
            assert facts(response) == (
                ToolErrorCode.INVALID_PARAM,
                f"edits[1]: old_string must match exactly one place in the file. It matches {count}. No edit was made.",
            )
            assert response.context == {"path": "a.txt", "matches": count, "edit_index": 1}
            assert tree(root) == {"a.txt": b"one two"}


def inputs_of(**more: Any) -> list[tuple[str, dict[str, Any]]]:
    """The same edit by each of the two tools."""
    one = edits_of(("one", "two"))
    return [("edit", {**one[0], **more}), ("multi_edit", {"edits": one, **more})]


@pytest.mark.anyio
async def test_what_cannot_be_edited(root: Path) -> None:
    """What is no UTF-8 text is left alone: written back, it would be another file."""
    (root / "folder").mkdir()
    (root / "nul").write_bytes(b"one\0")
    (root / "latin").write_bytes(b"one caf\xe9")
    (root / "utf16").write_bytes("one".encode("utf-16"))
    before = tree(root)
    paths = ["missing", "folder", ".", "nul", "latin", "utf16"]
    for name, input in inputs_of():
        with case(name):
            tool = getattr(Files(root), name)
            assert [(await answer_of(tool, path=path, **input)).code for path in paths] == [
                ToolErrorCode.NOT_FOUND,
                *[ToolErrorCode.IS_DIRECTORY] * 2,
                *[ToolErrorCode.BINARY_FILE] * 3,
            ]
            assert tree(root) == before


@pytest.mark.anyio
async def test_changed_since_it_was_read(root: Path) -> None:
    """CONFLICT, also where the edit would fit, and where the version that was read is named by a time that is back."""
    for name, input in inputs_of():
        for change in ["in place", "replaced", "with its times put back"]:
            for is_named in [False, True]:
                with case(name, input, change, is_named):
                    path = root / "a.txt"
                    path.write_text("one, and 1")
                    files = Files(root)
                    await answer_of(files.read, path="a.txt")
                    before = path.stat()
                    match change:
                        case "in place":
                            touched(path, "one, and more")
                        case "replaced":
                            (root / "other").write_text("one, and 2")
                            os.utime(root / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
                            (root / "other").replace(path)
                        case _:
                            path.write_text("one, and 2")
                            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
                    now = tree(root)
                    named = {"file_mtime_ms": before.st_mtime_ns // 1_000_000} if is_named else {}
                    response = await answer_of(getattr(files, name), path="a.txt", **input, **named)
                    assert response.code == ToolErrorCode.CONFLICT
                    assert ("is the same" in response.text) == (change != "in place")
                    assert tree(root) == now
                    await answer_of(files.read, path="a.txt")
                    assert (await answer_of(getattr(files, name), path="a.txt", **input)).data["modified"]


@pytest.mark.anyio
async def test_a_version_that_is_named(root: Path) -> None:
    """It counts more than what was read."""
    for name, input in inputs_of(file_mtime_ms=1):
        with case(name, input):
            path = root / "a.txt"
            path.write_text("one")
            files = Files(root)
            await answer_of(files.read, path="a.txt")
            response = await answer_of(getattr(files, name), path="a.txt", **input)
            assert response.code == ToolErrorCode.CONFLICT
            assert response.context == {"path": "a.txt", "current_mtime_ms": mtime_ms(path), "cached_mtime_ms": 1}
            touched(path)
            named = {**input, "file_mtime_ms": mtime_ms(path)}
            assert (await answer_of(getattr(files, name), path="a.txt", **named)).data["modified"]


@pytest.mark.anyio
async def test_edits_of_one_turn(root: Path) -> None:
    """They are done in call order, and do not conflict with each other, also where all name the version before."""
    for is_named in [False, True]:
        for is_read in [False, True]:
            with case(is_named, is_read):
                path = root / "a.txt"
                path.write_text("0")
                files = Files(root)
                if is_read:
                    await answer_of(files.read, path="a.txt")
                named = {"file_mtime_ms": mtime_ms(path)} if is_named else {}
                async with executing(files.tools) as writings:
                    calls = [
                        writings.whole(
                            "Edit",
                            json.dumps({"path": "a.txt", "old_string": f"{n}", "new_string": f"{n + 1}", **named}),
                        )
                        for n in range(9)
                    ]
                    assert [(await call.answered())[0] for call in calls] == [False] * 9
                assert path.read_text() == "9"


@pytest.mark.anyio
async def test_a_version_from_before_our_own_edits_and_those_of_others(root: Path) -> None:
    """Our own edits are no news to the model; what another changed after them is."""
    path = root / "a.txt"
    path.write_text("one")
    first = mtime_ms(path)
    files = Files(root)
    await answer_of(files.edit, path="a.txt", old_string="one", new_string="two")
    touched(path, "two, and one of another")
    named = {"path": "a.txt", "new_string": "x", "file_mtime_ms": first}
    assert (await answer_of(files.edit, old_string="two", **named)).code == ToolErrorCode.CONFLICT
    await answer_of(files.read, path="a.txt")
    assert (await answer_of(files.edit, old_string="two", **named)).code == ToolErrorCode.CONFLICT


_INPUTS_THAT_DO_NOT_FIT: list[tuple[str, dict[str, Any]]] = [
    ("Edit", {"old_string": "", "new_string": "x"}),  # an empty place
    ("Edit", {"old_string": "a", "new_string": None}),  # no text
    ("MultiEdit", {"edits": []}),  # no edits
    ("MultiEdit", {"edits": edits_of(("", "x"))}),  # an empty place among several
    ("MultiEdit", {"edits": [{"old_string": "a"}]}),  # half an edit
    ("MultiEdit", {"edits": edits_of(*[("a", "a")] * 257)}),  # too many
]


@pytest.mark.anyio
async def test_inputs_that_do_not_fit(root: Path) -> None:
    """The schema refuses them before anything is read."""
    for name, raw in _INPUTS_THAT_DO_NOT_FIT:
        with case(name, raw):
            (root / "a.txt").write_text("a")
            async with executing(Files(root).tools) as writings:
                is_error, said = await writings.whole(name, json.dumps({"path": "a.txt", **raw})).answered()
            assert is_error
            assert said.startswith("Error: ")
            assert tree(root) == {"a.txt": b"a"}
