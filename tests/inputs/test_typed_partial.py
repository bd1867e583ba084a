"""`TypedPartial`: an instance of a model that grows, at the cost of the new text alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NotRequired, cast

import pydantic
import pytest
from hypothesis import example, given, settings, strategies as st
from pydantic import BaseModel, Field, TypeAdapter, field_validator, model_validator
from typing_extensions import TypedDict

from eagerstream.errors import UsageError
from eagerstream.inputs import InputError, Partial, TypedPartial, adapter_of
from eagerstream.limits import Limits
from eagerstream_wire import PartialJSON, TolerantJSON
from tests.streams import cut_at
from tests.tables import rows


class Item(BaseModel):
    id: int
    name: Annotated[str, Field(max_length=8)] = "unnamed"
    price: Annotated[float, Field(gt=0)]
    tags: list[str] = []


class Order(BaseModel):
    title: str
    count: int = 1
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    best: Item | None = None
    sizes: list[int] = []


def pieces(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def followed(model: Any, text: str, length: int = 3, **options: Any) -> Iterator[tuple[PartialJSON, TypedPartial[Any]]]:
    """The parser and the typed value after each fragment."""
    parser = PartialJSON(**options)
    typed = TypedPartial(model, parser)
    for piece in pieces(text, length):
        parser.feed(piece)
        yield parser, typed


def begun(model: Any, text: str = "") -> tuple[PartialJSON, TypedPartial[Any]]:
    """A parser that was fed a text, and the typed value."""
    parser = PartialJSON()
    typed = TypedPartial(model, parser)
    parser.feed(text)
    return parser, typed


def at_end(model: Any, text: str, length: int = 3) -> TypedPartial[Any]:
    """The typed value of a complete text, looked at after each fragment."""
    typed = None
    for _, typed in followed(model, text, length):
        assert typed.value is not None
    assert typed is not None
    return typed


def plain(value: Any) -> Any:
    """A typed value with the classes of its records, for comparison: equal values of models need equal fields only."""
    if isinstance(value, BaseModel):
        return type(value).__name__, {name: plain(part) for name, part in vars(value).items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value


# --- an oracle --------------------------------------------------------------------------------------------------------


def item_so_far(raw: Any, *, is_finished: bool) -> Any:
    """An item by the rule: validated when it is finished, otherwise its fields so far."""
    if is_finished:
        try:
            return Item.model_validate_json(json.dumps(raw), strict=True)
        except pydantic.ValidationError:
            pass
    if not isinstance(raw, dict):
        return raw
    return Item.model_construct(**{name: raw.get(name) for name in Item.model_fields})


def order_so_far(parser: PartialJSON) -> Any:
    """What an order shows, made anew from the plain value: slow and simple."""
    raw: Any = parser.value if isinstance(parser.value, dict) else {}
    if parser.complete:
        try:
            return Order.model_validate_json(json.dumps(raw), strict=True)
        except pydantic.ValidationError:
            pass
    fields: dict[str, Any] = dict.fromkeys(Order.model_fields)
    for name in fields.keys() & raw.keys():
        value = raw[name]
        if name == "items" and isinstance(value, list):
            value = [
                item_so_far(item, is_finished=parser.is_finished((name, place))) for place, item in enumerate(value)
            ]
        elif name == "by_name" and isinstance(value, dict):
            value = {key: item_so_far(item, is_finished=parser.is_finished((name, key))) for key, item in value.items()}
        elif name == "best" and isinstance(value, dict):
            # A nested record is validated when it is finished; its fields are validated one by one before that.
            value = item_so_far(value, is_finished=parser.is_finished((name,)))
        fields[name] = value
    return Order.model_construct(**fields)


_names = st.text('ab\\"é\n😀 ', max_size=12)
_prices: st.SearchStrategy[Any] = st.one_of(
    st.floats(0.5, 9), st.integers(1, 9), st.sampled_from(["x", None, -1, [], {}])
)
_items = st.one_of(
    st.fixed_dictionaries(
        {"id": st.one_of(st.integers(), st.just("1"))},
        optional={"name": _names, "price": _prices, "tags": st.lists(_names, max_size=3), "unknown": st.just({"a": 1})},
    ),
    st.sampled_from([1, "item", None, [], [{}]]),
)
_orders = st.fixed_dictionaries(
    {},
    optional={
        "title": st.one_of(_names, st.just(5)),
        "count": st.integers(),
        "items": st.one_of(st.lists(_items, max_size=4), st.sampled_from(["items", {}])),
        "by_name": st.dictionaries(_names, _items, max_size=3),
        "best": st.one_of(st.none(), _items),
        "sizes": st.lists(st.one_of(st.integers(), st.just("1")), max_size=4),
        "unknown": _items,
    },
)


@given(_orders, st.data())
@settings(deadline=None)
def test_at_every_cut_the_value_is_that_of_the_oracle(order: Any, data: st.DataObject) -> None:
    """Finished parts are validated, open ones show their fields, at every place where a text may be cut."""
    text = json.dumps(order)
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
    parser, typed = begun(Order)
    for piece in cut_at(text, places):
        parser.feed(piece)
        assert plain(typed.value) == plain(order_so_far(parser))


@given(_orders, st.integers(1, 9))
@settings(deadline=None)
def test_at_its_end_the_value_is_the_model(order: Any, length: int) -> None:
    """The parts that were validated one by one give the same model, or a fault where pydantic finds one, too."""
    typed = at_end(Order, json.dumps(order), length)
    try:
        whole = TypeAdapter(Order).validate_json(json.dumps(order), strict=True)
    except pydantic.ValidationError:
        assert typed.fault is not None
        with pytest.raises(InputError):
            adapter_of(Order).validate(order)
    else:
        assert typed.fault is None
        assert typed.value == whole == adapter_of(Order).validate(order) == Order.model_validate(order)
        assert typed.value.model_fields_set == whole.model_fields_set


_tokens = st.sampled_from(
    [
        '{"items":[',
        '{"title":"',
        '"title":',
        '"items":',
        '"by_name":{',
        '"a":',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "1",
        "null",
    ]
)


@given(st.lists(_tokens, max_size=40).map("".join), st.integers(1, 5))
@example('{"items":[{"id":1}],"items":[{"id":2},{"id":3', 1)
@settings(deadline=None)
def test_no_text_makes_it_raise(text: str, length: int) -> None:
    """A text that is no JSON, or the JSON of something else, gives a value all the same."""
    for _, typed in followed(Order, text, length):
        assert isinstance(typed.value, Order)
        assert typed.fault is None or isinstance(typed.fault, InputError)


# --- what is validated, and when --------------------------------------------------------------------------------------


def test_each_validator_runs_once_for_each_part() -> None:
    """However often it is looked at, and also at the end: validators may count, or ask a database."""
    calls: list[str] = []

    def called(name: str, value: Any) -> Any:
        calls.append(name)
        return value

    class Part(BaseModel):
        id: int
        _before = model_validator(mode="before")(lambda cls, data: called(f"before {data['id']}", data))
        _field = field_validator("id")(lambda cls, value: called(f"id {value}", value))

        @model_validator(mode="after")
        def after(self) -> Part:
            calls.append(f"after {self.id}")
            return self

    class Whole(BaseModel):
        parts: list[Part]
        last: Part
        _parts = field_validator("parts")(lambda cls, value: called(f"parts {len(value)}", value))

        @model_validator(mode="after")
        def after(self) -> Whole:
            calls.append("whole")
            return self

    text = json.dumps({"parts": [{"id": 1}, {"id": 2}], "last": {"id": 3}})
    typed = at_end(Whole, text, 1)
    assert typed.value == typed.value
    parts = [f"{name} {number}" for number in (1, 2, 3) for name in ("before", "id", "after")]
    assert calls == [*parts[:6], "parts 2", *parts[6:], "whole"]


def test_finished_items_keep_their_identity() -> None:
    """A page that shows items by their identity draws each one once, also when the input ends."""
    text = json.dumps({"title": "t", "items": [{"id": n, "price": 1} for n in range(5)]})
    seen: list[Item] = []
    typed = None
    for parser, typed in followed(Order, text, 1):
        items = typed.value.items or []
        finished = [item for place, item in enumerate(items) if parser.is_finished(("items", place))]
        assert all(one is other for one, other in zip(seen, finished, strict=False))
        seen = finished
    assert typed is not None
    assert len(seen) == 5
    assert all(one is other for one, other in zip(seen, typed.value.items, strict=True))


def test_an_open_item_is_a_view() -> None:
    """It is an instance of the model, with the text of a string so far, and None in place of what is to come."""
    parser, typed = begun(Order)
    assert plain(typed.value) == ("Order", dict.fromkeys(Order.model_fields))
    parser.feed('{"title": "a", "items": [{"id": "no number", "name": "longer than eight')
    (item,) = typed.value.items
    assert isinstance(item, Item)
    assert vars(item) == {"id": "no number", "name": "longer than eight", "price": None, "tags": None}
    assert item.model_fields_set == {"id", "name"}
    assert typed.fault is None
    parser.feed(" characters")
    assert item.name == "longer than eight characters", "the parser lengthens it, also without a look"


def test_a_fault_is_known_when_its_item_is_finished() -> None:
    """The author of a page marks the item, and continues with the others."""
    parser, typed = begun(Order, '{"title": "t", "items": [{"id": 1, "price": 1}, {"id": 2, "price": "x"')
    assert typed.fault is None
    parser.feed('}, {"id": 3')
    fault = typed.fault
    assert fault is not None
    assert fault.path == ("items", 1, "price")
    assert fault.place == "items[1].price"
    assert "Input should be a valid number" in str(fault)
    parser.feed(', "price": 3}]}')
    assert [item.id for item in typed.value.items] == [1, 2, 3]
    assert typed.value.items[1].price == "x"
    assert typed.fault is fault


@rows(
    "text, path",
    [
        ('{"title": 5, "count": ', ("title",)),
        ('{"sizes": [1, "x", ', ("sizes", 1)),
        ('{"by_name": {"a": {"id": 1}, ', ("by_name", "a", "price")),
        ('{"best": {"id": 1, "price": 0}', ("best", "price")),
        ('{"best": {"id": "x", "pri', ("best", "id")),
        ('{"items": "none", ', ("items",)),
        ('{"count": 1}', ("title",)),
        ("[1", ()),
        ("5 ", ()),
    ],
)
def test_where_a_fault_is(text: str, path: tuple[str | int, ...]) -> None:
    """The place is that in the whole input."""
    parser, typed = begun(Order, text)
    if text in ("[1", "5 "):
        parser.feed("]" if text == "[1" else "")
        parser.close()
    assert typed.fault is not None
    assert typed.fault.path == path
    assert isinstance(typed.value, Order)


def test_a_repeated_key_counts_at_last() -> None:
    """As for `json.loads`, also if the first value was validated, and although it was at fault."""
    texts = [
        '{"title": "a", "title": "b"}',
        '{"title": 1, "count": 2, "title": "b"}',
        '{"title": "a", "items": [{"id": 1, "price": 1}, {"id": 5, "price": "x"}], "items": [{"id": 2, "price": 2}]}',
        '{"title": "a", "by_name": {"a": {"id": 1}, "b": {"id": 1, "price": 1}, "a": {"id": 2, "price": 3}}}',
        '{"title": "a", "best": {"id": 1, "price": 1, "id": 2}, "best": null, "best": {"price": 7, "id": 4}}',
    ]
    for text in texts:
        for length in (1, 2, 7, len(text)):
            typed = at_end(Order, text, length)
            assert typed.fault is None
            assert typed.value == Order.model_validate(json.loads(text))


def test_a_key_that_is_repeated_between_two_looks() -> None:
    """The list that was open at the first look is not that of the second."""
    parser, typed = begun(Order, '{"items": [{"id": 1, "price": 1}, {"id')
    assert len(typed.value.items) == 2
    parser.feed('": 2, "price": 2}], "items": [{"id": 3, "price": 3}], "title": "')
    assert typed.value.items == [Item(id=3, price=3)]
    parser.feed('a", "items": [{"id": 4')
    assert typed.value.items[0].price is None
    parser.feed(', "price": 4}]}')
    assert typed.value == Order(title="a", items=[Item(id=4, price=4)])


# --- kinds of models --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    id: int
    text: str = "none"


@dataclasses.dataclass
class Table:
    rows: list[Row]
    title: str = "untitled"


@pydantic.dataclasses.dataclass
class Checked:
    rows: list[Row]
    title: str = Field("untitled", min_length=2)


class Line(TypedDict):
    id: int
    text: NotRequired[str]


class Page(TypedDict):
    rows: list[Line]
    title: NotRequired[str]


_ROWS = '{"rows": [{"id": 1, "text": "one"}, {"id": 2}], "title": "two"}'


@rows("model", [Table, Checked, Page])
def test_other_kinds_of_models(model: Any) -> None:
    """Dataclasses of both kinds, and TypedDicts, whose absent keys are absent."""
    typed = None
    for parser, typed in followed(model, _ROWS):
        raw = cast("dict[str, Any]", parser.value)
        if model is Page:
            assert typed.value.keys() == raw.keys()
        else:
            assert type(typed.value) is model
            assert (typed.value.title is None) is ("title" not in raw)
    assert typed is not None
    assert typed.fault is None
    assert typed.value == TypeAdapter(model).validate_json(_ROWS)
    assert adapter_of(model).validate(json.loads(_ROWS)) == typed.value
    assert adapter_of(model).schema()["required"] == ["rows"]


def test_lists_and_dicts_at_the_root() -> None:
    """Structured outputs may be a list."""
    text = '[{"id": 1, "price": 2}, {"id": 2, "price": 3}]'
    parser, typed = begun(list[Item])
    assert typed.value == []
    parser.feed(text[:-3])
    assert typed.value[0] == Item(id=1, price=2)
    assert typed.value[1].id == 2
    parser.feed(text[-3:])
    assert typed.value == [Item(id=1, price=2), Item(id=2, price=3)]
    assert at_end(dict[str, Item], '{"a": {"id": 1, "price": 1}}').value == {"a": Item(id=1, price=1)}


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


class Odd(BaseModel):
    pets: list[Cat | Dog] = []
    pair: tuple[int, Item] | None = None
    either: int | Item = 0
    renamed: str = Field("", alias="re-named")
    choice: str = Field("", validation_alias=pydantic.AliasChoices("a", "b"))
    deep: str = Field("", validation_alias=pydantic.AliasPath("c", 0))
    when: pydantic.AwareDatetime | None = None


def test_odd_fields() -> None:
    """Unions, tuples and dates are plain until they are finished; aliases are found under their names."""
    pets = [{"kind": "cat", "lives": 9}, {"kind": "dog"}]
    odd = {"pets": pets, "pair": [1, {"id": 1, "price": 1}], "either": {"id": 1, "price": 1}, "re-named": "x", "b": "y"}
    odd |= {"when": "2030-01-01T00:00:00Z"}
    _, typed = begun(Odd, json.dumps(odd))
    assert typed.value == Odd.model_validate(odd)
    _, typed = begun(Odd, '{"c": ["z"]}')
    assert typed.value.deep == "z"


class Simple(BaseModel):
    pets: list[Cat | Dog] = []
    renamed: str = Field("", alias="re-named")


def test_a_union_is_plain_until_it_is_finished() -> None:
    """Which model it will be is not known before."""
    _, typed = begun(Simple, '{"re-named": "x", "pets": [{"kind": "dog"}, {"kind": "cat", "li')
    assert typed.value.renamed == "x"
    assert typed.value.pets == [Dog(kind="dog"), {"kind": "cat"}]


class Tree(BaseModel):
    name: str = ""
    children: list[Tree] = []


def test_records_in_items_of_items() -> None:
    """An item that holds items is validated part by part: a fault in it is known before it ends."""
    text = '{"children": [{"name": "a", "children": [{"name": "b"}, {"name": 5}, {"na'
    _, typed = begun(Tree, text)
    assert typed.fault is not None
    assert typed.fault.place == "children[0].children[1].name"
    assert typed.value.children[0].children[0] == Tree(name="b")


def test_unknown_keys() -> None:
    """They are kept, ignored or refused as the model says."""

    class Open(BaseModel, extra="allow"):
        a: int

    class Closed(BaseModel, extra="forbid"):
        a: int

    text = '{"a": 1, "more": {"b": [2]}}'
    assert at_end(Open, text).value == Open.model_validate_json(text)
    assert at_end(Item, '{"id": 1, "price": 1, "more": 3}').value == Item(id=1, price=1)
    closed = at_end(Closed, text)
    assert closed.fault is not None
    assert closed.fault.place == "more"
    _, typed = begun(Open, '{"more": "gro')
    assert typed.value.model_extra == {"more": "gro"}


def test_a_model_that_changes_its_input_is_validated_as_one() -> None:
    """Its parts are not those of the text, so they show without validation until the end."""

    class Whole(BaseModel):
        items: list[Item]

        @model_validator(mode="before")
        @classmethod
        def upgraded(cls, data: Any) -> Any:
            return {"items": [{"price": 1, **item} for item in data["items"]]}

    text = '{"items": [{"id": 1}, {"id": 2}]}'
    parser, typed = begun(Whole, text[:-1])
    assert typed.value.items[0].price is None
    parser.feed(text[-1])
    assert typed.value == Whole.model_validate_json(text)


def test_validators_that_read_other_fields() -> None:
    """They get the fields before theirs."""

    class Whole(BaseModel):
        most: int
        sizes: list[int]

        @field_validator("sizes")
        @classmethod
        def bounded(cls, sizes: list[int], info: pydantic.ValidationInfo) -> list[int]:
            return [min(size, info.data["most"]) for size in sizes]

    assert at_end(Whole, '{"most": 3, "sizes": [2, 5]}').value.sizes == [2, 3]


def test_a_validator_that_fails() -> None:
    """Any exception of it is a fault of the item, and not of the program that looks."""

    class Whole(BaseModel):
        parts: list[Any] = []
        _broken = field_validator("parts")(lambda cls, value: value[99])

    typed = at_end(Whole, '{"parts": [1]}')
    assert typed.fault is not None
    assert typed.fault.path == ("parts",)
    assert "IndexError" in str(typed.fault)
    with pytest.raises(InputError, match="IndexError"):
        adapter_of(Whole).validate({"parts": []})


@rows("model", [int, str, object(), "Order", list[int] | int, pydantic.RootModel[int], {"a": 1}, Any])
def test_wrong_models(model: Any) -> None:
    """They are reported at once, not by a value that never comes."""
    with pytest.raises(UsageError, match="use a pydantic model"):
        TypedPartial(model, PartialJSON())
    with pytest.raises(UsageError):
        adapter_of(model)


def test_other_parsers() -> None:
    """The value of a tolerant parser is guessed anew at each look; the typed one is strict."""
    parser = TolerantJSON()
    typed = TypedPartial(Order, parser)
    parser.feed('{"title": "a", "count": 1')
    assert parser.value == {"title": "a", "count": 1}
    assert typed.value.count is None
    parser.feed("0}")
    assert typed.value == Order(title="a", count=10)


def test_the_mark_of_partial_values() -> None:
    """`Partial[Model]` is a `Model` for pydantic and for type checkers."""
    item: Partial[Item] = Item(id=1, price=1)
    assert TypeAdapter(Partial[Item]).validate_python(item) is item
    assert repr(Partial[Item]).endswith("partial]")


# --- the cost ---------------------------------------------------------------------------------------------------------


def _work_of_last_looks(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of parts visited by 50 looks of which each has one more fragment."""
    visited = 0

    def counting(name: str) -> None:
        original: Any = getattr(TypedPartial, name)

        def counted(*args: Any) -> Any:
            nonlocal visited
            visited += 1
            return original(*args)

        monkeypatch.setattr(TypedPartial, name, counted)

    for name in ("_end", "_open", "_show", "_viewed", "_begun"):
        counting(name)
    parser, typed = begun(Order, text)
    assert typed.value is not None
    visited = 0
    for piece in pieces(', {"id": 7, "name": "seven", "price": 7, "tags": ["a", "b"]}' * 5, 6):
        parser.feed(piece)
        assert typed.value is not None
    monkeypatch.undo()
    return visited


@pytest.mark.parametrize(
    "opening", ['{"items": [{"id": 0, "price": 1}', '{"sizes": [1], "title": "x", "items": [{"id": 1}']
)
def test_the_work_of_a_look_does_not_depend_on_the_document(opening: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand items before it, a fragment visits as many parts as with one."""
    few = _work_of_last_looks(opening, monkeypatch)
    many = _work_of_last_looks(opening + ', {"id": 1, "price": 2}' * 1_000, monkeypatch)
    assert few == many


def test_a_dict_of_many_values_is_not_read_from_its_start() -> None:
    """Its newest keys are found from its end."""

    class Keys(dict[str, Any]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("read from its start")

    from eagerstream.inputs._typed_partial import _last_keys

    assert _last_keys(Keys({"a": 1, "b": 2, "c": 3}), 2) == ["b", "c"]


@rows("opening", ['{"title": "', '{"items": [{"id": 1, "name": "', '{"best": {"name": "'])
def test_a_look_keeps_no_second_reference_to_the_open_string(opening: str) -> None:
    """CPython lengthens a string in place if nothing else refers to it; otherwise each fragment would copy 100 KB."""
    parser, typed = begun(Order, opening)
    looks = 0
    for _ in range(50):
        assert typed.value is not None
        assert len(parser.mirrors) == 1, "the parser knows of the view, and lengthens the string there"
        parser.feed("some more text")
        looks += 1
    assert "some more text" * looks in repr(typed.value)
    parser.feed('", "x": "')
    assert typed.value is not None
    assert len(parser.mirrors) <= 1


def test_two_models_follow_one_parser() -> None:
    """Both views show the open string."""
    parser = PartialJSON()
    orders, rows = TypedPartial(Order, parser), TypedPartial(Checked, parser)
    for piece in ('{"title": "a', "b", 'c", "rows": [', '{"id": 1}]}'):
        parser.feed(piece)
        assert orders.value.title == rows.value.title
    assert rows.value == Checked(rows=[Row(1)], title="abc")


@rows("depth, length", [(60, 1), (200, 50)])
def test_deep_nesting(depth: int, length: int) -> None:
    """The model may contain itself, and the text nests as deep as the limits allow."""
    text = '{"children": [' * depth + "]}" * depth
    typed = None
    for _, typed in followed(Tree, text, length):
        assert isinstance(typed.value, Tree)
    assert typed is not None
    assert typed.fault is None or isinstance(typed.fault, InputError)
    for _, typed in followed(Tree, '{"children": [' * depth * 3, length, limits=Limits(max_depth=2000)):
        assert isinstance(typed.value, Tree)


def test_many_items_in_one_fragment() -> None:
    """Each is visited once."""
    count = 20_000
    parser, typed = begun(Order, '{"sizes": [' + "1," * count + "2")
    assert len(typed.value.sizes) == count
    parser.feed('], "unknown": {' + ",".join(f'"{key}": 1' for key in range(count)) + "}")
    assert typed.fault is None
    assert len(typed.value.sizes) == count + 1
