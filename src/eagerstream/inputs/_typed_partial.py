"""`TypedPartial`: the value of a parser as an instance of a model, while it is written.

It follows the parser along the open path only. A value off this path is finished: it was validated once, and is not
visited again. So a look costs O(new text) and the depth of the open value, in a document of any size.

A part is a field of the root, an item of a list or a dict, or a field of a record that holds lists of records. It is
validated when it is finished, as one. While it is open, it is a view: an instance that was made without validation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Final, Generic, Protocol, TypeAlias, cast

from typing_extensions import TypeVar

from eagerstream_wire import JSON, PartialJSON, Path

from ..errors import UsageError
from ._faults import InputError, joined
from ._typed_nodes import Node

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_NO_KEY: Final = object()
_MAX_DEPTH: Final = 64
"""Levels of containers that are looked into. Deeper ones show as they are. Views are made recursively."""


class _Partial:
    """The mark in a `Partial`."""

    def __repr__(self) -> str:
        return "partial"


Partial: TypeAlias = Annotated[T, _Partial()]
"""`Partial[Model]`: a `Model` that is still being written, so any field may be None.

It tells readers of a signature that a value is partial. Type checkers treat it as a `Model`: no type of Python makes
the fields of a class optional. They find a field that does not exist, but not a field that is still None.
"""


class Adapter(Protocol[T_co]):
    """The strict validation of complete values of a type."""

    def validate(self, value: JSON) -> T_co:
        """Return a complete JSON value as a `T`. It is validated strictly: JSON types are not converted.

        Raises:
            InputError: The value does not fit. The message lists the faults with their places.
        """
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the type."""
        ...


class _Type:
    """A supported type, with its nodes."""

    def __init__(self, root: Node, schema: Callable[[], dict[str, Any]]) -> None:
        self.root = root
        self.schema = schema

    def validate(self, value: JSON) -> Any:
        try:
            return self.root.validate(value)
        except Exception as error:
            raise _explained(self.root, error, value, ()) from error


def adapter_of(model: type[T]) -> Adapter[T]:
    """Return the strict validation of complete values of a model, and its JSON schema.

    Args:
        model: A pydantic model, a dataclass, a TypedDict, a `msgspec.Struct`, or a list or a dict of one.

    Raises:
        UsageError: It is none of these, or it has no schema.
    """
    return _type_of(model)


def _type_of(model: Any) -> _Type:
    try:
        return _made(model)
    except TypeError as error:
        raise _unusable(model, error) from error


def _unusable(model: object, why: object) -> UsageError:
    what = "use a pydantic model, a dataclass, a TypedDict, a msgspec.Struct, or a list or a dict of one"
    return UsageError(f"{model!r:.200} is no type for partial values: {what} ({why!s:.500})")


@lru_cache(maxsize=256)
def _made(model: Any) -> _Type:
    try:
        # Imported here: a program that streams without tools or models loads neither of the two.
        if _is_of_structs(model):
            import msgspec

            from ._typed_structs import StructNode

            made = _Type(StructNode(model), lambda: msgspec.json.schema(model))
        else:
            from ._typed_pydantic import PydanticType

            of_pydantic = PydanticType(model)
            made = _Type(of_pydantic.root, of_pydantic.json_schema)
        made.root.blank()
    except Exception as error:  # of many classes: any code of the user's may run here
        raise _unusable(model, getattr(error, "message", error)) from error
    if made.root.container is None:
        raise _unusable(model, "it has no fields and no items")
    return made


def _is_of_structs(model: Any) -> bool:
    """Return True for a struct of msgspec, or a list or a dict of one, without importing msgspec."""
    return hasattr(model, "__struct_config__") or any(map(_is_of_structs, getattr(model, "__args__", ())))


def _explained(node: Node, error: Exception, value: Any, place: Path) -> InputError:
    text, path = node.explain(error, value, place)
    if not text.startswith("Error: "):
        text = f"Error: Invalid {joined(path) or 'input'!r}: {text}"
    return InputError(text, path=path)


class _Open:
    """A container that is being written, or read from its beginning.

    Attributes:
        node: Its type.
        raw: The parser's container.
        value: The view of it.
        put: Sets a part of the view.
        above: The container around it; None for the root.
        key: Its JSON key or index there.
        depth: Number of containers around it.
        splits: True if its parts are validated one by one. Otherwise it is validated as one, at its end.
        seen: Number of parts of `raw` that have been looked at.
        open_key: The part that was open at the last look.
        child: That part, if it is a container that is looked into.
        parts: The validated values of a dict by JSON key, if it splits.
        sources: The JSON values that they were made of.
        faulty: Keys of parts that do not fit.
    """

    __slots__ = (
        *("above", "child", "depth", "faulty", "key", "node", "open_key", "parts", "put", "raw", "seen", "sources"),
        *("splits", "value"),
    )

    def __init__(self, node: Node, raw: Any, above: _Open | None, key: Any, *, splits: bool) -> None:
        self.node = node
        self.raw = raw
        self.value, self.put = node.blank()
        self.above = above
        self.key = key
        self.depth: int = 0 if above is None else above.depth + 1
        self.splits = splits
        self.seen = 0
        self.open_key: Any = _NO_KEY
        self.child: _Open | None = None
        self.parts: dict[Any, Any] = {}
        self.sources: dict[Any, Any] = {}
        self.faulty: set[Any] = set()

    def path_to(self, key: Any) -> Path:
        """Return the path of a part."""
        keys: list[Any] = [key]
        at: _Open | None = self
        while at is not None and at.above is not None:
            keys.append(at.key)
            at = at.above
        return tuple(reversed(keys))


class TypedPartial(Generic[T]):
    """The growing value of a parser as an instance of a model.

    Fields that have not arrived are None (absent from a TypedDict). A finished part is validated once, and then keeps
    its identity. An open part is a view: the fields so far, without validation, unfinished strings included. A part
    that does not fit stays a view. When the document ends without a fault, the value is the validated model, with its
    defaults.

    A view is an instance of the model, but no validator and no `__init__` of it has run. Computed fields and methods
    must expect None.

    Args:
        model: As for `adapter_of`.
        parser: The parser to follow. Other code feeds it.

    Raises:
        UsageError: The model is not supported.
    """

    def __init__(self, model: type[T], parser: PartialJSON) -> None:
        self._node = _type_of(model).root
        self._parser = parser
        self._root = _Open(self._node, None, None, None, splits=self._node.splits)
        self._value: Any = self._root.value
        self._fault: InputError | None = None
        self._is_final = False
        self._shown: tuple[Callable[[Any, Any], object], Any] | None = None

    @property
    def value(self) -> T:
        """The value so far. Reading it costs O(new text).

        Live: the same object grows in place, until the end of the document, when the validated one replaces it.
        """
        self._catch_up()
        value: T = self._value
        return value

    @property
    def fault(self) -> InputError | None:
        """The first fault of a finished part; None if there is none so far. Its `path` is the place."""
        self._catch_up()
        return self._fault

    def _catch_up(self) -> None:
        if self._is_final:
            return
        parser, root = self._parser, self._root
        raw = parser.strict_value
        path = parser.open_path
        if type(raw) is self._node.container:
            root.raw = raw
            self._advance(root, path)
        if path is not None or not parser.started or not (type(raw) in (dict, list) or parser.complete):
            return
        self._is_final = True
        is_split = root.splits and root.raw is not None
        if is_split:
            self._read_repeated(root)
        if not root.faulty:
            try:
                self._value = self._assembled(root) if is_split else self._node.validate(raw)
                self._fault = None  # a repeated key may have replaced the faulty part
            except Exception as error:
                self._fault = self._fault or _explained(self._node, error, raw, ())
        # The rest serves only to continue.
        root.parts, root.sources, root.child = {}, {}, None

    def _advance(self, at: _Open, path: Path | None) -> None:
        """Read the new parts of a container. `path` is the open path of the document, None if `at` is finished."""
        while True:
            depth, raw = at.depth, at.raw
            key = path[depth] if path is not None and depth < len(path) else _NO_KEY
            before, child = at.open_key, at.child
            if before is not _NO_KEY and before != key:
                self._end(at, before)
            count = len(raw)
            if count > at.seen:
                if type(raw) is list:
                    self._end_items(at, count if key is _NO_KEY else cast("int", key))
                else:
                    for new in _last_keys(raw, count - at.seen):
                        if new != key:
                            self._end(at, new)
                at.seen = count
            if key is _NO_KEY:
                return
            source = raw[key]
            if before != key or child is None or child.raw is not source:
                child = self._open(at, key, source)
            if child is None:
                return
            at = child

    def _end_items(self, at: _Open, stop: int) -> None:
        """Read the new items of a list that are finished: those before `stop`."""
        new = range(at.seen, stop)
        if at.splits and len(new) > 1:
            _, node = cast("tuple[int, Node]", at.node.child(at.seen))
            # A long fragment has many numbers: one call for each would take four times as long.
            if node.container is None and (values := node.validate_all(at.raw[at.seen : stop])) is not None:
                at.value += values
                return
        for key in new:
            self._end(at, key)

    def _open(self, at: _Open, key: Any, source: Any) -> _Open | None:
        """Show a part that is still open. Return it if it is looked into."""
        at.open_key = key
        at.child = None
        if at.splits:
            at.faulty.discard(key)  # a repeated key
        found = at.node.child(key)
        if found is None:
            if at.node.keeps_unknown:
                self._show(at, key, source)
            return None
        name, node = found
        if not self._looks_into(at, node, source):
            self._show(at, name, source)
            return None
        at.child = self._begun(at, key, node, source)
        at.put(name, at.child.value)
        return at.child

    def _looks_into(self, at: _Open, node: Node, source: Any) -> bool:
        """Return True if the view of a part differs from the plain value."""
        is_fit = type(source) is node.container and at.depth < _MAX_DEPTH
        return is_fit and (node.has_records or _splits(at, node))

    def _begun(self, at: _Open, key: Any, node: Node, source: Any) -> _Open:
        return _Open(node, source, at, key, splits=_splits(at, node))

    def _show(self, at: _Open, name: Any, source: Any) -> None:
        """Show a plain value. If it is a string, the parser lengthens it in the view, too."""
        at.put(name, source)
        if type(source) is str and not any(mirror is self._shown for mirror in self._parser.mirrors):
            # A second reference to the string would make the parser copy it with each fragment.
            self._shown = (at.put, name)
            self._parser.mirrors.append(self._shown)

    def _end(self, at: _Open, key: Any) -> None:
        """Read a part that is finished."""
        source = at.raw[key]
        child = None
        if at.open_key == key:
            child, at.open_key, at.child = at.child, _NO_KEY, None
            if child is not None and child.raw is not source:
                child = None  # its key was repeated
        found = at.node.child(key)
        if found is None:
            if at.node.keeps_unknown:
                at.put(key, source)
            if at.splits:
                at.parts[key] = source
            return
        name, node = found
        if not at.splits:
            at.put(name, self._viewed(at, key, node, source, child))
            return
        at.faulty.discard(key)
        try:
            if not (self._looks_into(at, node, source) and _splits(at, node)):
                value = node.validate(source)
            else:
                child = child or self._begun(at, key, node, source)
                self._advance(child, None)
                self._read_repeated(child)
                if child.faulty:
                    at.faulty.add(key)
                    value = child.value
                else:
                    value = self._assembled(child)
        except Exception as error:  # it does not fit: its view shows
            at.faulty.add(key)
            self._fault = self._fault or _explained(node, error, source, at.path_to(key))
            value = self._viewed(at, key, node, source, child)
        at.put(name, value)
        if type(at.raw) is dict:
            at.parts[key] = value
            at.sources[key] = source

    def _viewed(self, at: _Open, key: Any, node: Node, source: Any, child: _Open | None) -> Any:
        """Return the view of a finished part that is not validated by itself."""
        if not self._looks_into(at, node, source):
            return source
        child = child or self._begun(at, key, node, source)
        self._advance(child, None)
        return child.value

    def _assembled(self, at: _Open) -> Any:
        return at.node.assemble(at.parts if type(at.raw) is dict else at.value)

    def _read_repeated(self, at: _Open) -> None:
        """Read the parts again whose key was repeated, so that they are no longer those of the document."""
        for key, source in at.sources.items():
            if at.raw[key] is not source:
                self._end(at, key)


def _splits(at: _Open, node: Node) -> bool:
    """Return True if a part of a container is itself validated part by part."""
    # Items are validated as one, unless they hold items themselves: that is one call for each, not one for each field.
    return at.splits and node.splits and (at.node.is_record or node.holds_items)


def _last_keys(raw: dict[str, Any], count: int) -> list[str]:
    """Return the newest keys of a dict, oldest first; O(count)."""
    keys = list(islice(reversed(raw), count))
    keys.reverse()
    return keys
