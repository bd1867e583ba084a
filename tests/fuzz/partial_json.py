"""`PartialJSON`: fragments to a growing value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from packages.wire.tests.json_texts import reference_value

from eagerstream_wire import JSON, ParsingLimits, PartialJSON, Path
from eagerstream_wire._limits import DEFAULT_LIMITS
from tests.streams import strict_loads, written

from .choices import Choices, pieces
from .cost import check_cost, check_kept, is_sampled
from .feeding import fed
from .json_text import json_text

_SMALL: Final = ParsingLimits(max_input_chars=60, max_depth=4, max_integer_digits=9)
_MEDIUM: Final = ParsingLimits(max_input_chars=4_000, max_depth=100, max_integer_digits=100)
_LIMITS: Final = (DEFAULT_LIMITS, DEFAULT_LIMITS, _MEDIUM, _SMALL)
_LIMIT_FAULTS: Final = ("nested deeper than", "an integer of more", "longer than")


def check(data: bytes) -> None:
    """Any cut shows the same; the whole is what a strict `json.loads` says, unless a limit says no."""
    choices = Choices(data)
    limits = choices.pick(_LIMITS)
    structured = choices.below(2)
    aspect = choices.below(3)  # of what else can be said, one thing at a time: more inputs tell more
    seed = Choices(choices.take(6))
    text = json_text(choices) if structured else choices.rest().decode("utf-8", "surrogateescape")
    cut = pieces(seed, text)
    parser = PartialJSON(limits=limits)
    at = 0
    for fragment in cut:
        before = parser.error
        parser.feed(fragment)
        at += len(fragment)
        assert before is None or parser.error is before
    shown = written(parser.value)
    summary = _closed(parser)
    _check_against_the_standard_library(parser, text)
    match aspect:
        case 0 if at < 300 and parser.error is None:
            assert shown == written(reference_value(text)[1])
        case 1:
            _check_paths(limits, text, cut, summary)
        case _:
            assert summary == _closed(fed(PartialJSON(limits=limits), [text]))
    if is_sampled(data, 500):
        length = min(len(text), limits.max_input_chars)
        check_cost(
            lambda: _closed(fed(PartialJSON(limits=limits), cut)),
            len(text) + len(cut),
            lines_per_unit=50,  # a bracket by itself, the most expensive character, takes 26
            bytes_per_unit=400,  # "[" makes a list with room for four, an entry on the stack, and a step of the path
        )
        check_kept(lambda: fed(PartialJSON(limits=limits), cut), 400 * length)


def _check_paths(limits: ParsingLimits, text: str, cut: Sequence[str], summary: tuple[Any, ...]) -> None:
    """The same paths finish in the same order; and with them, the parser takes no short cut."""
    reporting, whole = PartialJSON(limits=limits, reports=True), PartialJSON(limits=limits, reports=True)
    finished: list[tuple[Path, JSON]] = []
    for fragment in cut:
        reporting.feed(fragment)
        finished += reporting.finished
    whole.feed(text)
    assert [(path, written(value)) for path, value in finished] == [
        (path, written(value)) for path, value in whole.finished
    ]
    for path, _ in finished[-3:]:
        whole.is_finished(path)
    assert _closed(reporting) == _closed(whole) == summary


def _check_against_the_standard_library(parser: PartialJSON, text: str) -> None:
    try:
        expected = written(strict_loads(text))
    except (ValueError, RecursionError) as error:
        # What the standard library cannot hold, it may all the same be JSON.
        assert not parser.complete or isinstance(error, RecursionError)
    else:
        if parser.complete:
            assert written(parser.value) == expected
        else:
            assert parser.error is not None
            assert parser.error.message.startswith(_LIMIT_FAULTS)


def _closed(parser: PartialJSON) -> tuple[Any, ...]:
    parser.close()
    assert not (parser.complete and parser.error)
    value = written(parser.value)
    return parser.started, value, parser.complete, parser.error, parser.overflow_chars, parser.open_path
