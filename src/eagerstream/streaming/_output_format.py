"""`OutputFormat`: the type or schema that the text of a response must fit, and the request for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from eagerstream_wire import JSON, PartialJSON
from eagerstream_wire._checks import check_choice

from ..errors import UsageError
from ..inputs._raw_schema import RawSchema
from ..inputs._typed_partial import TypedPartial, adapter_of

OutputMode: TypeAlias = Literal["native", "prompted"]
"""The way in which the model is asked for JSON.

`"native"`: by the request, with `output_config.format`; the API then keeps the model to the schema. `"prompted"`: by
your own prompt, for servers and models without that feature. The JSON is then the text itself, or in a fenced block.
"""

_WITHOUT_FORMAT: Final = 'with output_mode="prompted" the schema is not sent, and your prompt asks for the JSON'


class _Partial(Protocol):
    @property
    def value(self) -> Any: ...


class OutputFormat:
    """The type or schema that the text of a response must fit.

    Args:
        output: A type that pydantic can validate (or a `msgspec.Struct`), or a JSON schema as a mapping.
        mode: See `OutputMode`.

    Raises:
        UsageError: `output` is neither, the mode is unknown, or the API would refuse the schema.
    """

    def __init__(self, output: Any, mode: OutputMode = "native") -> None:
        check_choice("output_mode", mode, get_args(OutputMode))
        self.is_native: bool = mode == "native"
        self._model = None if isinstance(output, Mapping) else output
        if isinstance(output, Mapping):
            raw = RawSchema(output, any_type=True)
            if raw.faults:
                raise UsageError("; ".join(raw.faults).replace("input_schema", "output"))
            self._check: Any = raw.check
            schema: Mapping[str, Any] = output
        else:
            adapter = adapter_of(output)
            self._check = adapter.validate
            schema = adapter.schema() if self.is_native else {}
        self._sent: dict[str, Any] | None = None
        if not self.is_native:
            return
        for place, found in _objects(schema):
            # The API only takes objects with `additionalProperties: false`. Without any property, `{}` would be the
            # only value that the model may write, although the type allows more.
            if not found.get("properties") and found.get("additionalProperties") is not False:
                where = f"{'.'.join(place)}: " if place else ""
                raise UsageError(f"output: {where}the API takes no object with names of its own; {_WITHOUT_FORMAT}")
        from anthropic import transform_schema  # importing anthropic takes seconds

        try:
            # By the API's rules, with the keywords that it does not support in the descriptions.
            self._sent = transform_schema(dict(schema))
        except Exception as error:
            raise UsageError(
                f"output: the schema has no form that the API takes ({error}); {_WITHOUT_FORMAT}"
            ) from error

    def request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request, with the schema in `output_config` if it is sent.

        Raises:
            UsageError: `output_config` of the request has another format.
        """
        if self._sent is None:
            return dict(request)
        config = request.get("output_config") or {}
        if not isinstance(config, Mapping):
            raise UsageError(f"output_config must be a mapping, not {type(config).__name__}")
        format = {"type": "json_schema", "schema": self._sent}
        # The same one is no conflict: `stream(client, output=Model, **conversation.request())` brings it along.
        if config.get("format") not in (None, format) or request.get("output_format") is not None:
            raise UsageError("output and output_config.format both give a format: leave one of them out")
        return {**request, "output_config": {**config, "format": format}}

    def check(self, value: JSON) -> Any:
        """Return the validated value of a complete text.

        Raises:
            InputError: The value does not fit.
        """
        return self._check(value)

    def partial(self, parser: PartialJSON) -> _Partial:
        """Return the growing value over a parser."""
        return parser if self._model is None else TypedPartial(self._model, parser)


def _objects(schema: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the schemas of objects in a schema, with the names that lead to them."""
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") == "object":
        yield place, schema
    for keyword in ("properties", "$defs"):
        named = schema.get(keyword)
        for name, inner in named.items() if isinstance(named, Mapping) else ():
            yield from _objects(inner, (*place, str(name)))
    for keyword in ("anyOf", "oneOf", "allOf"):
        listed = schema.get(keyword)
        for inner in listed if isinstance(listed, list) else ():
            yield from _objects(inner, place)
    yield from _objects(schema.get("items"), (*place, "items"))
