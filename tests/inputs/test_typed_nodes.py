"""`Node`: which types are looked into, and which are validated part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypeAliasType

from eagerstream.inputs._typed_nodes import view_of_dataclass
from eagerstream.inputs._typed_pydantic import PydanticType
from tests.tables import rows


class Leaf(BaseModel):
    tags: list[str] = []


class Loop(BaseModel):
    loop: Loop | None = None
    leaf: Leaf | None = None


Nest = TypeAliasType("Nest", "list[Nest]")


@rows(
    "model, has_records, holds_items",
    [
        (list[int], False, False),
        (list[list[dict[str, int]]], False, False),
        (Nest, False, False),
        (Leaf, True, False),
        (Loop, True, False),
        (list[Leaf], True, True),
        (dict[str, list[Leaf]], True, True),
    ],
)
def test_records_and_items(model: Any, has_records: bool, holds_items: bool) -> None:
    """Lists of numbers need no view, and a record without lists of records is validated as one."""
    node = PydanticType(model).root
    assert (node.has_records, node.holds_items) == (has_records, holds_items)


def test_the_view_of_a_dataclass() -> None:
    """Its `__init__` does not run, which may need what has not arrived."""

    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 5

        def __post_init__(self) -> None:
            raise AssertionError("called")

    view = view_of_dataclass(Point)
    view.put("x", 1)
    assert (view.value.x, view.value.y) == (1, None)
