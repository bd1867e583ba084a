"""Public objects of the wire core, used as nobody should: wrong arguments, attributes, copies, subclasses."""

from __future__ import annotations

import copy
import enum
import pickle
import weakref
from collections.abc import Callable, Hashable, Iterator
from types import MappingProxyType
from typing import Any, Final

import eagerstream_wire as wire
from eagerstream_wire import (
    FragmentDecoder,
    InputAccumulator,
    MessageAssembler,
    ParsingLimits,
    PartialJSON,
    SSEDecoder,
    TolerantJSON,
    ToolInput,
    WireDecoder,
)
from tests.streams import input_delta, tool_start

from .choices import Choices
from .transcripts import attempted as exactly_attempted, shown

MISUSES: Final = "any argument: "
"""Beginning of the lines about arguments that may have a wrong type."""


class _Text(str):
    __slots__ = ()


class _Number(enum.IntEnum):
    ONE = 1


class _Marked:
    """Marks subclasses in plain Python."""

    __slots__ = ()


class _Foreign:
    """Has nothing that anybody asks for."""


_FUNCTIONS: Final = (
    "check_block_count",
    "check_invalid_key",
    "copy_json",
    "decode_event",
    "encodable",
    "find",
    "is_deeper",
)
_CLASSES: Final[tuple[type[Any], ...]] = (
    PartialJSON, TolerantJSON, SSEDecoder, WireDecoder, FragmentDecoder, InputAccumulator, MessageAssembler, ToolInput,
)  # fmt: skip


def _values() -> tuple[Any, ...]:
    return (
        None, True, 0, 1, -1, 1.5, 10**30, _Number.ONE, "", "a", '{"a":[1,', "\ud800", _Text("x"), b"", b"data: x\n\n",
        bytearray(b"x"), memoryview(b"x"), [], [1], {}, {"type": "ping"}, {"a": {"b": [1]}}, (), (0, "x"), (0,), ("a", 0),
        tool_start(0), input_delta(0, "{"), MappingProxyType({"type": "ping"}), iter([(0, "x")]), _Foreign(), ParsingLimits(max_depth=3),
        PartialJSON, len, range(2), frozenset({1}), complex(1, 2),
    )  # fmt: skip


def attempted(call: Callable[[], object]) -> str:
    """What a call returns, or the type and the text of what it raises.

    Texts of `TypeError` and `AttributeError` are Python's own, and mypyc's differ.
    """
    line = exactly_attempted(call)
    return line.partition(":")[0] if line.startswith(("raises TypeError", "raises AttributeError")) else line


def misused(choices: Choices) -> Iterator[str]:
    """A function with any arguments, or an object of a public class that goes through some operations."""
    values = _values()
    if choices.below(6) == 0:
        name = choices.pick(_FUNCTIONS)
        yield f"{MISUSES}{name}: {attempted(lambda: getattr(wire, name)(*_arguments(choices, values)))}"
        return
    made = _made(choices, values)
    for _ in range(1 + choices.below(6)):
        operation = choices.pick(_OPERATIONS)
        line = attempted(lambda operation=operation: operation(choices, made, values))  # type: ignore[misc]
        mark = MISUSES if operation in (_call, _construct, _set, _copy, _derive) else ""
        yield f"{mark}{type(made).__name__}, {operation.__name__}: {line}"
        if mark and "raises TypeError" in line:
            return  # pure code may have got some way, and changed the object
        yield _state(made)


def _arguments(choices: Choices, values: tuple[Any, ...]) -> list[Any]:
    return [choices.pick(values) for _ in range(choices.pick((0, 1, 1, 1, 1, 1, 2, 2, 3)))]


def _made(choices: Choices, values: tuple[Any, ...]) -> Any:
    kind = choices.pick(_CLASSES)
    derived = choices.below(4) == 0
    if derived:
        kind = type("Derived", (kind, _Marked), {"__module__": __name__})
    if issubclass(kind, ToolInput):
        accumulator: InputAccumulator[Any] = InputAccumulator(input_type=kind)
        accumulator.feed(tool_start(0))
        accumulator.feed(input_delta(0, choices.pick(('{"a": [1, "x', '{"a": 1}', "[", "x"))))
        return accumulator.inputs[0]
    return kind()


def _state(made: Any) -> str:
    """All that its public attributes show."""
    shows = {name: attempted(lambda name=name: getattr(made, name)) for name in _names(made)}  # type: ignore[misc]
    return "; ".join(f"{name}={line}" for name, line in shows.items() if "method " not in line)


def _names(made: Any) -> list[str]:
    return sorted(name for name in dir(made) if not name.startswith("_"))


def _call(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    name = choices.pick(_names(made))
    keywords = (
        {choices.pick(("limits", "cut", "reports", "callback", "nope")): choices.pick(values)}
        if choices.below(8) == 0
        else {}
    )
    arguments = _arguments(choices, values)
    return f"{name}({shown(arguments)}) {attempted(lambda: getattr(made, name)(*arguments, **keywords))}"


def _construct(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    name = choices.pick(
        ("limits", "reports", "tracks", "max_event_bytes", "parser", "input_type", "invalid_key", "messages", "nope")
    )
    value = choices.pick([value for value in values if value is not True])  # which compiled code takes for 1
    return f"{name}={shown(value)} {attempted(lambda: type(type(made)(**{name: value})).__name__)}"


def _set(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    """No method: compiled code finds the one of the class all the same. No constant, which would be an own attribute."""

    def is_skipped(name: str) -> bool:
        of_class = getattr(type(made), name, None)
        return callable(of_class) or (isinstance(of_class, str) and not isinstance(made, _Marked))

    name = choices.pick([name for name in _names(made) if not is_skipped(name)])
    value = choices.pick([value for value in values if value is not True])
    return f"{name} = {shown(value)} {attempted(lambda: setattr(made, name, value))}"


def _delete(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    """Properties only: attributes of compiled classes cannot be deleted."""
    name = choices.pick(("reports", "tracks", "value", "partial", "nope"))
    return f"{name} {attempted(lambda: delattr(made, name))}"


def _add(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    """A subclass takes attributes. Of compiled classes, some do."""
    return attempted(lambda: setattr(made, "mine", 1)) if isinstance(made, _Marked) else ""


def _copy(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    how: Callable[[Any], Any] = choices.pick(
        (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)))
    )
    twin = how(made)
    feed = choices.pick(('1, "', b"data: x\n\n", {"type": "ping"}, (0, "1")))
    return f"{type(twin).__name__} {_state(twin)} {attempted(lambda: twin.feed(feed))} {_state(twin)}"


def _compare(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    other = choices.pick((made, *values))
    answers = (made == other, made != other, bool(made), isinstance(made, Hashable), hash(made) == hash(made))
    return f"{shown(answers)} {shown(repr(made))} {attempted(lambda: made < other)}"


def _refer(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    """A subclass takes weak references. Of compiled classes, some do, on some Pythons."""
    return str(weakref.ref(made)() is made) if isinstance(made, _Marked) else ""


def _begin_again(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    return attempted(made.__init__)


def _derive(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    """An override is called, also by the class itself."""
    kind = type(made)
    calls: list[str] = []

    def feed(self: Any, *arguments: Any) -> Any:
        calls.append("feed")
        return super(derived, self).feed(*arguments)

    derived: Any = type("Overriding", (kind,), {"feed": feed, "extra": 1, "__module__": __name__})
    if issubclass(kind, ToolInput):
        return shown(derived.__mro__[1:])
    object = derived()
    object.mine = 2
    answer = attempted(lambda: object.feed(choices.pick(('{"a', b"data: {}\n\n", tool_start(0)))))
    return f"{answer} {calls} {object.mine} {object.extra} {_state(object)}"


def _match(choices: Choices, made: Any, values: tuple[Any, ...]) -> str:
    match made:
        case PartialJSON(value=value, complete=complete):
            return shown([value, complete])
        case ToolInput(name=name, chars=chars):
            return shown([name, chars])
        case SSEDecoder() | WireDecoder():
            return "decoder"
        case _:
            return "other"


_OPERATIONS: Final[tuple[Callable[[Choices, Any, tuple[Any, ...]], str], ...]] = (
    *(_call,) * 8, _construct, _construct, _set, _set, _delete, _add, _copy, _compare, _refer, _begin_again, _derive, _match,
)  # fmt: skip
