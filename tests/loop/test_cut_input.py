"""`CutInput` and the request for the rest of an input."""

from __future__ import annotations

from eagerstream.loop._cut_input import CutInput
from tests.continuing import cut_input
from tests.tables import rows


def cut(raw: str) -> CutInput:
    """The state of a cut input that can be continued."""
    found = cut_input(raw)
    assert found is not None
    return found


@rows("raw", ["", "  ", "[1", '{"a": 1}', '{"a": 1} ', '{"a": \\q', '{"a": "' + "ab" * 2_000])
def test_what_cannot_be_continued(raw: str) -> None:
    """Nothing yet, no object, a complete one, no JSON, and a text whose end occurs in it before."""
    assert cut_input(raw) is None


@rows(
    "raw, member, is_due, needs_comma, closers",
    [
        ("{", "", False, False, "}"),
        ('{"a": 1, "b', '"b', True, False, "}"),
        ('{"a": 1, "b" ', '"b"', True, False, "}"),
        ('{"a": 1, "b x" : ', '"b x":', True, False, "}"),
        ('{"a": 1, "b": 12', '"b":12', True, False, "}"),
        ('{"a": 1, "b": 12 ', "", False, True, "}"),
        ('{"a": [7 ', "", False, True, "]}"),
        ('{"a": 1, "b": tr', '"b":tr', True, False, "}"),
        ('{"a": 1, "b": true', "", False, True, "}"),
        ('{"a": 1, "b": "x, {y" ', "", False, True, "}"),
        ('{"a": 1, ', "", True, False, "}"),
        ('{"a": [', "", False, False, "]}"),
        ('{"a": [{"b": "x"}', "", False, True, "]}"),
        ('{"a": [{"b": "x"},', "", True, False, "]}"),
        ('{"a": [{"b": ["x", -1.', "-1.", True, False, "]}]}"),
        ('{"a": "x', "", False, True, "}"),
        ('{"a": [[{"b": "x', "", False, True, "}]]}"),
    ],
)
def test_where_it_was_cut(raw: str, member: str, is_due: bool, needs_comma: bool, closers: str) -> None:
    """The member that was being written, whether one must follow, and the brackets that are missing."""
    state = cut(raw)
    assert (state.member, state.is_due, state.needs_comma, state.closers) == (member, is_due, needs_comma, closers)


@rows(
    "written, half",
    [
        ("abc", ""),
        ("abc\\", "\\"),
        ("abc\\\\", ""),
        ("abc\\u", "\\u"),
        ("abc\\u00e", "\\u00e"),
        ("abc\\u00e9", ""),
        ("abc\\ud83d", "\\ud83d"),
        ("abc\\ud83d\\", "\\ud83d\\"),
        ("abc\\ud83d\\ude0", "\\ud83d\\ude0"),
        ("abc\\ud83d\\ude00", ""),
    ],
)
def test_half_a_character(written: str, half: str) -> None:
    """It is kept apart, so that the rest can complete it."""
    assert cut(f'{{"a": "{written}').half == half


def test_the_request() -> None:
    """It names the places as a model reads them, and quotes the end of the text from the beginning of a line."""
    asked = cut(
        '{"path": "a", "edits": [{"old": "x", "new": "One line of the text is not much.\\nThe second line of it is longer, and it is cut off in the mid'
    ).request()
    assert "text at edits[0].new. Begin" in asked
    assert "<last>The second line of it is longer, and it is cut off in the mid</last>" in asked
    assert "1. an object with the fields of edits[0] that are still missing; empty" in asked
    assert "2. a list of the items of edits that are still missing; empty" in asked
    assert "3. an object with the fields of the call (its parameters) that are still missing; empty" in asked
    assert "beginning with the one that was being written" in cut('{"a": 1, "b": 2').request()
    assert cut('{"a": "').request().count("`text`: the complete text at a, from its beginning.\n") == 1
    assert "text at a, from its beginning, which is:\n<last>x y</last>" in cut('{"a": "x y').request()


def test_the_anchor_proves_the_place() -> None:
    """As many characters as occur once, however often the text repeats itself otherwise."""
    text = "a row of the table\n" * 30 + "and its last one, a row of the table\n"
    state = cut('{"a": "' + text.replace("\n", "\\n"))
    assert text.endswith(state.anchor)
    assert text.count(state.anchor) == 1
    assert len(state.anchor) >= 60
