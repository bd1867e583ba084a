"""Plausible values for JSON Schemas: tool inputs and structured outputs of scripted responses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from eagerstream.errors import UsageError
from eagerstream.inputs import InputError
from eagerstream.tools import Tool

from ._made_up_pattern import matching

LINES: Final = (
    "The harbour keeps its hours in the rain,",
    "a bell says so, and says it all again;",
    "the boats come in behind a single light,",
    "and ropes are thrown to hands that hold them tight.",
    "The gulls have nothing new to tell the quay,",
    "they heard it all last winter from the sea;",
    "a lamp goes on, a kettle starts to sing,",
    "and somebody is mending everything.",
    "The tide goes out as far as it can go,",
    "and leaves the names of all it used to know;",
    "then turns around, as if it had forgot",
    "that it was here, and whether it was not.",
)
"""Lines of a long text, so that an input visibly grows."""

_TEXT: Final = "\n".join(LINES)
_ITEMS: Final = 3
"""Number of items in an array that allows as many. An array of lines has all of `LINES`."""
_MAX_CHARS: Final = 10_000
_MAX_DEPTH: Final = 6
"""Depth of a schema below which optional parts are left out."""

_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}

_WORDS: Final = {
    "city location place town": ("Oslo", "Vienna", "Lima"),
    "country": ("Norway", "Austria", "Peru"),
    "currency": ("NOK", "EUR", "PEN"),
    "language": ("Norwegian", "German", "Spanish"),
    "author customer name person recipient sender to user": ("Ada", "Grace", "Edsger"),
    "file filename path": ("poem.txt", "letter.txt", "notes.txt"),
    "headline subject title topic": ("The harbour", "The bell", "The tide"),
    "query question search term": ("harbours of Norway", "bells of Vienna", "tides of Lima"),
    "keyword label tag word": ("harbour", "bell", "tide"),
    "email mail": ("ada@example.com", "grace@example.com", "edsger@example.com"),
    "link uri url website": ("https://example.com/a", "https://example.com/b", "https://example.com/c"),
    "date day": ("2026-01-31", "2026-02-28", "2026-03-31"),
    "time": ("09:00", "12:30", "18:45"),
    "code id identifier key number": ("A-1", "B-2", "C-3"),
    "colour color": ("blue", "green", "red"),
    "unit": ("celsius", "metre", "gram"),
    "glob pattern": ("*",),
    "command": ("echo 1", "echo 2", "echo 3"),
    "body content html letter line markdown message paragraph poem story summary text": (),
}
"""Words in the name of a parameter, and values for it. No values: a long text."""

_VALUES: Final = {word: values for words, values in _WORDS.items() for word in words.split()}


def made_up_input(tool: Tool, number: int = 0) -> dict[str, Any]:
    """Return an input that the tool accepts: one of its own examples, or one generated from its schema.

    Args:
        tool: The tool.
        number: Number of the input. Different numbers give different inputs if the schema allows them.

    Raises:
        UsageError: The schema has a rule that is not supported here (a lookahead, for example), or no input fits it.
    """
    examples = tool.to_dict().get("input_examples") or ()
    fault: Exception | None = None
    for sparse in (False, True):  # an optional part may have the rule that is not supported
        try:
            schema = tool.input_schema
            made = dict(examples[number % len(examples)]) if examples else made_up(schema, number, sparse=sparse)
            if isinstance(made, dict):
                tool.check(made)
                return made
        except (InputError, RecursionError) as error:
            fault = error
    what = "no input could be made up that its schema allows: give it input_examples, or play a recording"
    raise UsageError(f"the tool {tool.name}: {what}") from fault


def made_up(schema: Mapping[str, Any], number: int = 0, *, sparse: bool = False) -> Any:
    """Return a value for a schema. It may break rules that are not supported here: check it.

    Other numbers give other values, see `made_up_input`. If `sparse`, it has no optional parts, and short texts.

    Raises:
        RecursionError: The schema requires itself.
    """
    return _Maker(schema, number, LINES[0] if sparse else _TEXT).value(schema, "", _MAX_DEPTH + 1 if sparse else 0)


class _Maker:
    """Generator of the values of one schema. References are resolved in `root`."""

    def __init__(self, root: Mapping[str, Any], number: int, text: str) -> None:
        self._root = root
        self._number = number
        self._text = text

    def value(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value for a part of the schema. `name` is the parameter's name, and hints at a plausible value."""
        if not isinstance(schema, Mapping):
            return self._text  # `true` allows anything
        if isinstance(reference := schema.get("$ref"), str):
            found: Any = self._root
            for step in reference.removeprefix("#").split("/")[1:]:
                member = step.replace("~1", "/").replace("~0", "~")
                found = found.get(member, {}) if isinstance(found, Mapping) else {}
            return self.value(found, name, depth + 1)
        if schema.get("examples"):
            return self._one_of(schema["examples"])
        if schema.get("default") not in (None, "", [], {}):  # an empty default shows nothing
            return schema["default"]
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._one_of(schema["enum"])
        for choices in ("anyOf", "oneOf"):
            if schema.get(choices):
                # An optional parameter lists null last. At depth, null ends the recursion of a schema that refers to
                # itself.
                chosen = schema[choices][-1 if depth > _MAX_DEPTH else 0]
                return self.value(chosen, name, depth + 1)
        if schema.get("allOf"):
            merged: dict[str, Any] = {}
            for part in (*schema["allOf"], {name: value for name, value in schema.items() if name != "allOf"}):
                merged |= part
            return self.value(merged, name, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "string":
                if (formatted := _FORMATS.get(str(schema.get("format")))) is not None:
                    return formatted
                if "pattern" in schema and (matched := matching(str(schema["pattern"]))) is not None:
                    return matched
                hint = _hint(schema, name)
                return _fitted(self._one_of(hint) if hint else self._text, schema)
            case "integer" | "number" as number:
                return self._number_in(schema, whole=number == "integer")
            case "boolean":
                return True
            case _:
                return None

    def _one_of(self, values: Any) -> Any:
        return values[self._number % len(values)]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        properties = schema.get("properties") or {}
        made = {
            name: self.value(of, name, depth + 1)
            for name, of in properties.items()
            if name in required or depth <= _MAX_DEPTH
        }
        others = schema.get("additionalProperties", True)
        needed = (
            *(name for name in required if name not in made),
            *(f"key_{number}" for number in range(1, _ITEMS + 1)),
        )
        for name in needed if others is not False else ():
            if name in required or len(made) < schema.get("minProperties", 0):
                made[name] = self.value(others, name, depth + 1)
        return made

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        items = schema.get("items", True)
        others = {"$ref", "allOf", "anyOf", "const", "default", "enum", "examples", "format", "oneOf", "properties"}
        # Texts are lines of a long text, unless their schema or the name says something else.
        lines = not isinstance(items, Mapping) or (
            items.get("type", "string") == "string" and not items.keys() & others and not _hint(items, name)
        )
        wanted = len(LINES) if lines else _ITEMS
        least = schema.get("minItems", 0)
        count = least if depth > _MAX_DEPTH else max(least, min(schema.get("maxItems", wanted), wanted))
        prefix = (schema.get("prefixItems") or ())[: schema.get("maxItems")]
        made = [self.value(of, name, depth + 1) for of in prefix]
        rest = max(0, min(count, _MAX_CHARS) - len(made)) if items else 0
        for number in range(rest):
            if lines:
                made.append(_fitted(LINES[number % len(LINES)], items if isinstance(items, Mapping) else {}))
            else:
                made.append(_Maker(self._root, self._number + number, self._text).value(items, name, depth + 1))
        if schema.get("uniqueItems"):
            return [item for number, item in enumerate(made) if item not in made[:number]]
        return made

    def _number_in(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        step = schema.get("multipleOf") or (1 if whole else 0.5)
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is None and above is not None:
            low = above + step
        if high is None and below is not None:
            high = below - step
        if low is not None:
            low = math.ceil(low / step) * step
        made = low if low is not None else min(step, high) if high is not None else step
        if high is None or made + self._number * step <= high:
            made += self._number * step
        return int(made) if whole else made


def _hint(schema: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return short values that fit the name of a parameter, or its description. Empty if it is a long text."""
    description = str(schema.get("description", ""))
    # The last word of a name says most, except `name` itself: `city_name` is a city, `recipient_email` an address.
    named = _words(name)[::-1]
    named.sort(key=lambda word: word == "name")
    for word in (*named, *(word for word in _words(description[:200]) if len(word) > 2)):
        if word in _VALUES:
            return _VALUES[word]
    return ()


def _words(text: str) -> list[str]:
    """Return the words of a name or a sentence, in lower case and in the singular."""
    found = (word.lower() for word in re.findall(r"[A-Z]?[a-z]+", text))
    return [word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s") for word in found]


def _fitted(text: str, schema: Mapping[str, Any]) -> str:
    """Return a text of the length that a schema allows."""
    most: int = min(schema.get("maxLength", _MAX_CHARS), _MAX_CHARS)
    least: int = min(schema.get("minLength", 0), _MAX_CHARS)
    longer: str = text + _TEXT * (least // len(_TEXT) + 1)
    return longer[: max(least, min(most, len(text)))]
