"""`CompiledSchema`: the time of a check is bounded, whatever the schema asks for, and the result is the right one."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st

from eagerstream.inputs import InputError, _compiled_schema
from eagerstream.inputs._compiled_schema import MAX_STEPS, CompiledSchema, engines
from eagerstream.inputs._raw_schema import RawSchema
from eagerstream.inputs._schema_references import References
from tests.tables import rows
from tests.tools.schemas import an_object, doubled, fault_of

_LEVELS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=12,
)
_A, _B, _ROOT = ({"$ref": reference} for reference in ("#/$defs/a", "#/$defs/b", "#"))


def _schemas(*for_the_same_value: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas with references: any of them for what is in a value, and a few for the value itself."""
    inner = st.sampled_from([_A, _B, _ROOT, {"type": "integer"}, True])
    same = st.sampled_from([*for_the_same_value, {"type": "integer"}, {"required": ["a"]}, True])
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer", ["string", "object"]]),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "contains": inner,
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            **{keyword: st.lists(same, min_size=1, max_size=2) for keyword in ("allOf", "anyOf", "oneOf")},
            **dict.fromkeys(("if", "then", "not"), same),
        },
    )


@given(root=_schemas(_A, _B), a=_schemas(_B), b=_schemas(), input=_LEVELS)
def test_references_are_followed_as_by_the_library(root: Any, a: Any, b: Any, input: Any) -> None:
    """It follows them by itself if it gets the schema as it is; that may only take too long."""
    schema = {**root, "$defs": {"a": a, "b": b}}
    theirs = jsonschema_rs.Draft202012Validator(schema).is_valid(input)
    checked = RawSchema(schema, any_type=True)
    assert checked.faults == []
    try:
        checked.check(input)
    except InputError as error:
        assert not theirs, error
    else:
        assert theirs


@rows("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_reference_for_each_of_two_alternatives(keyword: str) -> None:
    """In 40 levels: each schema checks a value once, not 2^40 times, a text as well as an object."""
    schema = doubled(keyword)
    fits = keyword != "oneOf"  # two of two fit
    for value in ("s", 1, {"b": [1, 2]}):
        start = time.thread_time()
        if fits and value == "s":
            assert RawSchema(schema).check({"a": value}) == {"a": value}
        else:
            fault_of(schema, {"a": value})
        assert time.thread_time() - start < 2  # 0.01 s


def test_alternatives_at_each_level_of_an_input() -> None:
    """Types that refer to one another, 40 of them: 40^n checks for n levels without what is remembered."""
    names = [f"t{number}" for number in range(40)]
    item = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    node = {"type": "object", "properties": {"a": item}, "required": ["a"]}
    schema = {"type": "object", "properties": {"a": item}, "$defs": dict.fromkeys(names, node)}
    deep: Any = "x"
    for _ in range(30):
        deep = {"a": deep}
    start = time.thread_time()
    fault_of(schema, deep)
    assert time.thread_time() - start < 3  # 0.03 s


@rows("levels", [150, 511])
def test_deep_inputs(levels: int) -> None:
    """Taken, or explained: there is no room for any number of references inside one another."""
    recursive = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"a": deep}
    if levels < 200:
        assert RawSchema(recursive).check(deep) == deep
    else:
        assert "nested too deeply" in fault_of(recursive, deep)


def test_few_frames_left() -> None:
    """A check may be called from anywhere: it ends with an explanation, not with a `RecursionError`, or a wrong result."""
    recursive = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "integer"}}}
    deep: dict[str, Any] = {"b": "wrong"}
    for _ in range(100):
        deep = {"a": deep}
    told = set()

    def called(frames: int) -> None:
        if frames:
            called(frames - 1)
        else:
            told.add(fault_of(recursive, deep)[:40])

    for frames in (1, 300, 600, 800, 850, 900):
        called(frames)
    assert told == {"Error: the input is nested too deeply to", "Error: Invalid parameter 'a.a.a.a.a.a.a."}


def test_an_interruption_is_no_fault_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """jsonschema-rs takes what a keyword raises for a fault; Ctrl-C has to come through."""
    schema = RawSchema(an_object(a={"anyOf": [{"$ref": "#/$defs/n"}, True]}) | {"$defs": {"n": {"type": "integer"}}})
    found = CompiledSchema.target

    def interrupted(self: CompiledSchema, schema: dict[str, Any]) -> Any:
        found(self, schema)
        raise KeyboardInterrupt

    monkeypatch.setattr(CompiledSchema, "target", interrupted)
    with pytest.raises(KeyboardInterrupt):
        schema.check({"a": 1})
    monkeypatch.undo()
    assert schema.check({"a": 1}) == {"a": 1}


def test_several_threads() -> None:
    """Each check has its own memory of what fits."""
    schema = RawSchema(doubled("allOf"))
    wrong: list[Any] = []

    def check(value: Any) -> None:
        for _ in range(20):
            try:
                schema.check({"a": value})
            except InputError:
                if value == "s":
                    wrong.append(value)
            else:
                if value != "s":
                    wrong.append(value)

    threads = [threading.Thread(target=check, args=(value,)) for value in ("s", 1, "s", {"b": 1})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_schema_that_is_not_needed_any_more() -> None:
    """It goes at once, although its validators lead back to it: there may be one for each request."""
    schema: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}
    compiled = CompiledSchema(References(schema, ""), engines()[0])
    with compiled.checking():
        assert compiled.fits(compiled.root, {})
    gone = weakref.ref(compiled)
    gc.disable()
    try:
        del compiled
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("schema", "input"),
    [
        (an_object(a={"anyOf": [{"type": "string"}] * 4_000}), {"a": ["a"] * 100_000}),
        (an_object(a={"allOf": [{"enum": [["a"] * 10_000]}] * 2}), {"a": [[]] * 20_000}),
        (an_object(a={"items": {"enum": [{}] * 40_000 + [7]}}), {"a": [7] * 10_000}),
        (an_object(a={"uniqueItems": True}), {"a": [10**25 + n for n in range(4_000)]}),
        (an_object(a={"items": {f"k{n}": 0 for n in range(4_000)}}), {"a": [1] * 100_000}),
        (an_object(a={"allOf": [{"pattern": f"a[ab]{{4000}}[c-e]{{{n}}}"} for n in range(1, 5)]}), {"a": "ab" * 20_000}),
    ],
    ids=["anyOf", "enum", "enum of objects", "large numbers", "keywords that nobody knows", "patterns"],
)  # fmt: skip
def test_too_many_steps(schema: dict[str, Any], input: dict[str, Any]) -> None:
    """The check does not begin: what it may cost is known from the sizes."""
    checked = RawSchema(schema)
    start = time.thread_time()
    with pytest.raises(InputError, match="too long to be checked"):
        checked.check(input)
    assert time.thread_time() - start < 2  # 0.05 s


def test_a_step_takes_about_ten_nanoseconds() -> None:
    """The costliest schemas of each kind, with a hundredth of the steps that a check may have."""
    text = "".join(random.Random(0).choices("ab", k=90_000))
    costly: list[tuple[dict[str, Any], Any]] = [
        ({"items": {"enum": [{"a": [1.5, n]} for n in range(50)]}}, [{"a": [1.5, 49]}] * 270),
        ({"items": {"enum": [10**25 + n for n in range(200)]}}, [10**25 + 199] * 120),
        ({"allOf": [{"uniqueItems": True}] * 100}, [[[n]] for n in range(1_300)]),
        ({"uniqueItems": True}, [10**25 + n for n in range(200)]),
        ({"items": {"multipleOf": 0.01}}, [1.7e-308 * n for n in range(1, 180)]),
        ({"items": {"dependentRequired": {f"{n:x}": [] for n in range(1_000)}}}, [{"z": 1}] * 680),
        ({"pattern": "a[ab]{90}[cd]"}, text),
        ({"pattern": "a[ab]{4000}[cd]"}, text[:480]),
        ({"pattern": r"(?=.*b)(a|aa)+\1$"}, "a" * 2_800),
    ]
    start = time.thread_time()
    for schema, value in costly:
        checked = RawSchema(schema, any_type=True)
        assert 1 / 500 < checked._compiled.cost.of(value) / MAX_STEPS < 1 / 50, schema
        with suppress(InputError):
            checked.check(value)
    assert time.thread_time() - start < 5  # 0.1 s


def test_a_union_of_many_types() -> None:
    """As editors of documents have them: each item is one of many types, and none of the others."""
    types = {
        f"t{number}": an_object(
            ("type", "text"), type={"const": f"t{number}"}, text={"type": "string"},
            inside={"type": "array", "items": {"$ref": "#/$defs/any"}},
        )
        for number in range(40)
    }  # fmt: skip
    union = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in types]}
    schema = an_object(a={"type": "array", "items": {"$ref": "#/$defs/any"}}) | {"$defs": types | {"any": union}}
    item: dict[str, Any] = {"type": "t39", "text": "Words."}
    for _ in range(5):
        item = {"type": "t0", "text": "Words.", "inside": [item, item]}
    assert RawSchema(schema).check({"a": [item]}) == {"a": [item]}


@pytest.mark.parametrize("around", ["contains", "items"])
def test_many_references(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are followed are counted. After the last one the library goes on, but nothing is followed any more."""
    monkeypatch.setattr(_compiled_schema, "_MAX_CALLS", 50_000)
    names = [f"t{number}" for number in range(60)]
    union = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    schema = an_object(a={around: {"not": union} if around == "items" else union})
    schema["$defs"] = {name: {"const": name} for name in names}
    start = time.thread_time()
    text = fault_of(schema, {"a": [{"n": number} for number in range(20_000)]})
    assert "takes too long to be checked" in text
    assert time.thread_time() - start < 10  # 0.5 s
