"""`ScalarReader`: numbers and strings, at their bounds and in pieces."""

from __future__ import annotations

from packages.wire.tests.parsing import fed
from tests.streams import one_by_one
from tests.tables import rows

from eagerstream_wire import ParsingLimits, PartialJSON


def test_a_kept_string_does_not_change() -> None:
    """Growing a string in place is a trick of CPython that must stay invisible to whoever holds the string."""
    parser = fed(['{"a":"'])
    kept = []
    for character in "hello":
        parser.feed(character)
        value = parser.value
        assert isinstance(value, dict)
        kept.append(value["a"])
        hash(value["a"])
    assert kept == ["h", "he", "hel", "hell", "hello"]


@rows("sign", ["", "-"])
@rows("cut", [1, 100, 4_300, 10_000])
def test_4300_digits_are_read_and_4301_are_a_fault(sign: str, cut: int) -> None:
    """CPython itself converts no more; the sign is not a digit, and a float may have more."""
    digits = "7" * 4_300
    for text, complete in ((f"[{sign}{digits}]", True), (f"[{sign}{digits}7]", False), (f"[{sign}{digits}7.0]", True)):
        parser = fed([text[at : at + cut] for at in range(0, len(text), cut)], close=True)
        assert parser.complete == complete
        if not complete:
            assert parser.error is not None
            assert (parser.error.offset_chars, parser.error.character) == (1 + len(sign) + 4_300, "7")
            assert parser.value == []


def test_more_digits_than_python_converts_are_a_fault() -> None:
    """A higher limit than the interpreter's must end in a fault, not in a ValueError out of the stream."""
    parser = PartialJSON(limits=ParsingLimits(max_integer_digits=100_000))
    parser.feed("[1" + "0" * 9_000)
    parser.feed("]")
    assert parser.error is not None
    assert parser.error.offset_chars == 1


@rows("text, offset", [("[1e400]", 1), ("[-1e400 ,2e400]", 1), ("[1,2,1e999", None), ("[1e308]", None), ("1e400", 0)])
def test_a_number_beyond_floats_is_remembered(text: str, offset: int | None) -> None:
    """`json.loads` gives infinity, which cannot be sent back: whoever must send it back can see where it was."""
    for pieces in ([text], one_by_one(text)):
        assert fed(pieces, close=True).overflow_chars == offset
