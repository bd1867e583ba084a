"""`SchemaTypes`: JSON schemas to Python types for the model, such as `list[str] | None`.

A schema may come from a peer. Whatever it contains, the result is valid Python of bounded size: anything that is too
deep, too large or unknown becomes `Any`.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Any, Final
from urllib.parse import unquote

from eagerstream._support.redaction import printable

_MAX_DEPTH: Final = 12
_MAX_SCHEMAS: Final = 500
"""Maximum number of schemas to read for one function, including those inside others."""
_MAX_FIELDS: Final = 100
_MAX_MEMBERS: Final = 20
"""Maximum number of types in a union."""
_MAX_VALUES: Final = 40
_MAX_LITERAL_CHARS: Final = 600
_MAX_NAME_CHARS: Final = 60
_MAX_COMMENT_CHARS: Final = 200
_MAX_REFERENCES: Final = 20
"""Maximum number of references that lead to one another."""

_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_NAMES: Final = frozenset({"Any", "Literal", "NotRequired", "TypedDict"})
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")

Schema = Mapping[str, Any]


class SchemaTypes:
    """The types of any number of functions. Equal classes of several functions are one class.

    Attributes:
        classes: The stubs of all classes, in the order in which they are completed.
    """

    def __init__(self, reserved: Collection[str]) -> None:
        self.classes: list[str] = []
        self._taken = _NAMES.union(reserved)
        self._of_schema: dict[int, tuple[Schema, str]] = {}
        """The names of classes by the `id` of their schema. The schema is kept, so that the `id` stays its own."""
        self._of_body: dict[tuple[str, str], str] = {}
        self._root: Schema = {}
        self._left = 0

    def begin(self, root: Schema) -> None:
        """Begin with the schema of another function. References are resolved in it."""
        self._root = root
        self._left = _MAX_SCHEMAS

    def of(self, schema: object, name: str) -> str:
        """Return the type that a schema describes. `name` is the name of its class if it describes none itself."""
        return _union(self._members(schema, name, 0))

    def _members(self, schema: object, name: str, depth: int) -> list[str]:
        """Return the types of which a value has one."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._left < 0:
            return ["Any"]
        if isinstance(reference := schema.get("$ref"), str):
            found = resolved(schema, self._root)
            is_found = isinstance(found, Mapping) and "$ref" not in found
            return self._members(found, reference.rpartition("/")[2], depth + 1) if is_found else ["Any"]
        if isinstance(title := schema.get("title"), str):
            name = title
        members = self._own_members(schema, name, depth)
        return [*members, "None"] if schema.get("nullable") is True else members

    def _own_members(self, schema: Schema, name: str, depth: int) -> list[str]:
        if "const" in schema:
            return _literals([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return _literals(values)
        if "properties" not in schema and len(parts := _listed(schema.get("allOf"))) == 1:
            return self._members(parts[0], name, depth + 1)
        properties, required = fields_of(schema, self._root)
        if properties:
            members = [self._class(schema, properties, required, name, depth)]
            return [*members, "None"] if "null" in _listed(schema.get("type")) else members
        for word in ("anyOf", "oneOf", "allOf"):
            if (parts := _listed(schema.get(word))) and isinstance(parts[0], Mapping):
                # A value fits all of the last kind: the first one says enough.
                parts = parts[: 1 if word == "allOf" else _MAX_MEMBERS + 1]
                return [member for part in parts for member in self._members(part, name, depth + 1)]
        kinds = _listed(schema.get("type"))
        if not kinds:
            kinds = ["array"] if schema.keys() & {"items", "prefixItems"} else ["any"]
        members = []
        for kind in kinds[: len(_PLAIN) + 2]:
            if kind == "array":
                items = [*_listed(schema.get("prefixItems")), *_listed(schema.get("items"))][: _MAX_MEMBERS + 1]
                inner = [each for item in items or [True] for each in self._members(item, f"{name} item", depth + 1)]
                members.append(f"list[{_union(inner)}]")
            elif kind == "object":
                inner = self._members(schema.get("additionalProperties"), f"{name} value", depth + 1)
                members.append(f"dict[str, {_union(inner)}]")
            else:
                members.append(_PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any")
        return members

    def _class(
        self, schema: Schema, properties: Mapping[str, Any], required: Collection[str], hint: str, depth: int
    ) -> str:
        """Return the name of the class of an object, made if there is none."""
        if (known := self._of_schema.get(id(schema))) is not None:
            return known[1]
        if depth >= _MAX_DEPTH:
            return "dict[str, Any]"
        words = (word[0].upper() + word[1:] for word in _WORDS.findall(hint[: 4 * _MAX_NAME_CHARS]))
        base = "".join(words)[:_MAX_NAME_CHARS]
        base = base if is_name(base) else f"Object{base}"
        name = base if base not in self._taken else next(n for k in count(2) if (n := f"{base}{k}") not in self._taken)
        taken, self._taken = self._taken, self._taken | {name}
        self._of_schema[id(schema)] = (schema, name)  # before its fields, which may refer to it
        is_plain = all(map(is_name, properties))
        fields: list[str] = []
        for key, field in [*properties.items()][:_MAX_FIELDS]:
            type_ = _union(self._members(field, f"{hint} {key}", depth + 1))
            type_ = type_ if key in required else f"NotRequired[{type_}]"
            fields.append(
                f"    {key}: {type_}{_comment(field)}" if is_plain else f"    {key!r}: {type_},{_comment(field)}"
            )
        if len(properties) > _MAX_FIELDS:
            fields.append(f"    # and {len(properties) - _MAX_FIELDS} more keys")
        body = "\n".join(fields)
        unnamed = re.sub(rf"\b{name}\b", "", body)  # it may refer to itself
        if (same := self._of_body.setdefault((base, unnamed), name)) != name:
            self._taken = taken
            self._of_schema[id(schema)] = (schema, same)
            return same
        start, end = (f"class {name}(TypedDict):", "") if is_plain else (f'{name} = TypedDict("{name}", {{', "\n})")
        self.classes.append(f"{start}\n{body}{end}")
        return name


def resolved(schema: object, root: Schema) -> object:
    """Return the schema to which a schema refers by `$ref`; itself if it does not; None if it leads nowhere.

    Only references inside `root` are followed (`#/$defs/Point`).
    """
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(reference := schema.get("$ref"), str):
            return schema
        if not reference.startswith("#"):
            return None
        schema = root
        for step in reference.split("/")[1:][:_MAX_REFERENCES]:
            if not isinstance(schema, Mapping):
                return None
            schema = schema.get(unquote(step).replace("~1", "/").replace("~0", "~"))
    return None


def fields_of(schema: object, root: Schema) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the properties of an object by their keys, and the required keys. `allOf` and `$ref` are followed."""
    properties: dict[str, Any] = {}
    required: set[str] = set()
    pending = [schema]
    for _ in range(_MAX_REFERENCES):
        if not pending:
            break
        found = resolved(pending.pop(0), root)
        if not isinstance(found, Mapping):
            continue
        if isinstance(more := found.get("properties"), Mapping):
            properties |= {key: each for key, each in more.items() if isinstance(key, str) and key not in properties}
        required.update(key for key in _listed(found.get("required")) if isinstance(key, str))
        pending += [part for part in _listed(found.get("allOf")) if isinstance(part, Mapping)]
    return properties, frozenset(required)


def is_name(text: str) -> bool:
    """Return True for a text that Python takes as the name of a parameter, unchanged."""
    is_word = text.isidentifier() and not keyword.iskeyword(text) and text != "__debug__"
    return is_word and (text.isascii() or unicodedata.normalize("NFKC", text) == text)


def as_line(text: object, max_chars: int) -> str:
    """Return a text in one line, without characters that act or cannot be seen; empty if it is no text."""
    if not isinstance(text, str):
        return ""
    line = " ".join(printable(text[: 2 * max_chars]).split())
    return line if len(line) <= max_chars else f"{line[:max_chars]}..."


def _comment(schema: object) -> str:
    text = as_line(schema.get("description"), _MAX_COMMENT_CHARS) if isinstance(schema, Mapping) else ""
    return f"  # {text}" if text else ""


def _listed(value: object) -> list[Any]:
    """Return a list as it is, nothing as an empty list, and anything else as its only item."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _literals(values: Iterable[Any]) -> list[str]:
    """Return the types of constants: one `Literal`, or their types if there are too many."""
    values = [*values]
    kinds = {type(value): None for value in values}
    allowed = {str, int, bool, type(None)}
    if values and len(values) <= _MAX_VALUES and kinds.keys() <= allowed:
        text = ", ".join(repr(value) for value in values if _is_short(value))
        if all(map(_is_short, values)) and len(text) <= _MAX_LITERAL_CHARS:
            return ["None"] if text == "None" else [f"Literal[{text}]"]
    types = {str: "str", int: "int", bool: "bool", float: "float", type(None): "None", list: "list[Any]"}
    return [types.get(kind, "dict[str, Any]" if issubclass(kind, Mapping) else "Any") for kind in kinds] or ["Any"]


def _is_short(value: object) -> bool:
    """Return False for an integer that Python might refuse to write as text, and for a long text."""
    return value.bit_length() <= 256 if isinstance(value, int) else len(str(value)) <= _MAX_LITERAL_CHARS


def _union(members: Iterable[str]) -> str:
    unique = dict.fromkeys(members)
    if "Any" in unique or len(unique) > _MAX_MEMBERS or not unique:
        return "Any"
    literals = [member[len("Literal[") : -1] for member in unique if member.startswith("Literal[")]
    others = [member for member in unique if not member.startswith("Literal[") and member != "None"]
    # Each choice often has a schema of its own, with a description.
    found = [*([f"Literal[{', '.join(literals)}]"] if literals else []), *others]
    return " | ".join([*found, "None"] if "None" in unique else found)
