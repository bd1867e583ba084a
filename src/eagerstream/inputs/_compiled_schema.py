"""A JSON schema, compiled by `jsonschema-rs`, with a bounded number of steps for any schema and any input.

`jsonschema-rs` is quick, but it cannot be stopped, and it checks a value again at most of the references to a schema: a
schema of 1 KB can ask for 2^40 checks. Therefore, references are followed here. Each schema that is referred to is
compiled alone, and checks each value once.
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from .._support.inspecting import check_size, head
from ..errors import UsageError
from ._schema_references import DEFINITIONS, References, schemas_in

MAX_STEPS: Final = 200_000_000
"""Steps of a check, of about 10 ns."""

_REFERENCE: Final = "eagerstream-reference"  # the keyword in place of `$ref`
_MAX_CALLS: Final = 500_000
"""Maximum number of values that are checked by reference. They take about 2 s, and 100 MB."""
_MAX_LEVELS: Final = 200
"""Maximum number of references inside one another. Each takes a few frames of Python, and some KB of the stack."""
_STEPS: Final = {"uniqueItems": 4, "multipleOf": 30, "$ref": 40, _REFERENCE: 40}
"""The steps of keywords for a value, if they are not 1. A reference takes them also if its result is known."""
_STEPS_OF_A_PART: Final = 4  # of a value in `enum` or `const`, if it is a container
_READ_FOR_EACH: Final = frozenset({"dependencies", "dependentRequired", "dependentSchemas"})
"""The keywords of which all names are looked for in each object."""
_ODD_VALUES: Final = 60  # as many values as a number beyond 64 bits counts, or a float that is hard to divide
_ODD_PAIR_STEPS: Final = 34  # the library compares each of them with each, if they must be unique
_REFERENCES_A_STEP: Final = 10  # for each character: the library copies a text for each
_STEPS_OF_COMPILING: Final = 100
_MAX_SAID_CHARS: Final = 200


class Cost(NamedTuple):
    """The work for a JSON value, in steps."""

    per_value: int
    per_char: int

    def of(self, value: Any) -> int:
        """Return the steps for a JSON value; O(size)."""
        values = chars = odd = 0
        pending = [value]
        while pending:
            found = pending.pop()
            values += 1
            if isinstance(found, str):
                chars += len(found)
            elif isinstance(found, dict):
                chars += sum(map(len, found))
                pending += found.values()
            elif isinstance(found, list):
                pending += found
            elif isinstance(found, float):
                odd += not 1e-30 < abs(found) < 1e30 and found != 0
            elif isinstance(found, int):
                odd += found.bit_length() > 63
        return (values + odd * _ODD_VALUES) * self.per_value + chars * self.per_char + odd * odd * _ODD_PAIR_STEPS


class Engine(NamedTuple):
    """A way to match patterns."""

    options: Any
    cost: Cost
    """The most that one pattern costs."""


@lru_cache(maxsize=1)
def engines() -> tuple[Engine, ...]:
    """Return the engines of `jsonschema-rs`, the cheapest first.

    The first three are linear in the text, but a character can cost as much as the compiled pattern is large. The other
    two are for patterns that look around or refer back. They go back 1,000 times at most, and then nothing matches.
    """
    # Imported here: a program without schemas of this kind does not need it.
    from jsonschema_rs import FancyRegexOptions, RegexOptions

    return (
        Engine(RegexOptions(size_limit=10_000), Cost(1, 20)),
        Engine(RegexOptions(size_limit=100_000), Cost(1, 400)),
        Engine(RegexOptions(size_limit=1_000_000), Cost(1, 4_000)),
        Engine(FancyRegexOptions(backtrack_limit=1_000, size_limit=100_000), Cost(5_000, 700)),
        Engine(FancyRegexOptions(backtrack_limit=1_000, size_limit=1_000_000), Cost(5_000, 4_300)),
    )


class StoppedError(Exception):
    """A check was stopped. The text says why, about the input."""


class _Check:
    """The results for the values of one check so far."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, type, Any], bool] = {}
        self.kept: list[Any] = []
        """The values whose addresses are in `known`: no other value may get one of them."""
        self.level = 0
        self.calls = 0
        self.error: BaseException | None = None


_check: Final[ContextVar[_Check]] = ContextVar("_check")


def check_form(schema: dict[str, Any]) -> None:
    """Compare a schema with the schema of its dialect.

    Raises:
        UsageError: It is not a JSON schema.
        ValueError: It has a value that `jsonschema-rs` does not take, for example a number with 10,000 digits.
    """
    from jsonschema_rs import ValidationError, meta

    try:
        meta.validate(schema)
    except ValidationError as error:
        place = ".".join(map(str, error.instance_path)) or "it"
        said = f"{place} cannot be {json.dumps(error.instance, ensure_ascii=False)}"
        raise UsageError(f"input_schema is not a JSON schema: {head(said, _MAX_SAID_CHARS)}") from error


class CompiledSchema:
    """A compiled schema.

    Args:
        references: The schema, with its references. Its schemas must be JSON schemas, without another dialect. They
            become a part of this object.
        engine: Matches all patterns.

    Raises:
        ValueError: It has a value that `jsonschema-rs` does not take, for example a number with 10,000 digits.

    Attributes:
        root: The schema, with another keyword in place of each `$ref`.
        cost: The most that a check costs.
        has_prefix_items: True for the newest dialect.
    """

    def __init__(self, references: References, engine: Engine) -> None:
        self.root = references.root
        self._dialect = str(self.root.get("$schema", ""))
        self.has_prefix_items = not self._dialect or "2020-12" in self._dialect
        self._engine = engine
        self._targets = references.targets
        self._validators: dict[int, Any] = {}
        self.cost = self._cost_of(references.schemas)
        for schema in references.schemas:
            schema.pop(_REFERENCE, None)
        for referring, uri in references.referring:
            if references.replaces:
                referring.clear()
            referring.pop("$ref", None)
            referring[_REFERENCE] = uri
        self._validator(self.root)

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Check one input inside the block. What is known of its values is kept until the end of it."""
        token = _check.set(_Check())
        try:
            yield
        finally:
            _check.reset(token)

    def fits(self, schema: Any, value: Any) -> bool:
        """Return True if a value fits a schema: the root, or one inside it. Use it only inside `checking`.

        Raises:
            StoppedError: Too many references were followed, or inside one another.
            RecursionError: The same, for a caller that has nearly no frames left.
        """
        check = _check.get()
        is_container = isinstance(value, dict | list)
        # A text comes as a copy each time, which may be large: it is not kept.
        what = id(value) if is_container else hash(value) if isinstance(value, str) else value
        key = (id(schema), type(value), what)
        if key in check.known:
            return check.known[key]
        check.calls += 1
        if check.level == _MAX_LEVELS:
            raise StoppedError("is nested too deeply to be checked")
        if check.calls > _MAX_CALLS:
            raise StoppedError("takes too long to be checked against the tool's schema")
        if is_container:
            check.kept.append(value)
        check.level += 1
        try:
            fits = bool(self._validator(schema).is_valid(value))
        finally:
            check.level -= 1
        if check.error is not None:
            raise check.error
        check.known[key] = fits
        return fits

    def target(self, schema: dict[str, Any]) -> Any:
        """Return the schema that a schema refers to; None if it does not refer to one."""
        return self._targets[schema[_REFERENCE]] if _REFERENCE in schema else None

    def said(self, schema: Any) -> str:
        """Return a schema as JSON, as it was written."""
        return json.dumps(schema, ensure_ascii=False).replace(f'"{_REFERENCE}": ', '"$ref": ')

    def errors(self, schema: dict[str, Any], value: Any) -> list[Any]:
        """Return the errors of jsonschema_rs for a schema of its own, without references."""
        return list(self._compiled(schema).iter_errors(value))

    def steps_to_compile(self, schema: Any) -> int:
        """Return the steps before the first use of a schema inside this one."""
        if id(schema) in self._validators:
            return 0
        return _STEPS_OF_COMPILING * sum(self._cost_of(schemas_in(schema)))

    def _validator(self, schema: Any) -> Any:
        validator = self._validators.get(id(schema))
        if validator is None:
            validator = self._validators[id(schema)] = self._compiled(schema)
        return validator

    def _compiled(self, schema: Any) -> Any:
        from jsonschema_rs import validator_for

        if isinstance(schema, dict):
            schema = {name: said for name, said in schema.items() if name not in DEFINITIONS}
            schema |= {"$schema": self._dialect} if self._dialect else {}
        reference: Any = partial(_Reference, weakref.ref(self))
        return validator_for(
            schema,
            keywords={_REFERENCE: reference},
            pattern_options=self._engine.options,
            mask="it",  # without it, each message has a copy of the value
            validate_formats=False,
            retriever=_fetch_nothing,
        )

    def _cost_of(self, schemas: Iterable[dict[str, Any]]) -> Cost:
        values = patterns = references = 0
        for schema in schemas:
            for keyword, said in schema.items():
                values += _STEPS.get(keyword, 1)
                if keyword in ("const", "enum"):
                    size = check_size(said, max_chars=sys.maxsize, max_depth=sys.maxsize)
                    parts = said if isinstance(said, list) else [said]
                    has_containers = any(isinstance(part, dict | list) for part in parts)
                    values += size * (_STEPS_OF_A_PART if has_containers else 1)
                elif isinstance(said, list) or (isinstance(said, dict) and keyword in _READ_FOR_EACH):
                    values += len(said)
                references += keyword in ("$ref", _REFERENCE)
                patterns += keyword == "pattern"
                patterns += len(said) if keyword == "patternProperties" and isinstance(said, dict) else 0
        of_pattern = self._engine.cost
        per_char = patterns * of_pattern.per_char + references // _REFERENCES_A_STEP
        return Cost(1 + values + patterns * of_pattern.per_value, per_char)


def _fetch_nothing(uri: str) -> Any:
    raise LookupError(uri)


class _Reference:
    """The check of the keyword in place of `$ref`."""

    # The schema has the validators, and these have objects of this class, which the garbage collector does not see.
    def __init__(self, schema: weakref.ref[CompiledSchema], _parent: Any, uri: str, _path: Any) -> None:
        self._schema = schema
        self._uri = uri

    def validate(self, value: Any) -> None:
        """Raise an exception if a value does not fit what is referred to."""
        schema, check = self._schema(), _check.get()
        assert schema is not None
        if check.error is not None:  # the library goes on where a fault decides nothing
            raise ValueError
        try:
            fits = schema.fits(schema.target({_REFERENCE: self._uri}), value)
        except BaseException as error:  # jsonschema_rs would take it for a fault of the value
            check.error = error
            raise
        if not fits:
            raise ValueError
