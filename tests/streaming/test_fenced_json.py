"""`FencedJSON`: the JSON in a text, however the text is cut."""

from __future__ import annotations

import time

from hypothesis import given, strategies as st

from eagerstream.streaming._fenced_json import NO_JSON, OPEN_FENCE, TWO_BLOCKS, FencedJSON
from tests.streams import cuts_of, one_by_one
from tests.tables import rows

Found = tuple[str, str | None, str | None]


def found_in(pieces: list[str]) -> Found:
    """The JSON of a text, its fault, and whether a fence is open."""
    fenced = FencedJSON()
    text = "".join(fenced.feed(piece) for piece in pieces)
    unclosed = fenced.close()
    return text, fenced.fault, unclosed


TEXTS: dict[str, tuple[str, Found]] = {
    "a fenced block": ("```json\n[1]\n```", ("[1]\n", None, None)),
    "prose around it": ("Sure! Here:\n\n```json\n[1]\n```\nAnything else?", ("[1]\n", None, None)),
    "no label": ("```\n[1]\n```\n", ("[1]\n", None, None)),
    "another label": ("``` JSON 5\n[1]\n```\n", ("[1]\n", None, None)),
    "indented, with line ends of Windows": ("- so:\r\n  ```json\r\n  [1]\r\n  ```\r\n", ("  [1]\r\n  ", None, None)),
    "after prose in its line": ("Here: ```json\n[1]\n```", ("[1]\n", None, None)),
    "backticks in prose": ("Use ``` so, or `x`:\n```json\n[1]\n```", ("[1]\n", None, None)),
    "quoted in its line": ("Not ```json\\n``` but:\n```json\n[1]\n```", ("[1]\n", None, None)),
    "a fence in a string": ('```\n{"a": "```"}\n```', ('{"a": "```"}\n', None, None)),
    "a longer fence": ("````\n[1]\n````", ("[1]\n", None, None)),
    "a longer closing fence": ("```\n[1]\n`````", ("[1]\n", None, None)),
    "too few backticks": ("```\n[1]\n`` `\n```", ("[1]\n`` `\n", None, None)),
    "a shorter fence within": ("````\n[1]\n```\n````", ("[1]\n```\n", None, None)),
    "without a fence": ('  {"a": 1}\n', ('{"a": 1}\n', None, None)),
    "a bracket first": ("[1]\n```json\n[2]\n```", ("[1]\n```json\n[2]\n```", None, None)),
    "never closed": ("```json\n[1]", ("[1]", None, OPEN_FENCE)),
    "two blocks": ("```\n[1]\n```\nor\n```\n[2]\n```", ("[1]\n", TWO_BLOCKS, None)),
    "a fence after the block": ("```\n[1]\n```\n```\n", ("[1]\n", TWO_BLOCKS, None)),
    "only prose": ("I cannot say.", ("", NO_JSON, None)),
    "nothing": ("", ("", NO_JSON, None)),
    "a block in one line": ("```json [1] ```", ("", NO_JSON, None)),
    "tildes": ("So:\n~~~json\n[1]\n~~~\n", ("[1]\n", None, None)),
    "tildes around backticks": ("~~~\n[1]\n```\n~~~", ("[1]\n```\n", None, None)),
    "backticks, then tildes": ("```~~~\n[1]\n```\n[2]\n```", ("[2]\n", None, None)),
    "an object behind prose": ('Here it is:\n\n{"a": 1}', ('{"a": 1}', None, None)),
    "an object of several lines": ('So: \n  {\n "a": [1]}\n', ('{\n "a": [1]}\n', None, None)),
    "an empty object behind prose": ("So:\n{ }", ("{ }", None, None)),
    "a list behind prose": ('So:\n[{"a": 1}]', ('[{"a": 1}]', None, None)),
    "a list of numbers behind prose": ("So:\n[\n1, 2]", ("[\n1, 2]", None, None)),
    "brackets in prose": ('As\n[1] and\n{x} say, {"a"}:\n```\n[2]\n```', ("[2]\n", None, None)),
    "brackets alone": ("[", ("[", None, None)),
    "a bracket and nothing": ("So:\n[", ("", NO_JSON, None)),
    "a bracket and much white space": ("So:\n{" + " " * 120 + '"a": 1}', ("", NO_JSON, None)),
    "an object behind a block": ('```\n[1]\n```\n{"a": 1}', ("[1]\n", None, None)),
    "a label without end": (f"```{'x' * 101}\n[1]\n", ("", NO_JSON, None)),
}


@rows("name", TEXTS)
def test_a_text_cut_anywhere(name: str) -> None:
    """A fence may be cut at any character, and two times."""
    text, expected = TEXTS[name]
    assert found_in([text]) == found_in(one_by_one(text)) == expected
    for first in range(len(text)):
        for second in range(first, len(text)):
            assert found_in([text[:first], text[first:second], text[second:]]) == expected


@given(st.data())
def test_any_text_cut_anywhere(data: st.DataObject) -> None:
    """The cuts never count, whatever the text is."""
    text = data.draw(st.text(alphabet='`~\n jx[]{}"1 ', max_size=60))
    assert found_in(data.draw(cuts_of(text))) == found_in([text])


def test_json_is_passed_on_as_it_arrives() -> None:
    """Inside a block, no more than some backticks at the start of a line are held back."""
    fenced = FencedJSON()
    assert [fenced.feed(piece) for piece in ("So:\n`", "``js", 'on\n{"a', '": "x', '"\n`', "``\n")] == [
        *("", "", '{"a', '": "x', '"\n', "")
    ]


def test_a_long_text_costs_its_length() -> None:
    """Ten times the text takes about ten times as long, also in small pieces."""

    def seconds(rows: int) -> float:
        fenced = FencedJSON()
        text = "so `it` is\n" * rows + "```json\n" + '{"a": `}\n' * rows + "```\n"
        started = time.process_time()
        for at in range(0, len(text), 5):
            fenced.feed(text[at : at + 5])
        return time.process_time() - started

    assert min(seconds(5_000) for _ in range(3)) < 30 * min(seconds(500) for _ in range(3))
