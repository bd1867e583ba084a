"""Which types of pydantic are validated part by part."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pydantic
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema
from typing_extensions import TypedDict

from eagerstream.inputs._typed_pydantic import PydanticType
from tests.tables import rows


class Item(BaseModel):
    id: int = Field(alias="the id")


class Before(BaseModel):
    items: list[Item]
    _before = model_validator(mode="before")(lambda cls, data: data)


class Wrapped(BaseModel):
    items: list[Item]
    _wrap = model_validator(mode="wrap")(lambda cls, data, handler: handler(data))


class After(BaseModel):
    items: list[Item]

    @model_validator(mode="after")
    def after(self) -> After:
        return self


class Reads(BaseModel):
    items: list[Item]

    @field_validator("items")
    @classmethod
    def _read(cls, items: list[Item], info: ValidationInfo) -> list[Item]:
        return items


class Own(BaseModel):
    items: list[Item]

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


class ByPath(BaseModel):
    items: list[Item] = Field(validation_alias=AliasPath("a", "b"))


class Typed(TypedDict):
    items: list[Item]


class ByDefault(BaseModel):
    model_config = ConfigDict(validate_default=True)
    items: list[Item] = []


@dataclass
class Plain:
    items: list[Item]


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="allow"))
class Open:
    items: list[Item]


class ByFunction(BaseModel):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.model_schema(cls, core_schema.any_schema())


@rows(
    "model, splits",
    [
        (After, True),
        (Typed, True),
        (list[Item] | None, True),
        (Annotated[list[Item], Field(max_length=3), AfterValidator(list)], True),
        (dict[str, Item], True),
        (Plain, True),
        (Before, False),
        (Wrapped, False),
        (Reads, False),
        (Own, False),
        (ByPath, False),
        (ByDefault, False),
        (ByFunction, False),
        (Open, False),
        (RootModel[list[Item]], False),
        (Annotated[list[Item], BeforeValidator(list)], False),
        (dict[int, Item], False),
        (set[int], False),
        (int, False),
    ],
)
def test_what_is_validated_part_by_part(model: Any, splits: bool) -> None:
    """Whatever sees or changes its parts before they are validated is validated as one."""
    assert PydanticType(model).root.splits is splits


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    a: int = Field(alias="x")
    b: int = Field(validation_alias=AliasChoices("y", "z"))


class NameOnly(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    a: int = Field(alias="x")


@rows(
    "model, names",
    [
        (Item, {"the id": "id"}),
        (ByName, {"a": "a", "x": "a", "y": "b", "z": "b", "b": "b"}),
        (NameOnly, {"a": "a"}),
        (ByPath, {}),
    ],
)
def test_the_keys_of_fields(model: Any, names: dict[str, str]) -> None:
    """As the model says, by alias or by name."""
    node = PydanticType(model).root
    keys = ("the id", "id", "a", "b", "x", "y", "z", "items")
    assert {key: found[0] for key in keys if (found := node.child(key)) is not None} == names


@rows(
    "model, parts, value",
    [
        (Annotated[list[Item], AfterValidator(tuple)], [1, 2], (1, 2)),
        (Typed, {"items": [], "unknown": 5}, {"items": []}),
        (dict[str, Item], {"\ud83d": 1}, {"\ufffd": 1}),
    ],
)
def test_the_shell_accepts_validated_parts(model: Any, parts: Any, value: Any) -> None:
    """It does what concerns the container, and leaves the parts alone."""
    assert PydanticType(model).root.assemble(parts) == value


@rows(
    "item, values, done",
    [
        (int, [1, 2], [1, 2]),
        (date, ["2030-01-02"], [date(2030, 1, 2)]),
        (int, [1, "2"], None),
        (Annotated[int, AfterValidator(abs)], [1, 2], None),
        (Item, [{"the id": 1}], None),
        (Item | int, [1, 2], None),
    ],
)
def test_many_values_at_once(item: Any, values: list[Any], done: list[Any] | None) -> None:
    """Only if no validator of the user might run a second time after one of them does not fit."""
    assert PydanticType(item).root.validate_all(values) == done
