"""`Node`: one place of a model's type, as `TypedPartial` needs it. The subclasses know pydantic and msgspec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import cached_property, partial
from typing import Any, NamedTuple

from eagerstream_wire import JSON


class View(NamedTuple):
    """An empty value of a type that is filled while it is written.

    Attributes:
        value: An instance of the type itself, a dict or a list.
        put: Sets a field, a key or an index of it, without any check.
    """

    value: Any
    put: Callable[[Any, Any], object]


class Node(ABC):
    """A type inside a model: a record with fields, a list, a dict with values of one type, or anything else.

    Attributes:
        container: `dict` for a record or a dict, `list` for a list. None for a type that is not looked into.
        is_record: True if it has fields.
        splits: True if its parts may be validated one by one. False if code of the user sees them before that.
        keeps_unknown: True if a record keeps keys that are no fields.
    """

    container: type[dict[str, Any] | list[Any]] | None = None
    is_record = False
    splits = False
    keeps_unknown = False

    # For a subclass to fill: the field and the type of each JSON key of a record, or the type inside another container,
    # in the form that `node_of` takes.
    _item: Any = None

    def __init__(self) -> None:
        self._children: dict[Any, tuple[str, Any]] = {}
        self._nodes: dict[Any, Node] = {}

    @abstractmethod
    def node_of(self, inner: Any) -> Node:
        """Return the node of a type inside this one."""

    def child(self, key: Any) -> tuple[Any, Node] | None:
        """Return the field, key or index that holds the value of a JSON key, and its type; None for an unknown key."""
        if not self.is_record:
            return key, self._item_node
        if key not in self._children:
            return None
        name, inner = self._children[key]
        if key not in self._nodes:
            self._nodes[key] = self.node_of(inner)
        return name, self._nodes[key]

    @cached_property
    def _item_node(self) -> Node:
        return self.node_of(self._item)

    @abstractmethod
    def validate(self, value: JSON) -> Any:
        """Validate a complete value strictly. It raises any exception, because validators are code of the user."""

    def validate_all(self, values: list[JSON]) -> list[Any] | None:
        """Validate many values at once. None if one does not fit, or if code of the user might run twice."""
        del values
        return None

    @abstractmethod
    def assemble(self, parts: Any) -> Any:
        """Make the complete value from validated parts: a dict by JSON key, or a list. It may raise any exception."""

    @abstractmethod
    def explain(self, error: Exception, value: Any, place: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        """Return the text and the place of an error of `validate` or `assemble`."""

    def blank(self) -> View:
        """Return an empty value: fields are None, and absent from a TypedDict."""
        if self.container is list:
            items: list[Any] = []
            return View(items, partial(_put_item, items))
        entries: dict[Any, Any] = {}
        return View(entries, entries.__setitem__)

    @property
    def fields(self) -> list[Node]:
        """The types of the fields of a record, or the one type inside a list or a dict."""
        if not self.is_record:
            return [self._item_node]
        return [found[1] for key in self._children if (found := self.child(key)) is not None]

    @cached_property
    def has_records(self) -> bool:
        """True if a view of it differs from the plain value, because there is a record in it."""
        node = self
        for _ in range(32):  # lists in lists; a list may contain itself
            if node.is_record:
                return True
            if node.container is None:
                return False
            node = node.fields[0]
        return False

    @cached_property
    def holds_items(self) -> bool:
        """True if it holds a list or a dict of records, at any depth."""
        return _holds_items(self, [])


def _holds_items(node: Node, seen: list[Node]) -> bool:
    if not node.is_record:
        return node.container is not None and node.has_records
    if node in seen:
        return False
    seen.append(node)
    return any(_holds_items(field, seen) for field in node.fields)


def _put_item(items: list[Any], index: int, value: Any) -> None:
    if index < len(items):
        items[index] = value
    else:
        items.append(value)


def view_of_dataclass(kind: type[Any]) -> View:
    """Return an instance of a dataclass without calling it, with None in all fields."""
    value = object.__new__(kind)
    put = partial(object.__setattr__, value)  # also if it is frozen, or has slots
    for field in fields(kind):
        put(field.name, None)
    return View(value, put)
