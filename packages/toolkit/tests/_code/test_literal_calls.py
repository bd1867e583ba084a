"""The calls of a statement that may start early, and the names after which they may not."""

from __future__ import annotations

import ast
import warnings
from time import thread_time
from typing import Any, Final

import pytest
from tests.tables import rows

from eagerstream_toolkit._code.literal_calls import MAX_CHARS, StatementCalls, calls_in, key_of

READING: Final = {"get": ("key", "depth"), "find": ("text",)}
WRITING: Final = {"put", "drop"}


def found(source: str, *rebound: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in calls_in(source, READING, WRITING, rebound).literal]


GET_A: Final = ("get", {"key": "a"})
GET_B: Final = ("get", {"key": "b"})


@rows(
    "source, expected",
    [
        ("await get('a')", [GET_A]),
        ("x = await get(key='a')", [GET_A]),
        ("await get('a', 3)", [("get", {"key": "a", "depth": 3})]),
        ("await get('a', depth=-1.5)", [("get", {"key": "a", "depth": -1.5})]),
        ("await get(depth=None, key='a')", [("get", {"depth": None, "key": "a"})]),
        ("await get('a', other=True)", [("get", {"key": "a", "other": True})]),
        ("await find(text={'a': [1, (2, 'x')]})", [("find", {"text": {"a": [1, [2, "x"]]}})]),
        ("await find('a' 'b')", [("find", {"text": "ab"})]),
        ("await find('''a\nb''')", [("find", {"text": "a\nb"})]),
        ("await asyncio.gather(get('a'), get('b'))", [GET_A, GET_B]),
        ("t = asyncio.create_task(get('a'))", [GET_A]),
        ("print(await get('a'), await get('b')); await get('a')", [GET_A, GET_B, GET_A]),
        ("if x:\n    await get('a')\nelse:\n    await get('b')", [GET_A, GET_B]),
        ("if False:\n    await get('a')", [GET_A]),
        ("while await get('a'):\n    pass", [GET_A]),
        ("for each in await get('a'):\n    await get('b')", [GET_A, GET_B]),
        ("[await get('a') for each in xs]", [GET_A]),
        ("async with x:\n    await get('a')", [GET_A]),
        ("try:\n    await get('a')\nexcept E:\n    await find('a')\nfinally:\n    await get('b')", [GET_A, GET_B]),
        ("match await get('a'):\n    case 1:\n        await get('b')", [GET_A, GET_B]),
    ],
)
def test_what_may_start(source: str, expected: Any) -> None:
    """Calls whose arguments are written out, in the order in which they are written."""
    assert found(source) == expected


@rows(
    "source",
    [
        "await get(x)",
        "await get(f'{x}')",
        "await get(f'a')",
        "await get(1 + 2)",
        "await get(b'a')",
        "await get({1, 2})",
        "await get({1: 2})",
        "await get({[]: 2})",
        "await get(1j)",
        "await get(1e999)",
        "await get(0x" + "f" * 5000 + ")",  # Python does not write such an integer
        "await get(...)",
        "await get(*['a'])",
        "await get(**{'key': 'a'})",
        "await get('a', key='a')",
        "await get('a', 1, 2)",
        "await api.get('a')",
        "await other('a')",
        "fetch = get",
        "'get(1)'",
        "# get('a')",
        "def f():\n    get('a')",
        "async def f():\n    await get('a')",
        "f = lambda: get('a')",
        "class A:\n    x = get('a')",
        "try:\n    pass\nexcept E:\n    await get('a')",
        "await get('a'",
        "await get('a')\n  x",
        "get('\0')",
        "await get('" + "a" * MAX_CHARS + "')",
    ],
)
def test_what_may_not_start(source: str) -> None:
    """Anything else, and calls in code that may not run."""
    assert found(source) == []


@rows(
    "binding",
    [
        "get = 1",
        "get: int = 1",
        "get += 1",
        "del get",
        "(get := 1)",
        "[get, x] = y",
        "for get in x: pass",
        "with x as get: pass",
        "import get",
        "import get.x",
        "import x as get",
        "from x import y as get",
        "def get(): pass",
        "async def get(): pass",
        "class get: pass",
        "try:\n    pass\nexcept E as get:\n    pass",
        "match x:\n    case get: pass",
        "match x:\n    case [*get]: pass",
        "match x:\n    case {**get}: pass",
        "match x:\n    case 1 as get: pass",
        "def f():\n    global get\n    get = 1",
        "[get for get in x]",
    ],
)
def test_names_that_are_bound(binding: str) -> None:
    """In the same statement, whatever the order, and in all later ones."""
    source = f"if x:\n    await get('a')\n    await find('a')\n    {binding.replace(chr(10), chr(10) + '    ')}"
    calls = calls_in(source, READING, WRITING)
    assert [call.name for call in calls.literal] == ["find"]
    assert calls.rebound >= {"get"}
    assert found("await get('a')", *calls.rebound) == []


def test_no_more_calls_are_read_than_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in their order. Those of a statement of 8,000 characters took 35 ms."""
    read: list[object] = []

    def noted(node: ast.expr) -> object:
        read.append(node)
        return literal_eval(node)

    literal_eval = ast.literal_eval
    monkeypatch.setattr("eagerstream_toolkit._code.literal_calls.ast.literal_eval", noted)
    source = ";".join(f"get({number})" for number in range(900))
    calls = calls_in(source, READING, WRITING, max_calls=3)
    assert [call.arguments for call in calls.literal] == [{"key": 0}, {"key": 1}, {"key": 2}]
    assert len(read) == 3
    assert calls_in(source, READING, WRITING, max_calls=0).literal == []


def test_names_of_an_inner_scope() -> None:
    """A function's own names are others."""
    calls = calls_in("def f(get):\n    get = find = 1\n    put(1)", READING, WRITING)
    assert calls == StatementCalls([], frozenset({"f"}), may_write=False)


@rows(
    "source, expected",
    [
        ("await put('a', await get('a'))", [GET_A]),
        ("await get('a'); await put('a', 1); await get('b')", [GET_A]),
        ("await put('a', 1); await get('b')", []),
        ("await asyncio.gather(put('a', 1), get('b'))", []),
        ("await asyncio.gather(*map(put, 'ab')); await get('a')", []),
        ("for x in 'ab':\n    y = await get('a')\n    await drop(y)", [GET_A]),
        ("try:\n    pass\nexcept E:\n    await put('a', 1)\nawait get('a')", []),
    ],
)
def test_calls_behind_a_write(source: str, expected: Any) -> None:
    """In the same statement, nothing starts that comes after the name of a writing tool."""
    calls = calls_in(source, READING, WRITING)
    assert [(call.name, call.arguments) for call in calls.literal] == expected
    assert calls.may_write


def test_keys() -> None:
    """Equal arguments are equal JSON: neither the kind of a number nor a default is filled in or changed."""
    values: list[Any] = [1, 1.0, True, "1", None, [1], {"a": 1}]
    keys = {key_of("get", {"key": value}) for value in values} | {key_of("get", {}), key_of("find", {"key": 1})}
    assert len(keys) == len(values) + 2
    assert key_of("get", {"key": {"a": 1, "b": 2}, "depth": 1}) == key_of("get", {"depth": 1, "key": {"b": 2, "a": 1}})
    assert key_of("get", {"key": float("nan")}) is None
    assert key_of("get", {"key": 1 << 100_000}) is None


def deep(start: str, end: str = "") -> str:
    size = MAX_CHARS // (len(start) + len(end)) - 10
    return f"get({start * size}1{end * size})"


@rows(
    "source",
    [
        deep("(", ")"),
        deep("[", "]"),
        deep("{'a':", "}"),
        deep("-"),
        deep("not "),
        deep("lambda:"),
        deep("1+"),
        deep("2**"),
        deep("x.y."),
        deep("1 if 1 else "),
        deep("[" * 100 + "]" * 100 + ","),
        deep("", "()"),
        deep("", "[:,:]"),
        deep("f'{x}'"),
        "get(1)\n" * (MAX_CHARS // 8),
        "".join(" " * depth + "if get(1):\n" for depth in range(90)) + " " * 90 + "get(1)",
    ],
)
def test_hostile_statements(source: str) -> None:
    """Nested as deeply as fits: no crash, no exception, and no long time."""
    started_s = thread_time()
    calls_in(source, READING, WRITING)
    assert thread_time() - started_s < 0.5


def test_warnings_show_nothing() -> None:
    """The parser warns of some texts, and would print them."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert found(r"await get('a'); await find('\d')") == [GET_A, ("find", {"text": r"\d"})]
    assert told == []
