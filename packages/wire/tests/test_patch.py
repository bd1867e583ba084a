"""Patches that follow a growing value."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from packages.wire.tests.json_texts import documents, texts, without_infinity
from tests.patches import Patches
from tests.streams import cut_at, one_by_one, written
from tests.tables import rows

from eagerstream_wire import ParsingLimits, PartialJSON, Patch, PatchOp, apply_patch, merge_patches, pointer, steps_of

_cuts = st.lists(st.integers(0, 200), max_size=12)


def _follow(fragments: list[str]) -> tuple[Any, list[Patch], list[str]]:
    """Each patch applied to the value before it, which is looked at beside the parser's own after every fragment."""
    maker, parser = Patches(), PartialJSON()
    value: Any = None
    patches, finished = [], []
    for fragment in fragments:
        patch = maker.feed(fragment)
        parser.feed(fragment)
        before = copy.deepcopy(patch)
        value = apply_patch(value, patch)
        assert patch == before
        assert written(value) == written(without_infinity(parser.value) if isinstance(parser.value, dict) else None)
        patches.append(patch)
        finished += maker.finished
    return value, patches, finished


@given(texts, _cuts)
def test_each_patch_applied_to_the_last_value_gives_the_partial(text: str, places: list[int]) -> None:
    """Whatever the text, JSON or not, however it is cut; and all patches merged into one do the same."""
    value, patches, _ = _follow(cut_at(text, places))
    assert written(apply_patch(None, merge_patches(patches))) == written(value)


@given(documents, _cuts)
def test_each_field_is_told_of_when_it_is_finished(text: str, places: list[int]) -> None:
    """Of a whole object that is all of them; of any other document none."""
    value, _, finished = _follow(cut_at(text, places))
    assert set(finished) == set(value or ())


def test_what_is_sent_is_what_is_new() -> None:
    """A string grows by its pieces, an array by its items; nothing that was sent is sent again."""
    ops: list[PatchOp] = []
    maker = Patches()
    for fragment in ('{"a/b": "x', "yz", '", "l": [1', ", 2, ", '{"~": nul', "l}], ", '"n": -1.5', "}"):
        ops += maker.feed(fragment)
    assert [(op["op"], op["path"], op["value"]) for op in ops] == [
        ("add", "", {"a/b": "x"}),
        ("append", "/a~1b", "yz"),
        ("add", "/l", []),
        ("add", "/l/0", 1),
        ("add", "/l/1", 2),
        ("add", "/l/2", {}),
        ("add", "/l/2/~0", None),
        ("add", "/n", -1.5),
    ]


def test_a_repeated_key_is_replaced() -> None:
    """The one case in which something shown changes; what stands beside it is not sent again."""
    maker = Patches()
    maker.feed('{"o": {"k": 1, "l": 2, ')
    assert maker.feed('"k": "new') == [{"op": "replace", "path": "/o/k", "value": "new"}]
    assert maker.feed("er") == [{"op": "append", "path": "/o/k", "value": "er"}]
    keys = [f'"{number}": 1, ' for number in range(100)]
    _, patches, _ = _follow(["{", *keys, *keys])
    assert all(len(patch) == 1 and patch[0]["value"] == 1 for patch in patches[2:])


def test_numbers_beyond_floats_are_null() -> None:
    """What reads a patch as JSON knows no infinity."""
    value, patches, _ = _follow(['{"a": 1e999, "b": [', "-1e999, {", '"c": 1e999, "d": 1', "}]}"])
    assert value == {"a": None, "b": [None, {"c": None, "d": 1}]}
    json.dumps(patches, allow_nan=False)


def test_a_long_string_is_sent_once() -> None:
    """The patches of an input come to about its length, and so does the work."""
    text = json.dumps({"body": "line of text\n" * 200})
    value, patches, _ = _follow(one_by_one(text))
    assert sum(len(op["value"]) for patch in patches[8:] for op in patch) <= len(text)
    assert merge_patches(patches)[-1] == {"op": "add", "path": "/body", "value": value["body"]}


def test_limits_apply() -> None:
    """What is nested too deep ends the patches, as it ends the partial value."""
    maker = Patches(ParsingLimits(max_depth=2))
    assert maker.feed('{"a": [') == [{"op": "add", "path": "", "value": {"a": []}}]
    assert maker.feed("[") == maker.feed("1]]}") == []


@rows(
    "op",
    [
        {"op": "append", "path": "/a", "value": "x"},
        {"op": "append", "path": "/b", "value": "x"},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "replace", "path": "/l/-1", "value": 1},
        {"op": "add", "path": "/no/way", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "append", "path": "/l/0", "value": 1},
    ],
)
def test_a_patch_that_does_not_fit(op: PatchOp) -> None:
    """Patches may come out of a file: what does not fit is one kind of error."""
    with pytest.raises(ValueError, match=r"does not fit|starts with a slash"):
        apply_patch({"a": 1, "l": ["s"]}, [op])


def test_pointers() -> None:
    """RFC 6901, and back."""
    steps = ["a/b", "~1", "", "0"]
    assert pointer(*steps) == "/a~1b/~01//0"
    assert steps_of(pointer(*steps)) == steps
    assert steps_of("") == []
