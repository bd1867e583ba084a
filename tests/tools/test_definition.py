"""`@tool`: what the model reads of a function."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.tools import Tool, as_tool, tool


@tool
async def get_weather(city: str, unit: str = "celsius") -> str:
    """Current weather in a city.

    As of the last full hour.

    Args:
        city: City and country.
        unit: Of the temperature.

    Returns:
        A sentence.
    """
    return f"15 degrees {unit} in {city}"


def test_the_definition() -> None:
    """Golden: name, description and schema, as the API takes them, eager streaming on."""
    assert get_weather.to_dict() == {
        "name": "get_weather",
        "description": "Current weather in a city.\n\nAs of the last full hour.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City and country."},
                "unit": {"type": "string", "description": "Of the temperature.", "default": "celsius"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
        "eager_input_streaming": True,
    }


def test_a_definition_is_a_copy() -> None:
    """What a caller changes in one definition does not change the tool."""
    get_weather.to_dict()["name"] = "other"
    assert get_weather.to_dict()["name"] == "get_weather"


@pytest.mark.parametrize(("eager", "expected"), [(True, {True}), (False, {False}), (None, set())])
def test_eager(eager: bool | None, expected: set[bool]) -> None:  # noqa: FBT001
    """Tri-state: on, off whatever a header says, or left to the API."""

    @tool(eager=eager)
    async def f() -> None: ...

    definition = f.to_dict()
    assert {definition[key] for key in definition if key == "eager_input_streaming"} == expected


def test_without_parameters() -> None:
    """A schema is an object even where there is nothing in it."""

    @tool
    async def now() -> str:
        """The time."""
        return "noon"

    assert now.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.anyio
async def test_a_tool_still_is_its_function() -> None:
    """It can be called, and looked at, as before."""
    assert await get_weather("Oslo", unit="kelvin") == "15 degrees kelvin in Oslo"
    assert get_weather.__name__ == "get_weather"
    assert get_weather.__doc__ is not None
    assert list(inspect.signature(get_weather).parameters) == ["city", "unit"]
    assert repr(get_weather) == "<tool get_weather>"
    assert isinstance(get_weather, Tool)


@pytest.mark.anyio
async def test_call_with_an_input() -> None:
    """For a loop of one's own: an input in, the function's own result out."""
    assert await get_weather.call({"city": "Oslo"}) == "15 degrees celsius in Oslo"


def test_own_name_and_description() -> None:
    """The function's words can be overridden; an empty description is left out."""

    @tool(name="look-up_2", description="Look it up.")
    async def f() -> None:
        """Not this."""

    assert (f.name, f.description) == ("look-up_2", "Look it up.")

    @tool(description="")
    async def g() -> None:
        """Not this."""

    assert "description" not in g.to_dict()


@pytest.mark.parametrize("name", ["a b", "größe", "a" * 65, "a.b", "a\n"])
def test_names_that_the_api_refuses(name: str) -> None:
    """Said at definition time, not with the first request."""

    async def f() -> None: ...

    with pytest.raises(UsageError, match="name"):
        tool(name=name)(f)
    tool(name="a" * 64)(f)


def test_an_empty_name_is_no_name() -> None:
    """An empty string is refused rather than quietly replaced."""

    async def f() -> None: ...

    with pytest.raises(UsageError, match="name"):
        tool(name="")(f)


_DOCSTRINGS = {
    "google": """Find things.

        Longer text.

        Args:
            query: What to find,
                in words.
            limit (int): At most.

        Raises:
            ValueError: Never.
        """,
    "numpy": """Find things.

        Longer text.

        Parameters
        ----------
        query : str
            What to find,
            in words.
        limit : int
            At most.

        Returns
        -------
        str
            Things.
        """,
    "rest": """Find things.

        Longer text.

        :param query: What to find,
            in words.
        :param limit: At most.
        :returns: Things.
        """,
}


@pytest.mark.parametrize("style", _DOCSTRINGS)
def test_docstring_styles(style: str) -> None:
    """Google, NumPy and reST docstrings give the same descriptions, without the sections."""

    async def find(query: str, limit: int = 3) -> None: ...

    find.__doc__ = _DOCSTRINGS[style]
    found = tool(find)
    assert found.description == "Find things.\n\nLonger text."
    properties: Any = found.input_schema["properties"]
    assert properties["query"]["description"].split() == ["What", "to", "find,", "in", "words."]
    assert properties["limit"]["description"] == "At most."


def test_no_docstring() -> None:
    """Allowed: the description is left out."""

    @tool
    async def f(a: int) -> None: ...

    assert f.description == ""
    assert "description" not in f.to_dict()
    assert f.input_schema["properties"] == {"a": {"type": "integer"}}


class Library:
    """Something with methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def find(self, title: str) -> str:
        """Find a book.

        Args:
            title: Of the book.
        """
        return f"{title} in {self.name}"

    @staticmethod
    async def count(shelf: int) -> int:
        """Count."""
        return shelf

    @classmethod
    async def make(cls, name: str) -> str:
        """Make one."""
        return cls(name).name


@pytest.mark.anyio
async def test_methods() -> None:
    """A bound method is a tool without its `self`; static and class methods are too."""
    find = tool(Library("Oslo").find)
    assert find.name == "find"
    assert find.input_schema["required"] == ["title"]
    assert await find.call({"title": "Growth"}) == "Growth in Oslo"
    assert await tool(Library.count).call({"shelf": 2}) == 2
    assert await tool(Library.make).call({"name": "Rome"}) == "Rome"


def test_an_unbound_method() -> None:
    """There is nobody to fill `self`: it is a tool of each object, not of the class."""
    unbound = tool(Library.find)
    assert unbound.is_unbound
    with pytest.raises(UsageError, match="from an object"):
        as_tool(unbound)


@pytest.mark.anyio
async def test_decorated_functions() -> None:
    """A decorator that keeps the signature is seen through."""

    def twice(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return [await function(*args, **kwargs) for _ in range(2)]

        return wrapper

    @tool
    @twice
    async def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert double.input_schema["required"] == ["n"]
    assert await double.call({"n": 4}) == [8, 8]


@pytest.mark.anyio
async def test_partials() -> None:
    """What is already filled in is not asked of the model; without a name of its own one must be given, or said."""

    async def find(library: str, title: str) -> str:
        """Find a book."""
        return f"{title} in {library}"

    here = functools.partial(find, "Oslo")
    try:
        found = tool(name="find_here")(here)
    except UsageError:
        return  # refused in our words: good enough
    assert found.input_schema["required"] == ["title"]
    assert await found.call({"title": "Growth"}) == "Growth in Oslo"


class Callable_:
    """An object that is called like an async function."""

    async def __call__(self, n: int) -> int:
        """Triple."""
        return 3 * n


def _sync(n: int) -> int:
    return n


async def _generator(n: int) -> Any:
    yield n


@pytest.mark.parametrize("function", [_sync, _generator, Callable_()])
def test_functions_of_other_kinds(function: Any) -> None:
    """A plain function, a generator and an object that can be called are tools as well."""
    assert Tool(function).input_schema["required"] == ["n"]


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (Callable_, "a class is no function"),
        (len, "'obj' cannot be given by name"),
        (lambda: None, "not '<lambda>'"),
        (None, "None cannot be called"),
        ("f", "'f' cannot be called"),
    ],
)
def test_what_cannot_be_a_tool(function: Any, fault: str) -> None:
    """Refused when it is defined, with the reason."""
    with pytest.raises(UsageError, match=fault):
        Tool(function)


def test_all_faults_at_once() -> None:
    """Whoever writes a tool mends it in one go."""

    async def f(a, /, b, *args, c: int, **kwargs): ...  # type: ignore[no-untyped-def]

    with pytest.raises(UsageError) as caught:
        tool(f)
    text = str(caught.value)
    assert text.startswith("f cannot be a tool: ")
    for name in ("'a'", "'b'", "'args'", "'kwargs'"):
        assert name in text
    assert "'c'" not in text


def test_an_annotation_that_cannot_be_resolved() -> None:
    """A name that is not there is said as a fault of the tool, with the name."""

    async def f(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(UsageError, match="Missing"):
        tool(f)


def test_an_annotation_without_a_schema() -> None:
    """A type that JSON cannot carry is a fault of the definition, not of the first call."""

    class Socket: ...

    async def f(a: Socket) -> None: ...

    f.__annotations__["a"] = Socket
    with pytest.raises(UsageError, match="f cannot be a tool"):
        tool(f)


def test_tools_are_the_same_each_time() -> None:
    """A definition is stable: the same tool gives the same text, so that it can be cached."""
    assert json.dumps(get_weather.to_dict()) == json.dumps(get_weather.to_dict())
