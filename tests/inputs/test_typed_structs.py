"""Structs of msgspec, for those who have it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest

from eagerstream.errors import UsageError
from eagerstream.inputs import InputError, TypedPartial, adapter_of
from eagerstream_wire import PartialJSON
from tests.tables import rows

_calls: list[Any] = []


def _count(row: Any) -> None:
    _calls.append(row.id)
    if row.id < 0:
        raise ValueError("negative")
    if row.id > 99:
        raise KeyError(row.id)


# Made by a call, because type checkers without msgspec know no class to derive from.
_Short = Annotated[str, msgspec.Meta(max_length=5)]
Row: Any = msgspec.defstruct(
    "Row", [("id", int), ("text", _Short, "none")], frozen=True, namespace={"__post_init__": _count}
)
Table: Any = msgspec.defstruct(
    "Table",
    [
        ("all_rows", Annotated[list[Row], msgspec.Meta(max_length=3)]),
        ("by_key", dict[str, Row] | None, None),
        ("title", _Short, "none"),
    ],
    rename="camel",
    forbid_unknown_fields=True,
)
Tagged: Any = msgspec.defstruct("Tagged", [("id", int)], tag=True)
Flat: Any = msgspec.defstruct("Flat", [("id", int)], array_like=True)


def fed(model: Any, text: str) -> TypedPartial[Any]:
    """The typed value after a text that came character by character."""
    parser = PartialJSON()
    typed = TypedPartial(model, parser)
    for character in text:
        parser.feed(character)
        assert typed.value is not None
    return typed


def test_a_struct_grows() -> None:
    """It is an instance of the struct, in which anything may be None, and `__post_init__` sees complete ones only."""
    _calls.clear()
    typed = fed(Table, '{"allRows": [{"id": 1}, {"id": 2, "text": "tw')
    assert isinstance(typed.value, Table)
    first, second = typed.value.all_rows
    assert (first.id, first.text) == (1, "none")
    assert isinstance(second, Row)
    assert (second.id, second.text) == (2, "tw")
    assert typed.value.title is None
    assert _calls == [1]
    assert fed(Row, '{"te').value.text is None


def test_it_ends_as_the_struct() -> None:
    """The same as msgspec makes of the whole text, each item validated once."""
    text = '{"allRows": [{"id": 1}, {"id": 2}], "byKey": {"a": {"id": 3, "text": "abc"}}}'
    _calls.clear()
    typed = fed(Table, text)
    assert _calls == [1, 2, 3]
    assert typed.fault is None
    assert typed.value == msgspec.json.decode(text, type=Table) == adapter_of(Table).validate(json.loads(text))
    assert type(typed.value) is Table
    assert adapter_of(Table).schema()["$ref"] == "#/$defs/Table"
    assert fed(list[Row], '[{"id": 1}]').value == [Row(1)]


@rows(
    "text, place",
    [
        ('{"allRows": [{"id": 1}, {"id": "x"}, ', "allRows[1].id"),
        ('{"allRows": [{"id": -1}, ', "allRows[0]"),
        ('{"allRows": [{"id": 100}, ', "allRows[0]"),
        ('{"title": "too long", ', "title"),
        ('{"allRows": [{"id": 1}, {"id": 1}, {"id": 1}, {"id": 1}], ', "allRows"),
        ('{"allRows": [], "unknown": 1}', ""),
        ('{"title": "a"}', ""),
    ],
)
def test_faults_of_a_struct(text: str, place: str) -> None:
    """They are known when the item is finished, with the place in the input."""
    fault = fed(Table, text).fault
    assert isinstance(fault, InputError)
    assert fault.place == place
    assert str(fault).startswith("Error: ")


def test_other_forms_of_structs() -> None:
    """A tag is checked at the end, and a struct that is written as an array shows plainly until then."""
    assert fed(list[Tagged], '[{"type": "Tagged", "id": 1').value[0].id is None
    assert fed(Tagged, '{"type": "Tagged", "id": 1}').value == Tagged(1)
    assert fed(Tagged, '{"type": "Other", "id": 1}').fault is not None
    assert fed(list[Flat], "[[1], [2").value == [Flat(1), []]
    with pytest.raises(UsageError):
        TypedPartial(Flat, PartialJSON())
    with pytest.raises(InputError, match="id"):
        adapter_of(Tagged).validate({"type": "Tagged"})
