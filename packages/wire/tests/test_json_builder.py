"""`JSONBuilder`: the value as it grows, how deep it may be, and which parts of it are finished."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from packages.wire.tests.json_texts import paths_in_order_of_ends, plain_documents
from packages.wire.tests.parsing import fed, taken
from tests.streams import cut_at, strict_loads, written
from tests.tables import rows

from eagerstream_wire import ParsingLimits, PartialJSON, TolerantJSON, copy_json


def test_a_value_is_live() -> None:
    """Containers grow in place, so whoever keeps one sees it grow; `copy_json` is for what must stay."""
    parser = fed(['{"a":["x'])
    kept = parser.value
    copied = copy_json(kept)
    parser.feed('y"]}')
    assert kept == {"a": ["xy"]}
    assert copied == {"a": ["x"]}


@given(plain_documents)
def test_paths_finish_in_the_order_of_their_ends(document: str) -> None:
    """Each value is told once, whole, and after everything inside it."""
    parser = PartialJSON(reports=True)
    parser.feed(document)
    finished = taken(parser)
    parser.close()
    finished += taken(parser)
    assert finished == [(path, written(value)) for path, value in paths_in_order_of_ends(strict_loads(document))]


def test_nothing_is_collected_unless_asked_for() -> None:
    """Without `reports` nothing is kept for nobody, and with it no more than one feed has changed."""
    parser = fed(['{"a":[1,2'])
    assert (parser.finished, parser.patch) == ([], [])
    parser.reports = True
    parser.feed(",3")
    assert parser.finished == [(("a", 1), 2)]
    assert parser.patch == [{"op": "add", "path": "/a/1", "value": 2}]
    parser.feed("")
    assert (parser.finished, parser.patch) == ([], [])


@rows("brackets", ["[]", "{}"])
def test_depth_512_is_read_and_513_is_a_fault(brackets: str) -> None:
    """Nesting is bounded, and the bound itself is still inside."""
    opening, closing = ("[", "]") if brackets == "[]" else ('{"a":', "}")
    core = brackets
    for depth, complete in ((512, True), (513, False)):
        parser = fed([opening * (depth - 1) + core + closing * (depth - 1)], reports=True)
        assert parser.complete == complete
        if not complete:
            assert parser.error is not None
            assert parser.error.offset_chars == len(opening) * 512
            assert "512" in parser.error.message
        else:
            assert len(parser.finished[0][0]) == 511
            assert copy_json(parser.value) == parser.value


def test_deep_nesting_does_not_recurse() -> None:
    """With a higher limit, depth is only memory: no RecursionError waits at any depth."""
    depth = 10_000
    parser = PartialJSON(limits=ParsingLimits(max_depth=depth), reports=True)
    parser.feed("[" * depth)
    assert parser.open_path == (0,) * (depth - 1)
    parser.feed("]" * depth)
    assert parser.complete
    levels = 0
    inner: Any = copy_json(parser.value)
    while inner:
        (inner,) = inner
        levels += 1
    assert levels == depth - 1


def test_values_far_down_cost_nothing() -> None:
    """Who waits near the root pays for no path of what is finished deep inside."""
    parser = PartialJSON(tracks=True)
    parser.feed('{"a": 1, "deep": ' + "[" * 100 + "1,2,3," * 100)
    assert parser.finished_in(2) == [((), "a")]
    containers = [container for container, _ in parser.finished_in(200) if container]
    assert len(containers) == 300
    assert len({id(container) for container in containers}) == 1


@given(plain_documents, st.lists(st.integers(0, 200), max_size=12))
def test_tracking_takes_runs_of_values_whole(document: str, places: list[int]) -> None:
    """What it finds finished is what a parser finds that reads each character; which takes several times as long."""
    tracking, reporting = PartialJSON(tracks=True), PartialJSON(reports=True)
    for fragment in cut_at(document, places):
        tracking.feed(fragment)
        reporting.feed(fragment)
        assert written(tracking.value) == written(reporting.value)
        assert taken(tracking) == taken(reporting)


def test_mirrors_show_the_open_string() -> None:
    """Another place may show the string without a reference that the parser does not know: that would cost copies."""
    parser = fed(['{"a": "on'])
    shown: dict[str, object] = {}
    twice: dict[str, object] = {}
    parser.mirrors += [(shown.__setitem__, "x"), (twice.__setitem__, "y")]
    parser.feed("e")
    parser.feed('\\n two"')
    assert (shown, twice) == ({"x": "one\n two"}, {"y": "one\n two"})
    parser.feed(', "b": "other')
    assert parser.mirrors == []
    assert shown == {"x": "one\n two"}


def test_the_strict_value() -> None:
    """A tolerant parser shows more, and whoever needs the strict value gets it, too."""
    parser = TolerantJSON()
    parser.feed('{"a": 1')
    assert parser.value == {"a": 1}
    assert parser.strict_value == {}
