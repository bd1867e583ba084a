"""`@tool`: what the model reads of a function."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from eagerstream.errors import UsageError
from eagerstream.tools import InProcessExecutor, RunningCall, Tool, as_tool, tool
from tests.tables import rows
from tests.tools.calls import a_call

pytestmark = pytest.mark.anyio


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


@rows("eager", [True, False, None])
def test_a_copy_with_another_eager(eager: bool | None) -> None:
    """The tool itself stays as it is; the copy is the same tool in everything else."""
    before = get_weather.to_dict()
    for made in (get_weather, Tool(lambda given: given, definition=before)):
        changed = made.with_options(eager=eager)
        assert changed.eager is eager
        assert changed.to_dict().get("eager_input_streaming") is eager
        assert ("eager_input_streaming" in changed.to_dict()) is (eager is not None)
        assert changed.with_options(eager=True).to_dict() == made.to_dict() == before
        assert type(changed) is type(made)
        assert changed.is_streaming is made.is_streaming
    assert tool(get_weather.__wrapped__, eager=eager).to_dict() == get_weather.with_options(eager=eager).to_dict()


def test_without_parameters() -> None:
    """A schema is an object even where there is nothing in it."""

    @tool
    async def now() -> str:
        """The time."""
        return "noon"

    assert now.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_a_tool_still_is_its_function() -> None:
    """It can be called, and looked at, as before."""
    assert await get_weather("Oslo", unit="kelvin") == "15 degrees kelvin in Oslo"
    assert get_weather.__name__ == "get_weather"
    assert get_weather.__doc__ is not None
    assert list(inspect.signature(get_weather).parameters) == ["city", "unit"]
    assert repr(get_weather) == "<tool get_weather>"
    assert isinstance(get_weather, Tool)


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


def test_a_missing_description_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The model reads it to decide when to call the tool."""

    async def undescribed() -> None: ...

    with caplog.at_level(logging.WARNING):
        tool(undescribed)
    assert [record.getMessage() for record in caplog.records] == [
        "the tool undescribed has no description: the model will not know when to call it"
    ]


@rows("name", ["a b", "größe", "a" * 65, "a.b", "a\n", ""])
def test_names_that_the_api_refuses(name: str) -> None:
    """Said at definition time, not with the first request."""

    async def f() -> None: ...

    with pytest.raises(UsageError, match="name"):
        tool(name=name)(f)
    tool(name="a" * 64)(f)


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


@rows("style", _DOCSTRINGS)
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


class Callable_:
    """An object that is called like an async function."""

    async def __call__(self, n: int) -> int:
        """Triple."""
        return 3 * n


def _sync(n: int) -> int:
    return n


async def _generator(n: int) -> Any:
    yield n


@rows("function", [_sync, _generator, Callable_()])
def test_functions_of_other_kinds(function: Any) -> None:
    """A plain function, a generator and an object that can be called are tools as well."""
    assert Tool(function).input_schema["required"] == ["n"]


@rows(
    "function, fault",
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


# --- definitions that are given ---------------------------------------------------------------------------------------

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

_GIVEN: dict[str, Any] = {"name": "given", "description": "Given.", "input_schema": _SCHEMA}


async def echo(input: dict[str, Any]) -> dict[str, Any]:
    """Not this description."""
    return input


@pytest.mark.parametrize(
    ("extra", "options", "eager"),
    [
        ({}, {}, True),
        ({}, {"eager": False}, False),
        ({}, {"eager": None}, None),
        ({"eager_input_streaming": False}, {}, False),
        ({"eager_input_streaming": False}, {"eager": True}, True),
        ({"eager_input_streaming": True}, {"eager": None}, None),
        ({"type": "custom", "strict": True}, {}, True),
        ({"something_new": [1]}, {}, True),
    ],
    ids=repr,
)
async def test_a_given_definition(extra: dict[str, Any], options: Any, eager: bool | None) -> None:
    """Verbatim, but for eager streaming; the function takes the input as one dict, checked against the schema."""
    given = _GIVEN | extra
    made = tool(echo, definition=given, **options)
    expected = {name: value for name, value in given.items() if name != "eager_input_streaming"}
    if eager is not None:
        expected["eager_input_streaming"] = eager
    assert made.to_dict() == expected
    assert given == _GIVEN | extra, "what was given is not changed"
    assert (made.name, made.description, made.eager, made.toolset) == ("given", "Given.", eager, None)
    assert await made.call({"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 100},
        {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
        {"type": "computer_toolset_20260801"},
    ],
    ids=lambda definition: definition["type"],
)
async def test_tools_whose_schema_the_api_knows(definition: dict[str, Any]) -> None:
    """They never carry eager streaming; asking for it is a mistake. Their inputs go to the function as they are."""
    made = tool(echo, definition=definition)
    assert made.to_dict() == definition
    assert made.eager is None
    with pytest.raises(UsageError, match=f"only user-defined tools take .*, not {definition['type']}"):
        made.with_options(eager=True)
    assert made.name == definition.get("name", "computer")
    assert made.toolset == ("computer" if "toolset" in definition["type"] else None)
    assert await made.call({"anything": [1]}) == {"anything": [1]}
    for eager in (True, False):
        with pytest.raises(UsageError, match="only user-defined tools take eager_input_streaming"):
            tool(echo, definition=definition, eager=eager)
    with pytest.raises(UsageError, match="only user-defined tools"):
        tool(echo, definition=definition | {"eager_input_streaming": True})


def test_faults_of_a_given_definition() -> None:
    """All of them together, those of the options included."""
    with pytest.raises(UsageError) as caught:
        tool(echo, definition={"name": "a b", "cache_control": 1}, description="x", strict=True)
    text = str(caught.value)
    assert text.startswith("a b cannot be a tool: ")
    for part in (
        "description belongs in the definition",
        "strict belongs in the definition",
        "needs an input_schema",
        "name must match",
        "cache_control: Input should be a valid dictionary",
    ):
        assert part in text
    with pytest.raises(UsageError, match="not a JSON schema"):
        tool(echo, definition=_GIVEN | {"input_schema": {"type": "strin"}})


@rows("function", [lambda: 1, lambda a, b: (a, b), lambda *, a: a])
def test_a_function_that_cannot_take_the_input(function: Callable[..., Any]) -> None:
    """With a definition of its own a function takes one dict: another signature is a fault of the tool."""
    with pytest.raises(UsageError):
        tool(function, definition=_GIVEN)


# --- functions of other kinds -----------------------------------------------------------------------------------------


async def answer_of(used: Tool, raw: str) -> Any:
    """What the model reads."""
    call = a_call(used.name, raw)
    await InProcessExecutor([used]).execute(call)
    assert call.result is not None
    return call.result.get("content")


class Counter:
    """A class whose methods are tools."""

    def __init__(self, start: int) -> None:
        self.count = start

    @tool(name="count", timeout_s=5)
    async def add(self, n: int, call: RunningCall) -> str:
        """Add to the count.

        Args:
            n: How much.
        """
        self.count += n
        return f"{call.name} {self.count}"

    @tool
    def peek(self) -> int:
        """Look at the count."""
        return self.count

    @staticmethod
    @tool
    def twice(n: int) -> int:
        """Double."""
        return 2 * n

    @tool(definition=_GIVEN)
    async def raw(self, input: dict[str, Any]) -> int:
        """Take it."""
        return self.count + int(input["a"])


class LoudCounter(Counter):
    """Another description, the same place."""

    @tool
    def peek(self) -> int:
        """Look, loudly."""
        return 100 * self.count


async def test_methods_with_state() -> None:
    """Each object has tools of its own, which know its state; the class has none that could run."""
    one, two = Counter(1), Counter(100)
    assert one.add.to_dict()["input_schema"]["properties"] == {"n": {"type": "integer", "description": "How much."}}
    assert await answer_of(one.add, '{"n": 2}') == "count 3"
    assert await answer_of(one.add, '{"n": 2}') == "count 5"
    assert await answer_of(two.peek, "{}") == "100"
    assert await answer_of(two.raw, '{"a": 1}') == "101"
    assert await answer_of(one.twice, '{"n": 4}') == "8"
    assert await answer_of(Counter.twice, '{"n": 4}') == "8"
    assert await answer_of(LoudCounter(7).peek, "{}") == "700"
    assert await answer_of(LoudCounter(7).add, '{"n": 1}') == "count 8"
    assert one.peek() == 5
    assert (one.add.timeout_s, one.add.is_unbound, Counter.add.is_unbound) == (5, False, True)
    with pytest.raises(UsageError, match="count is a method"):
        as_tool(Counter.add)


class Caller:
    """An object that can be called, with a docstring on its class only."""

    async def __call__(self, n: int, call: RunningCall) -> str:
        return f"{call.name} {n}"


async def test_callable_objects() -> None:
    """Named and described by their class, with or without a definition; the call is injected as in functions."""
    made = tool(Caller())
    assert (made.name, made.description) == ("Caller", Caller.__doc__)
    assert await answer_of(made, '{"n": 3}') == "Caller 3"

    class Raw:
        async def __call__(self, input: dict[str, Any], call: RunningCall) -> str:
            return f"{call.name} {input}"

    assert await answer_of(tool(Raw(), definition=_GIVEN), '{"a": 3}') == "given {'a': 3}"


async def _find(library: str, title: str, call: RunningCall) -> str:
    """Find a book.

    Args:
        title: Of the book.
    """
    return f"{title} in {library} by {call.name}"


async def test_partials_of_functions_with_a_call() -> None:
    """What is filled in is not asked of the model, nor is the call."""
    made = tool(functools.partial(_find, "Oslo"))
    assert (made.name, made.description) == ("_find", "Find a book.")
    assert made.to_dict()["input_schema"]["properties"] == {"title": {"type": "string", "description": "Of the book."}}
    assert await answer_of(made, '{"title": "Growth"}') == "Growth in Oslo by _find"


async def _take(prefix: str, input: dict[str, Any], call: RunningCall) -> str:
    return f"{prefix} {call.name} {input}"


async def test_a_partial_with_a_definition_and_a_call() -> None:
    """The call is injected here as well."""
    made = tool(functools.partial(_take, "got"), definition=_GIVEN)
    assert await answer_of(made, '{"a": 3}') == "got given {'a': 3}"


async def test_a_partial_of_a_callable_object() -> None:
    """A partial of anything that is a tool itself is one."""

    class Times:
        async def __call__(self, a: int, b: int) -> int:
            return a * b

    assert await answer_of(tool(functools.partial(Times(), 2), name="times"), '{"b": 3}') == "6"


def test_an_optional_call() -> None:
    """`Tool.call` runs a tool without a call: `RunningCall | None` is its honest type, and no parameter of the model's."""

    async def f(n: int, call: RunningCall | None = None) -> None:
        """F."""

    async def g(n: int, call: Annotated[RunningCall, "whatever"]) -> None:
        """G."""

    assert set(tool(f).to_dict()["input_schema"]["properties"]) == {"n"}
    assert set(tool(g).to_dict()["input_schema"]["properties"]) == {"n"}


async def test_an_injected_call_is_not_the_model_s() -> None:
    """The parameter is not in the schema, and the model cannot fill it in."""

    @tool
    async def f(n: int, own: RunningCall) -> str:
        """F."""
        return own.id

    assert f.to_dict()["input_schema"]["required"] == ["n"]
    assert await answer_of(f, '{"n": 1}') == "toolu_0"
    assert await answer_of(f, '{"n": 1, "own": 2}') == "Error: Unknown parameter 'own'"
    seen = []

    @tool
    async def g(own: RunningCall) -> None:
        """G."""
        seen.append(own)

    await g.call({})
    assert seen == [None]


def test_a_field_as_default() -> None:
    """As FastAPI and MCP servers write it: its description and bounds count, or it is refused; it is never passed on."""
    from pydantic import Field

    async def f(n: int = Field(ge=3, description="At least 3.")) -> None:
        """F."""

    try:
        properties = tool(f).to_dict()["input_schema"]["properties"]
    except UsageError:
        return
    assert properties == {"n": {"type": "integer", "minimum": 3, "description": "At least 3."}}


# --- mistakes that are easily made ------------------------------------------------------------------------------------


def _plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return inner


def _well(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(_plainly(function))


def test_a_decorator_without_wraps() -> None:
    """The parameters are hidden, which looks like a mistake of the tool's own."""

    def look(city: str) -> str:
        """Look."""
        return city

    with pytest.raises(UsageError, match=r"a decorator around it needs functools\.wraps"):
        tool(_plainly(look))
    assert tool(_well(look)).input_schema["properties"].keys() == {"city"}


def test_a_method_of_a_class() -> None:
    """In either order, with what to write instead."""
    with pytest.raises(UsageError, match=r"a classmethod can be called only .*: write tool\(Class\.method\)"):

        class _Outside:
            @tool
            @classmethod
            def look(cls, city: str) -> str:
                """Look."""
                return city

    with pytest.raises(UsageError, match=r"for a classmethod, write tool\(Class\.method\)"):

        class _Inside:
            @classmethod
            @tool
            def look(cls, city: str) -> str:
                """Look."""
                return city

    class Right:
        @classmethod
        def look(cls, city: str) -> str:
            """Look."""
            return f"{cls.__name__}: {city}"

    assert tool(Right.look)("Oslo") == "Right: Oslo"


def test_a_description_of_nothing() -> None:
    """A parameter that was renamed: its description would be lost."""

    def look(city: str, call: RunningCall) -> str:
        """Look.

        Args:
            town: The town.
            call: Is not shown to the model.
        """
        return city

    with pytest.raises(UsageError, match="the docstring describes 'town', which is no parameter"):
        tool(look)


def test_deep_copies() -> None:
    """Of settings that hold tools: a tool stays itself, as a function does; that of an object goes with the object."""

    @tool
    def look(city: str) -> str:
        """Look."""
        return city

    class Cart:
        def __init__(self) -> None:
            self.items: list[str] = []

        @tool
        def add(self, item: str) -> int:
            """Add."""
            self.items.append(item)
            return len(self.items)

    cart = Cart()
    copied: dict[str, Any] = copy.deepcopy({"tools": [look, cart.add], "cart": cart})
    assert copied["tools"][0] is look
    assert copied["tools"][1]("pear") == 1
    assert copied["cart"].items == ["pear"]
    assert cart.items == []
