"""Strict validation: what JSON types stand for, and where a fault is."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from eagerstream.inputs import InputError
from eagerstream.inputs._validation import as_json, checked


class _Day(BaseModel):
    when: date
    count: int | bool = 0


def test_json_types_are_not_converted() -> None:
    """A string may stand for a date, which JSON does not have, and for no number."""
    adapter = TypeAdapter(list[_Day])
    assert checked(adapter, [{"when": "2030-01-02"}]) == [_Day(when=date(2030, 1, 2))]
    with pytest.raises(InputError) as caught:
        checked(adapter, [{"when": "2030-01-02"}, {"when": "2030-01-02", "count": "1"}, {}])
    assert caught.value.path == (1, "count"), "without the branch of the union"
    assert caught.value.place == "[1].count"
    assert "Missing required '[2].when' parameter" in str(caught.value)


def test_a_lone_surrogate_is_replaced() -> None:
    """UTF-8 cannot encode it."""
    assert as_json({"a": "\ud83d"}) == b'{"a": "\\ufffd"}'
    assert checked(TypeAdapter(dict[str, str]), {"a": "\ud83d"}) == {"a": "\ufffd"}


def test_deeper_than_the_parser_of_pydantic() -> None:
    """It accepts about 200 levels of JSON, an input 512."""
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    assert checked(TypeAdapter(list[Any]), deep) == deep
