"""The check of an input against a given JSON schema, one that is not derived from a signature."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from eagerstream_wire import JSONObject, copy_json
from eagerstream_wire._values import encodable

from .._support.inspecting import MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH, TooMuchError, check_size, head
from .._support.warn_once import warn_once
from ..errors import UsageError
from ._compiled_schema import MAX_STEPS, CompiledSchema, Engine, StoppedError, check_form, engines
from ._faults import InputError
from ._schema_faults import faults_of
from ._schema_references import References, for_the_same_value, schemas_in

_log = logging.getLogger(__name__)

_MAX_SAID_CHARS: Final = 300
_MAX_TOLD: Final = 10
_MAX_LARGE_PATTERNS: Final = 50
"""Maximum number of patterns of a schema that are larger than the first engine compiles."""
_DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_TURNING: Final = frozenset({"contains", "if", "not", "oneOf"})
"""The keywords by which a value may fit because it does not fit what is inside."""
_DIALECTS: Final = frozenset({
    "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
    *(f"http://json-schema.org/draft-0{number}/schema{end}" for number in (4, 6, 7) for end in ("", "#")),
})  # fmt: skip


class RawSchema:
    """A JSON schema that was given, not derived, and the check of inputs against it. Inputs are not converted.

    The schema may come from a peer. Therefore the time for a check is bounded, whatever the schema and the input, and
    nothing is fetched. `format` is not checked.

    Args:
        schema: Draft 2020-12, unless its `$schema` names another. It has at most 100,000 characters, and 64 levels of
            nested containers.
        any_type: The value may be of any type; by default, it must be an object.
        is_foreign: What cannot be checked is logged once. By default, it is a fault.

    Attributes:
        schema: A copy of the given schema.
        faults: The faults of the schema itself.
    """

    def __init__(self, schema: Mapping[str, Any], *, any_type: bool = False, is_foreign: bool = False) -> None:
        self.schema: JSONObject = dict(schema)
        self.faults: list[str] = []
        try:
            check_size(self.schema, max_chars=MAX_SCHEMA_CHARS, max_depth=MAX_SCHEMA_DEPTH)
            self._prepare(is_foreign=is_foreign)
        except TooMuchError as error:
            self.faults.append(f"input_schema is too large: {error}")
            return
        except UsageError as error:
            self.faults.append(str(error))
        except ValueError as error:  # for example a number with too many digits
            said, _, _ = head(str(error), _MAX_SAID_CHARS).partition("\n")
            self.faults.append(f"input_schema is not a JSON schema: {said}")
        if not (self.faults or any_type) and self.schema.get("type") != "object":
            self.faults.append('input_schema must be of the type "object"')

    def _prepare(self, *, is_foreign: bool) -> None:
        checked: Any = copy_json(encodable(self.schema))
        dialect = checked.get("$schema")
        if isinstance(dialect, str) and dialect not in _DIALECTS:
            del checked["$schema"]
            dialect = ""
        check_form(checked)
        references = References(checked, dialect or "")
        for schema in references.schemas:
            if schema is not checked:  # a part with a dialect of its own would be checked by other rules
                schema.pop("$schema", None)
        for schema in references.outside:
            check_form({**schema, "$schema": dialect} if dialect else schema)
        engines = _Engines()
        unchecked = [what for schema in references.schemas for what in _uncheckable(schema, engines)]
        if unchecked and is_foreign:
            _remove_uncheckable(references.schemas, engines)
            for what in dict.fromkeys(unchecked):
                warn_once(_log, "the inputs of a tool are not checked for %s of its schema", what)
        elif unchecked:
            told = [*dict.fromkeys(unchecked)][:_MAX_TOLD]
            self.faults += [f"input_schema has {what}, which cannot be checked" for what in told]
            return
        self._compiled = CompiledSchema(references, engines.needed)

    def check(self, input: Any) -> Any:
        """Return a copy of the input, with U+FFFD for lone surrogates, if it fits the schema.

        Raises:
            InputError: The input has faults (one message for the model lists them), or it cannot be checked.
        """
        try:
            copied = copy_json(encodable(input))
            if self._compiled.cost.of(copied) > MAX_STEPS:
                raise StoppedError("takes too long to be checked against the tool's schema")
            with self._compiled.checking():
                if self._compiled.fits(self._compiled.root, copied):
                    return copied
                raise InputError(str(faults_of(self._compiled, copied)))
        except StoppedError as error:
            raise InputError(f"Error: the input {error}") from None
        except RecursionError:
            raise InputError("Error: the input is nested too deeply to be checked") from None
        except ValueError as error:  # for example a number with too many digits
            said = head(f"{type(error).__name__}: {error}", _MAX_SAID_CHARS)
            raise InputError(f"Error: the input cannot be checked against the tool's schema: {said}") from error


class _Engines:
    """The choice of an engine for the patterns of a schema.

    Attributes:
        needed: The cheapest engine that matches all patterns so far.
    """

    def __init__(self) -> None:
        self._at = 0
        self._known: dict[str, int | None] = {}
        self._large = 0

    @property
    def needed(self) -> Engine:
        return engines()[self._at]

    def match(self, pattern: str) -> bool:
        """Return True if an engine matches a pattern: it is a regular expression, and not too large."""
        if pattern not in self._known:
            # The first engine refuses a large pattern at once. The others take up to 10 ms for each.
            number = _engine_of(pattern) if self._large < _MAX_LARGE_PATTERNS else None
            self._large += number != 0
            # A large pattern and one that looks around need the last engine, and neither of them alone does.
            self._at = 4 if {self._at, number} == {2, 3} else max(self._at, number or 0)
            self._known[pattern] = number
        return self._known[pattern] is not None


def _uncheckable(schema: dict[str, Any], engines: _Engines) -> list[str]:
    """Return the parts directly in a schema that cannot be checked."""
    found: list[str] = [keyword for keyword in _DYNAMIC if keyword in schema]
    found += [keyword for keyword in _UNEVALUATED if keyword in schema and not _evaluates(schema, keyword)]
    unfit = [pattern for pattern in _patterns(schema) if not engines.match(pattern)]
    return [*(f"the keyword {keyword}" for keyword in found), *(f"the pattern {pattern!r:.200}" for pattern in unfit)]


def _patterns(schema: dict[str, Any]) -> list[str]:
    """Return the patterns directly in a schema. A keyword of another dialect may have anything."""
    named = schema.get("patternProperties")
    found = [schema.get("pattern"), *(named if isinstance(named, dict) else ())]
    return [pattern for pattern in found if isinstance(pattern, str)]


def _evaluates(schema: dict[str, Any], keyword: str) -> bool:
    """Return True if it is known, and soon, what `unevaluatedItems` or `unevaluatedProperties` is about."""
    if not isinstance(schema[keyword], bool):
        return False  # jsonschema-rs checks what is inside again at each level
    pending = [schema]
    while pending:
        found = pending.pop()
        if any(name in found for name in ("$ref", *_DYNAMIC)):
            return False  # what a reference evaluates is not known outside of it
        pending += for_the_same_value(found)
    return True


def _remove_uncheckable(schemas: list[dict[str, Any]], engines: _Engines) -> None:
    """Remove what cannot be checked, and what would then say something else."""
    for schema in schemas:
        for keyword in _TURNING & schema.keys():
            inside = schemas_in(schema[keyword])
            if any("$ref" in found or _uncheckable(found, engines) for found in inside):
                del schema[keyword]
    for schema in schemas:
        for keyword in (*_DYNAMIC, *_UNEVALUATED):
            schema.pop(keyword, None)
        for pattern in _patterns(schema):
            if not engines.match(pattern):
                if schema.get("pattern") == pattern:
                    del schema["pattern"]
                if schema.get("patternProperties", {}).pop(pattern, None) is not None:
                    schema.pop("additionalProperties", None)  # other properties may have such names


@lru_cache(maxsize=256)
def _engine_of(pattern: str) -> int | None:
    """Return the number of the first engine that matches a pattern."""
    from jsonschema_rs import validator_for

    for number, engine in enumerate(engines()):
        try:
            validator_for({"pattern": pattern}, pattern_options=engine.options)
        except ValueError:
            continue
        return number
    return None
