"""`PartialJSON`: each invariant of its docstring as a property of that name, then tables of what is odd."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import partial_json_parser
import pytest
from hypothesis import example, given, strategies as st
from packages.wire.tests.conformance.reading_json import Reading
from packages.wire.tests.json_texts import (
    documents,
    mutated_documents,
    paths_in_order_of_ends,
    plain_documents,
    reference_value,
    texts,
    what_is_open,
)
from packages.wire.tests.parsing import MODES, fed, look, taken
from tests.sampling import at_length
from tests.streams import cut_at, cuts_of, is_json, one_by_one, random_pieces, strict_loads, written
from tests.tables import rows

from eagerstream_wire import JSON, ParseFault, ParsingLimits, PartialJSON, Path, UsageError, copy_json

modes = st.sampled_from(MODES)


def first_fault(text: str) -> int | None:
    """Offset of the first character after which nothing can become JSON, as the parser sees it one by one."""
    parser = PartialJSON()
    for offset, character in enumerate(text):
        parser.feed(character)
        if parser.error is not None:
            return offset
    return None


# --- the invariants ---------------------------------------------------------------------------------------------------


def check_any_cut_same_values(text: str, pieces: list[str], reports: bool) -> None:
    parser = PartialJSON(reports=True)
    looks = [look(parser)]
    finished: list[tuple[Path, str]] = []
    for character in text:
        parser.feed(character)
        looks.append(look(parser))
        finished += taken(parser)
    parser.close()
    at_end = look(parser)
    finished += taken(parser)

    cut = PartialJSON(reports=reports)
    of_cut: list[tuple[Path, str]] = []
    offset = 0
    for piece in pieces:
        cut.feed(piece)
        offset += len(piece)
        of_cut += taken(cut)
        assert look(cut) == looks[offset]
    cut.close()
    of_cut += taken(cut)
    assert look(cut) == at_end
    assert of_cut == (finished if reports else [])


@given(st.data(), texts, modes)
def test_invariant_1_any_cut_same_values(data: st.DataObject, text: str, reports: bool) -> None:
    """How the network cut a text must never show in what a user sees."""
    check_any_cut_same_values(text, data.draw(cuts_of(text)), reports)


def check_whole_equals_json_loads(document: str, reports: bool) -> None:
    parser = fed([document], reports=reports, close=True)
    assert parser.complete
    assert parser.error is None
    assert written(parser.value) == written(strict_loads(document))


@given(documents, modes)
def test_invariant_2_whole_equals_json_loads(document: str, reports: bool) -> None:
    """A tool must get exactly what the standard library would have read."""
    check_whole_equals_json_loads(document, reports)


def check_accepts_exactly_rfc_8259(text: str, reports: bool) -> None:
    parser = fed([text], reports=reports, close=True)
    assert (parser.complete and parser.error is None) == is_json(text)
    fault = Reading(text).error_at
    good = text if fault is None else text[:fault]
    assert is_json(good + Reading(good).closing), "the second reading missed a wrong character"
    assert (parser.error and parser.error.offset_chars) == fault
    assert parser.error is None or parser.error.character == text[parser.error.offset_chars]
    assert first_fault(text) == fault, "the fault was not seen at once"


@given(texts, modes)
@example("[-]", False)
@example("[1.,2]", True)
@example('{"a":"x\\u12g"}', False)
@example('{"a":"x\\ug"}', True)
def test_invariant_3_accepts_exactly_rfc_8259(text: str, reports: bool) -> None:
    """What the API would refuse must not run, and the first wrong character is where the model can be told."""
    check_accepts_exactly_rfc_8259(text, reports)


def check_values_only_grow(document: str) -> None:
    parser = PartialJSON(reports=True)
    shown: JSON = None
    finished: list[tuple[Path, str]] = []
    for character in document:
        before, started = copy_json(shown), parser.started
        parser.feed(character)
        shown = parser.value
        if started and before is not None:
            assert_grew(before, shown)
        finished += taken(parser)
        for path, value in finished:
            assert written(at(shown, path)) == value, "a finished value changed"


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def assert_grew(before: JSON, after: JSON) -> None:
    assert type(after) is type(before)
    if isinstance(before, dict) and isinstance(after, dict):
        assert list(after)[: len(before)] == list(before)
        for key, item in before.items():
            assert_grew(item, after[key])
    elif isinstance(before, list) and isinstance(after, list):
        assert len(after) >= len(before)
        for old, new in zip(before, after, strict=False):
            assert_grew(old, new)
    elif isinstance(before, str) and isinstance(after, str):
        assert after.startswith(before)
    else:
        assert written(after) == written(before)


@given(plain_documents)
def test_invariant_4_values_only_grow(document: str) -> None:
    """Whoever has acted on a part of a value must never find it changed."""
    check_values_only_grow(document)


def check_halves_are_never_shown(document: str) -> None:
    """Every string shown is a beginning of the final one: no half of an escape, no half of a pair."""
    final = strict_loads(document)
    parser = PartialJSON()
    for character in document:
        parser.feed(character)
        if parser.value is not None:
            assert_grew(parser.value, final)


@given(plain_documents)
def test_invariant_5_halves_are_never_shown(document: str) -> None:
    """Half a surrogate pair cannot be printed or stored, and half an escape is not text."""
    check_halves_are_never_shown(document)


def check_every_prefix_shows_what_it_should(text: str) -> None:
    parser = PartialJSON()
    for offset, character in enumerate(text):
        parser.feed(character)
        if parser.error is not None:
            return
        shown, value = reference_value(text[: offset + 1])
        assert written(parser.value) == written(value)
        assert shown <= parser.started


@given(texts)
def test_invariant_6_numbers_show_when_they_end(text: str) -> None:
    """Not later and not earlier: every prefix shows what a slow and simple reading of it shows."""
    check_every_prefix_shows_what_it_should(text)


def check_errors_freeze(text: str, more: list[str], reports: bool) -> None:
    parser = fed([text], reports=reports)
    if parser.error is None:
        return
    frozen = look(parser)
    before = fed([text[: parser.error.offset_chars]], reports=reports)
    assert written(before.value) == frozen.value, "the last good value did not stay"
    for piece in more:
        parser.feed(piece)
        assert look(parser) == frozen
    parser.close()
    assert look(parser) == frozen


@given(mutated_documents(), st.lists(st.one_of(texts, st.text()), max_size=4), modes)
def test_invariant_7_errors_freeze_and_never_raise(text: str, more: list[str], reports: bool) -> None:
    """A model's slip must not lose what was right before it, nor the stream that it came in."""
    check_errors_freeze(text, more, reports)


@pytest.mark.slow
@pytest.mark.timeout(600)
@at_length(1_500)
@given(st.data(), plain_documents, documents, texts, modes)
def test_all_invariants_at_length(data: st.DataObject, plain: str, document: str, text: str, reports: bool) -> None:
    """Rare combinations take more examples than a quick run can afford."""
    check_any_cut_same_values(text, data.draw(cuts_of(text)), reports)
    check_whole_equals_json_loads(document, reports)
    check_accepts_exactly_rfc_8259(text, reports)
    check_values_only_grow(plain)
    check_halves_are_never_shown(plain)
    check_every_prefix_shows_what_it_should(text)
    check_errors_freeze(text, [text, document], reports)
    check_finished_and_open(plain)


# --- what the vectors do not have -------------------------------------------------------------------------------------


def test_a_fault_says_where_and_what() -> None:
    """The text of a fault goes to the model and into messages: it names the place and the character."""
    assert str(fed(["[1 2"]).error) == "expected ',' or ']' at character 3, found '2'"
    assert str(ParseFault("the input was cut off", 5, "")) == "the input was cut off at character 5"


def test_feed_after_close_is_the_callers_error() -> None:
    """`close` may be called twice; feeding a closed parser is a mistake worth hearing of."""
    parser = fed(["{}"], close=True)
    parser.close()
    with pytest.raises(UsageError):
        parser.feed(" ")


# --- finished and open paths ------------------------------------------------------------------------------------------


def check_finished_and_open(document: str) -> None:
    parser = PartialJSON(reports=True)
    finished: set[Path] = set()
    for offset, character in enumerate(document):
        parser.feed(character)
        finished.update(path for path, _ in parser.finished)
        shown, value = reference_value(document[: offset + 1])
        paths = [path for path, _ in paths_in_order_of_ends(value)] if shown else []
        for path in paths:
            assert parser.is_finished(path) == (path in finished)
        # What shows and is not finished is one chain from the root; its end is what is being written.
        chain = sorted((path for path in paths if path not in finished), key=len)
        assert all(longer[:-1] == shorter for shorter, longer in pairwise(chain))
        assert parser.open_path == (chain[-1] if chain else None)
        assert not parser.is_finished(("no such key",))
        assert not parser.is_finished((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))


@given(plain_documents)
def test_is_finished_and_open_path_agree_with_the_order_of_ends(document: str) -> None:
    """Three ways of asking what is done must never disagree, at any character."""
    check_finished_and_open(document)


@rows("text, open_path", [("", None), ("t", None), ('{"a":[0,{"b":"x\n', ("a", 1, "b")), ("{}}", None)])
def test_the_open_path_of_what_is_no_document(text: str, open_path: Path | None) -> None:
    """What was being written when a fault came."""
    assert fed([text]).open_path == open_path


# --- a second opinion -------------------------------------------------------------------------------------------------


@given(documents)
def test_partial_json_parser_agrees_where_both_show_the_same(document: str) -> None:
    """Another reader of unfinished JSON must see the same, wherever the two do not mean to differ.

    They mean to differ inside scalars (it completes literals, shows numbers, keeps halves of pairs) and before anything has
    begun (it raises), also where white space comes before a scalar at the root; its strings are compared where they end.
    """
    document = document.lstrip()
    if document[0] not in "{[":
        return
    parser = PartialJSON()
    for offset, character in enumerate(document):
        parser.feed(character)
        prefix = document[: offset + 1]
        _, in_string = what_is_open(prefix)
        if not parser.started or in_string or character not in '{}[],:" \t\n\r':
            continue
        assert written(partial_json_parser.loads(prefix)) == written(parser.value)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_fault_before_the_bound_wins() -> None:
    """In a fragment with both, the first of them is the error."""
    parser = PartialJSON(limits=ParsingLimits(max_input_chars=3))
    parser.feed("[x 1234")
    assert parser.error is not None
    assert (parser.error.offset_chars, parser.error.character) == (1, "x")


@given(st.data(), texts, st.integers(1, 30))
def test_the_longest_input_is_read_and_a_character_more_is_a_fault(data: st.DataObject, text: str, bound: int) -> None:
    """The bound holds to the character, however the text was cut, and a fault before it wins."""
    limits = ParsingLimits(max_input_chars=bound)
    whole = PartialJSON(limits=limits)
    whole.feed(text)
    expected = fed([text[:bound]])
    assert written(whole.value) == written(expected.value)
    if expected.error is not None or len(text) <= bound:
        assert whole.error == expected.error
    else:
        assert whole.error is not None
        assert (whole.error.offset_chars, whole.error.character) == (bound, text[bound])
    cut = PartialJSON(limits=limits)
    for piece in data.draw(cuts_of(text)):
        cut.feed(piece)
    assert look(cut) == look(whole)


# --- work -------------------------------------------------------------------------------------------------------------


def calls_while(action: Callable[[], object]) -> int:
    """Calls of Python and C functions inside `action`: the work of a parser that does everything in small steps."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    outer = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(outer)
    return calls


LONG: dict[str, Callable[[int], str]] = {
    "one long string": lambda n: '{"a":"' + "lorem ipsum " * n,
    "escapes": lambda n: '{"a":"' + "\\n\\u00e9\\ud83d\\ude00\\\\" * n,
    "a long key": lambda n: '{"' + "key " * n,
    "a long number": lambda n: "[" + "1" * 10 * n,
    "many numbers": lambda n: "[" + "1.5,22 ," * n,
    "many strings": lambda n: "[" + '"ab\\n","c",' * n,
    "records": lambda n: "[" + '{"id": 1, "tags": ["a", true, null]}, ' * n,
    "white space": lambda n: "[" + " \n" * 10 * n,
    "depth": lambda n: '{"a":[' * n,
    "after a fault": lambda n: "[x" + "lorem ipsum" * n,
}


@rows("largest", [8, 10**9])  # in fragments, and whole
@rows("reports", MODES)
@rows("kind", LONG)
def test_work_is_linear_in_the_length(kind: str, reports: bool, largest: int) -> None:
    """Four times the text may cost four times the steps, and not sixteen: counted, because time cannot be trusted.

    Counting sees loops and calls, not how long one C call takes; the benchmarks watch that.
    """
    limits = ParsingLimits(max_depth=10**6, max_integer_digits=10**6)

    def work(n: int) -> int:
        text = LONG[kind](n)
        pieces = random_pieces(text, seed=1, largest=largest) if largest < len(text) else [text]
        parser = PartialJSON(limits=limits, reports=reports)

        def feed_all() -> None:
            for piece in pieces:
                parser.feed(piece)

        return calls_while(feed_all)

    assert work(200) <= 4.4 * work(50) + 50


# --- runs of values ---------------------------------------------------------------------------------------------------


@rows("reports", MODES)
@rows(
    "text",
    [
        "[" + "1," * 20 + "2}",
        '{"a": [' + "1," * 20 + "2}",
        "{" + '"a":1,' * 20 + '"b":2]',
        "[" + "{}," * 20 + "{}}",
        "[" + "1," * 20 + ",",
        "[" + "1," * 20 + "]",
        "[" + ", " * 20,
        '["' + "x" * 30 + '",' + '"\\ud83d",' * 20 + "01]",
        "[" + "1e-9," * 20,
        '{"a":' + '1e5,"a":' * 20,
        "[" + " ," * 20,
    ],
)
def test_a_run_of_values_is_what_its_characters_are(text: str, reports: bool) -> None:
    """Also where what ends it is wrong: a number before the wrong bracket has not ended."""
    single = fed(one_by_one(text), reports=reports)
    for place in range(len(text)):
        pieces = fed(cut_at(text, [place]), reports=reports)
        assert look(pieces) == look(single)
        assert pieces.open_path == single.open_path
