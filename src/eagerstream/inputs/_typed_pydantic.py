"""The nodes of types that pydantic validates: its models and dataclasses, plain dataclasses and TypedDicts.

They come from the core schema that pydantic makes for a type. A container is validated as a *shell*: a copy of its
schema that accepts anything as its parts, which are validated already. So each validator runs once, and parts keep
their identity. It needs parts that nobody has changed: if a `before` or `wrap` validator, or one that reads other
fields (`info.data`), stands between a container and its parts, the container is validated as one, when it is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

from eagerstream_wire import JSON, copy_json
from eagerstream_wire._values import encodable

from ._typed_dicts import readable
from ._typed_nodes import Node, View, view_of_dataclass
from ._validation import as_json, explained, validated

Schema = Mapping[str, Any]

_RECORDS: Final = ("model", "dataclass", "typed-dict")
_FUNCTIONS: Final = ("function-before", "function-wrap", "function-after")
_WRAPPERS: Final = ("nullable", "default", *_FUNCTIONS)


class PydanticType:
    """A type with everything that its nodes share.

    Raises:
        Exception: pydantic has no schema for it; of many classes.
    """

    def __init__(self, model: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(readable(model))
        schema: Schema = self._adapter.core_schema
        self.definitions: dict[str, Schema] = {}
        if schema["type"] == "definitions":
            self.definitions = {definition["ref"]: definition for definition in schema["definitions"]}
            schema = schema["schema"]
        self._nodes: dict[int, Node] = {}  # by the id of the schema, because a type may contain itself
        self.root: Node = self.node(schema, None)

    def node(self, schema: Schema, config: Any) -> Node:
        """Return the node of a schema inside a record with this configuration."""
        if schema["type"] == "definition-ref":
            schema = self.definitions[schema["schema_ref"]]
        if id(schema) not in self._nodes:
            self._nodes[id(schema)] = PydanticNode(self, schema, config)
        return self._nodes[id(schema)]

    def validator(self, schema: Schema, config: Any) -> SchemaValidator:
        """Return the validator of a schema."""
        complete: Any = schema
        if self.definitions:
            definitions: Any = [definition for ref, definition in self.definitions.items() if ref != schema.get("ref")]
            complete = core_schema.definitions_schema(complete, definitions)
        return SchemaValidator(complete, config)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return self._adapter.json_schema()


class PydanticNode(Node):
    """A type that pydantic validates.

    Args:
        owner: The type that it is part of.
        schema: Its core schema.
        config: The configuration of the record around it.
    """

    def __init__(self, owner: PydanticType, schema: Schema, config: Any) -> None:
        super().__init__()
        self._owner = owner
        self._schema = schema
        self._outer_config = config
        self._config = config
        self._item: Schema = core_schema.any_schema()
        self.splits = True
        inner = self._unwrapped(schema)
        match inner["type"]:
            case "list":
                self.container = list
                self._item = inner.get("items_schema", self._item)
                self.splits &= not _reads_data(self._item)
            case "dict" if inner.get("keys_schema", self._item) in ({"type": "str"}, {"type": "any"}):
                self.container = dict
                self._item = inner.get("values_schema", self._item)
                self.splits &= not _reads_data(self._item)
            case "model" | "dataclass" | "typed-dict" if not inner.get("root_model"):
                self._read_record(inner)
            case _:
                self.splits = False

    def _unwrapped(self, schema: Schema) -> Schema:
        """Return the schema inside wrappers, and note whether they let its parts be validated one by one."""
        while schema["type"] in _WRAPPERS or schema["type"] == "definition-ref":
            if schema["type"] == "definition-ref":
                schema = self._owner.definitions[schema["schema_ref"]]
                continue
            if schema["type"] in _FUNCTIONS:
                is_after = schema["type"] == "function-after"
                self.splits &= is_after and schema["function"]["type"] == "no-info"
            schema = schema["schema"]
        return schema

    def _read_record(self, record: Schema) -> None:
        self.is_record = True
        self.container = dict
        self._kind = record["type"]
        self._class: Any = record.get("cls")
        self._config = config = record.get("config") or (None if self._class else self._outer_config)
        self.splits &= not record.get("custom_init")
        fields = record if self._kind == "typed-dict" else self._unwrapped(record["schema"])
        if "fields" not in fields:
            self.splits = False  # a function in place of the fields
            return
        extra = fields.get("extra_behavior") or (config or {}).get("extra_fields_behavior")
        self.keeps_unknown = extra == "allow" and self._kind != "dataclass"
        self.splits &= fields.get("extras_schema") is None and not (extra == "allow" and self._kind == "dataclass")
        self.splits &= not (config or {}).get("validate_default")
        named = fields["fields"]
        for name, field in named.items() if isinstance(named, dict) else ((field["name"], field) for field in named):
            schema = field["schema"]
            self.splits &= not _reads_data(schema) and not schema.get("validate_default")
            keys = list(_keys_of(field, name, config or {}))
            self.splits &= bool(keys)
            inner = schema["schema"] if schema["type"] == "default" else schema  # defaults are for the record
            self._children.update(dict.fromkeys(keys, (name, inner)))

    def node_of(self, inner: Any) -> Node:
        """Return the node of a core schema."""
        return self._owner.node(inner, self._config)

    def blank(self) -> View:
        """Return an empty value."""
        if not self.is_record or self._kind == "typed-dict":
            return super().blank()
        if self._kind == "dataclass":
            return view_of_dataclass(self._class)
        # As `model_construct` does it, without its defaults.
        value = self._class.__new__(self._class)
        names = dict.fromkeys(name for name, _ in self._children.values())
        arrived: set[str] = set()
        extra: dict[str, Any] | None = {} if self.keeps_unknown else None
        for attribute, content in (
            ("__dict__", names),
            ("__pydantic_fields_set__", arrived),
            ("__pydantic_extra__", extra),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(value, attribute, content)

        def put(name: str, content: Any) -> None:
            arrived.add(name)
            if extra is None or name in names:
                names[name] = content
            else:
                extra[name] = content

        return View(value, put)

    @cached_property
    def _validator(self) -> SchemaValidator:
        return self._owner.validator(self._schema, self._outer_config)

    @cached_property
    def _shell(self) -> SchemaValidator | None:
        shell = self._shell_of(self._schema)
        if shell in ({"type": "list", "items_schema": {"type": "any"}}, {"type": "list"}):
            return None  # nothing to do: the list of the view itself is the value
        return self._owner.validator(shell, self._outer_config)

    def validate(self, value: JSON) -> Any:
        """Validate a complete value."""
        return validated(self._validator, value)

    @cached_property
    def _list_validator(self) -> SchemaValidator | None:
        if _has_code(self._schema):
            return None
        items: Any = self._schema
        return self._owner.validator(core_schema.list_schema(items), self._outer_config)

    def validate_all(self, values: list[JSON]) -> list[Any] | None:
        """Validate many values at once."""
        if self._list_validator is None:
            return None
        try:
            done: list[Any] = self._list_validator.validate_json(as_json(values), strict=True)
        except ValidationError:
            return None
        return done

    def assemble(self, parts: Any) -> Any:
        """Make the complete value."""
        if self._shell is None:
            return parts
        if self.is_record:
            # Unknown keys are kept, ignored or refused by the shell.
            kept = {key: part for key, part in parts.items() if key in self._children}
            unknown = {key: part for key, part in parts.items() if key not in self._children}
            copied: Any = copy_json(encodable(unknown)) if self.keeps_unknown else dict.fromkeys(unknown)
            parts = kept | copied
        elif self.container is dict:
            parts = {encodable(key): part for key, part in parts.items()}
        # Not strict: in Python's form, a strict model accepts only instances. The parts are validated strictly.
        return self._shell.validate_python(parts, strict=False)

    def explain(self, error: Exception, value: Any, place: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        """Return the text and the place of an error."""
        if isinstance(error, ValidationError):
            fault = explained(error, value, place)
            return str(fault), fault.path
        return f"Error: a validator failed: {type(error).__name__}", place

    def _shell_of(self, schema: Schema) -> dict[str, Any]:
        """Return a copy of a schema that accepts anything as its parts."""
        if schema["type"] == "definition-ref":
            return self._shell_of(self._owner.definitions[schema["schema_ref"]])
        shell = {key: part for key, part in schema.items() if key not in ("ref", "metadata", "serialization")}
        part = core_schema.any_schema()
        match schema["type"]:
            case "list":
                shell["items_schema"] = part
            case "dict":
                shell["values_schema"] = part
            case "typed-dict" | "model-fields":
                shell["fields"] = {name: _shell_of_field(field) for name, field in schema["fields"].items()}
            case "dataclass-args":
                shell["fields"] = [_shell_of_field(field) for field in schema["fields"]]
            case _:
                shell["schema"] = self._shell_of(schema["schema"])
        return shell


def _shell_of_field(field: Schema) -> dict[str, Any]:
    schema: Any = core_schema.any_schema()
    if field["schema"]["type"] == "default":
        schema = {**field["schema"], "schema": schema}
    return {**field, "schema": schema}


def _reads_data(schema: Any) -> bool:
    """Return True if a function in a schema may read the fields of the record around it."""
    if isinstance(schema, Mapping):
        if schema.get("type") in (*_RECORDS, "definition-ref"):
            return False
        function = schema.get("function")
        if isinstance(function, Mapping) and function.get("type") == "with-info":
            return True
        return any(_reads_data(part) for key, part in schema.items() if key not in ("metadata", "serialization"))
    return isinstance(schema, list | tuple) and any(map(_reads_data, schema))


def _has_code(schema: Any) -> bool:
    """Return True if a schema has code of the user, or a record, which may have some."""
    if isinstance(schema, Mapping):
        if "function" in schema or schema.get("type") in (*_RECORDS, "definition-ref"):
            return True
        return any(_has_code(part) for key, part in schema.items() if key not in ("metadata", "serialization"))
    return isinstance(schema, list | tuple) and any(map(_has_code, schema))


def _keys_of(field: Schema, name: str, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON keys of a field; none if it may be inside another value."""
    alias = field.get("validation_alias")
    paths = [] if alias is None or isinstance(alias, str) else alias if isinstance(alias[0], list) else [alias]
    if any(len(path) > 1 for path in paths):
        return
    if alias is None or config.get("validate_by_name") or config.get("populate_by_name"):
        yield name
    if config.get("validate_by_alias") is False:
        return
    if isinstance(alias, str):
        yield alias
    for (key,) in paths:
        yield key
