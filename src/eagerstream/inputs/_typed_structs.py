"""The nodes of types that msgspec validates: its structs, and lists and dicts of them.

A dataclass or a TypedDict inside a struct is not looked into: until it is finished, it shows as a plain dict.
"""

from __future__ import annotations

import re
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from eagerstream_wire import JSON
from eagerstream_wire._values import encodable

from ._typed_nodes import Node, View
from ._validation import as_json

_PLACE: Final = re.compile(r" - at `\$(.*)`$")
_STEP: Final = re.compile(r"\[(\d+)\]|\.(\w+)")


class StructNode(Node):
    """A type that msgspec validates.

    Args:
        hint: The type as it is annotated.

    Raises:
        Exception: msgspec cannot validate it; of several classes.
    """

    def __init__(self, hint: Any) -> None:
        super().__init__()
        self._decoder = msgspec.json.Decoder(hint, strict=True)
        self._hint = hint
        unwrapped, constraints = _unwrapped(hint)
        self._class: Any = unwrapped
        origin, arguments = get_origin(self._class), get_args(self._class)
        shell: Any = self._class
        if origin is list and arguments:
            self.container, self._item, shell = list, arguments[0], list[Any]
        elif origin is dict and arguments and arguments[0] is str:
            self.container, self._item, shell = dict, arguments[1], dict[str, Any]
        elif isinstance(unwrapped, type) and issubclass(unwrapped, msgspec.Struct):
            config: Any = self._class.__struct_config__
            if not config.array_like:
                self.is_record, self.container = True, dict
                for field in msgspec.structs.fields(self._class):
                    self._children[field.encode_name] = (field.name, field.type)
        # A tag is a key of its own, which is no field.
        self.splits = self.container is not None and not (self.is_record and self._class.__struct_config__.tag)
        self._shell: Any = Annotated[(shell, *constraints)] if constraints else shell

    def node_of(self, inner: Any) -> Node:
        """Return the node of an annotated type."""
        return StructNode(inner)

    def blank(self) -> View:
        """Return an empty value."""
        if not self.is_record:
            return super().blank()
        names = dict.fromkeys((name for name, _ in self._children.values()), None)
        value = self._blank_class(**names)  # msgspec validates nothing here
        return View(value, partial(msgspec.structs.force_setattr, value))  # also if it is frozen

    @cached_property
    def _blank_class(self) -> Any:
        """The class, or a subclass of its name without its `__post_init__`, which must not see an empty value."""
        kind: Any = self._class
        if not hasattr(kind, "__post_init__"):
            return kind
        own = {"__post_init__": lambda _: None, "__module__": kind.__module__}
        return msgspec.defstruct(kind.__name__, [], bases=(kind,), namespace=own, frozen=kind.__struct_config__.frozen)

    def validate(self, value: JSON) -> Any:
        """Validate a complete value."""
        return self._decoder.decode(as_json(value))

    def assemble(self, parts: Any) -> Any:
        """Make the complete value."""
        if self.container is dict:
            parts = {encodable(key): part for key, part in parts.items()}
        value = msgspec.convert(parts, self._shell)  # takes instances as they are
        for key, (name, _) in self._children.items():
            if key in parts:
                msgspec.structs.force_setattr(value, name, parts[key])  # also lists and dicts keep their identity
        return value

    def explain(self, error: Exception, value: Any, place: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        """Return the text and the place of an error."""
        del value  # msgspec names the place itself
        text = str(error)
        if not isinstance(error, msgspec.ValidationError):
            return f"Error: a validator failed: {type(error).__name__}", place
        if found := _PLACE.search(text):
            steps: list[str | int] = [name or int(index) for index, name in _STEP.findall(found[1])]
            place, text = (*place, *steps), text[: found.start()]
        return text, place


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the type inside `Annotated` and `| None`, and its constraints."""
    constraints: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            constraints += hint.__metadata__
            hint = hint.__origin__
        elif get_origin(hint) in (Union, UnionType) and len(get_args(hint)) == 2 and NoneType in get_args(hint):
            (hint,) = (part for part in get_args(hint) if part is not NoneType)
        else:
            return hint, constraints
