"""`Seam`: nothing is doubled and nothing is lost, however a model writes the rest of an input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eagerstream.loop._cut_input import CutInput
from eagerstream.loop._seam import Seam, SeamError
from tests.continuing import cut_input, rest_of
from tests.streams import cuts_of

_WORDS = st.lists(
    st.sampled_from(
        ["a", "ab", " ", "\n", '"', "\\", "\u00e9", "\U0001f600", "\ud83d", "/", "word ", "{}[],:", "\x01"]
    ),
    max_size=30,
).map("".join)
_VALUES = st.recursive(
    st.one_of(
        _WORDS,
        st.integers(-(10**20), 10**20),
        st.booleans(),
        st.none(),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.sampled_from("ab\u00e9\\ "), max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)
_INPUTS = st.dictionaries(st.sampled_from(["path", "body", "edits"]), _VALUES, min_size=1)


def _written(value: Any, style: int) -> str:
    separators = (",", ":") if style & 1 else (", ", " : ")
    return json.dumps(value, ensure_ascii=bool(style & 2), separators=separators)


@st.composite
def _cut(draw: Any) -> tuple[dict[str, Any], str, CutInput]:
    """An input, the part of it that has come, and the state of that."""
    whole = draw(_INPUTS)
    raw = _written(whole, draw(st.integers(0, 3)))
    arrived = raw[: draw(st.integers(1, len(raw) - 1))]
    state = cut_input(arrived)
    if state is None:
        state = cut_input("{")
        arrived = "{"
    assert state is not None
    return whole, arrived, state


def continued(arrived: str, state: CutInput, answer: list[str]) -> str | None:
    """The complete input after an answer; None if it does not continue it."""
    seam, out = Seam(state), [arrived]
    try:
        for fragment in answer:
            out.append(seam.feed(fragment))
        out.append(seam.end())
    except SeamError:
        return None
    assert seam.chars == sum(map(len, out[1:]))
    return "".join(out)


def _answer(whole: dict[str, Any], state: CutInput) -> dict[str, Any]:
    return rest_of(whole, state.value, state.request())


@given(_cut(), st.integers(0, 3), st.data())
def test_a_model_that_does_as_it_is_asked(cut: Any, style: int, data: st.DataObject) -> None:
    """The input is what it had in mind, wherever it was cut, and however its answer is written and cut."""
    whole, arrived, state = cut
    answer = _written(_answer(whole, state), style)
    full = continued(arrived, state, data.draw(cuts_of(answer)))
    # A key or a number may be written in two ways. Then the call stays cut off.
    assert json.loads(full) == whole if full is not None else state.member


@given(_cut(), st.integers(0, 200), st.data())
def test_an_overlap(cut: Any, more: int, data: st.DataObject) -> None:
    """A model that repeats more than it was asked to, up to the whole text, changes nothing."""
    whole, arrived, state = cut
    answer = _answer(whole, state)
    if state.key is None:
        return
    complete = state.text[: len(state.text) - len(state.anchor)] + answer["text"]
    answer["text"] = complete[max(0, len(state.text) - len(state.anchor) - more) :]
    full = continued(arrived, state, data.draw(cuts_of(_written(answer, 0))))
    assert full is not None
    assert json.loads(full) == whole


@given(_cut(), st.integers(1, 80), st.data())
def test_a_skip(cut: Any, less: int, data: st.DataObject) -> None:
    """Fewer characters than those that prove the place are refused: nothing says that none is missing."""
    whole, arrived, state = cut
    answer = _answer(whole, state)
    if state.key is None or not state.text:
        return
    answer["text"] = answer["text"][less:]
    if state.anchor in answer["text"]:
        return  # it comes once more, in the rest
    assert continued(arrived, state, data.draw(cuts_of(_written(answer, 0)))) is None


@given(_cut(), _VALUES, _VALUES, st.data())
def test_any_answer(cut: Any, text: Any, rest: Any, data: st.DataObject) -> None:
    """Whatever a model writes, what has come stays as it is, and the text only goes on."""
    _, arrived, state = cut
    full = continued(arrived, state, data.draw(cuts_of(_written({"text": text, "rest": rest}, 0))))
    if full is not None:
        assert full.startswith(arrived)
        parsed = json.loads(full)
        if state.key is not None:
            place = parsed
            for step in (*state.path, state.key):
                place = place[step]
            assert place.startswith(state.text)


@pytest.mark.parametrize(
    "answer",
    ["", "7", "[]", '{"text": 7, "rest": []}', '{"rest": []}', '{"text": "x"', '{"text": "x", "text": "x", "rest": []}',
     '{"text": "x\\q", "rest": []}', '{"text": "x", "rest": [{}, {}]}', '{"text": "x", "rest": ["y"]}',
     '{"text": "x", "rest": {}}', '{"rest": [{}], "text": "x"}', '{"text": "x", "rest": [[]]}'],
)  # fmt: skip
def test_another_form(answer: str) -> None:
    """It is refused."""
    state = cut_input('{"a": "x')
    assert state is not None
    with pytest.raises(SeamError):
        seam = Seam(state)
        seam.feed(answer)
        seam.end()
        assert not answer.endswith("}"), "its end is not asked for"
        raise SeamError("the answer is no JSON")


def test_its_cost_is_linear() -> None:
    """A model that starts a long text again is read once, fragment by fragment."""
    text = "".join(f"line {number}\n" for number in range(20_000))
    state = cut_input(json.dumps({"body": text})[:-2])
    assert state is not None
    answer = json.dumps({"text": text + "end", "rest": [{}]})
    seam = Seam(state)
    out = "".join(seam.feed(answer[at : at + 8]) for at in range(0, len(answer), 8)) + seam.end()
    assert out == 'end"}'
