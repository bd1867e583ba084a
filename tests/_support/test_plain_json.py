"""`load_json`: JSON from others that every reader takes."""

from __future__ import annotations

import pytest

from eagerstream._support.plain_json import load_json
from tests.tables import rows


@rows("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "-1e999", "", "{", "[1] 2"])
def test_what_no_other_reader_takes(text: str) -> None:
    """Python would read numbers that JSON does not have, and write them again."""
    with pytest.raises(ValueError):
        load_json(text)


@rows("text, value", [("1e308", 1e308), (b'{"a": [1.5, null]}', {"a": [1.5, None]}), ("-0", 0)])
def test_json_stays_what_it_is(text: str | bytes, value: object) -> None:
    """Everything else is read as the standard library reads it."""
    assert load_json(text) == value
