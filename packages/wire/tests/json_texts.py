"""JSON texts of every shape for hypothesis, and slow, simple readings of them to compare the parser with."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, Final

from hypothesis import strategies as st
from packages.wire.tests.conformance.reading_json import NOTHING, Reading, shown
from tests.streams import strict_loads

from eagerstream_wire import JSON, Path

# --- texts ------------------------------------------------------------------------------------------------------------

_spaces = st.one_of(st.just(""), st.just(""), st.just(""), st.text(" \t\n\r", max_size=3))

_ESCAPES: Final = ['\\"', "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\u0041", "\\u00e9", "\\u0000", "\\uFFFF"]
_SURROGATES: Final = ["\\ud83d", "\\uDE00", "\\ud83d\\ude00", "\\uDBFF\\uDFFF", "\\ud800", "\\udc00"]
_RAW: Final = [
    "a",
    "xyz",
    " ",
    "{",
    "]",
    ",",
    ":",
    "/",
    "u",
    "0",
    "é",
    "\u00a0",
    "\u2028",
    "\x7f",
    "\ufeff",
    "😀",
    "\ud83d",
]

_units = st.one_of(
    st.sampled_from(_RAW),
    st.sampled_from(_ESCAPES),
    st.sampled_from(_SURROGATES),
    st.characters(min_codepoint=0x20, exclude_characters='"\\'),
)
string_texts = st.lists(_units, max_size=6).map(lambda units: f'"{"".join(units)}"')

number_texts = st.one_of(
    st.sampled_from(
        ["0", "-0", "-0.0", "0e0", "1", "12", "1e5", "1E+2", "-1.5e-3", "0.10", "1e400", "-1e999", "1e-999"]
    ),
    st.integers().map(str),
    st.integers(10**30, 10**60).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(?:0|[1-9][0-9]{0,9})(?:\.[0-9]{1,9})?(?:[eE][+-]?[0-9]{1,3})?", fullmatch=True),
)

_scalars = st.one_of(string_texts, number_texts, st.sampled_from(["true", "false", "null"]))

_key_texts = st.one_of(st.sampled_from(['"a"', '"a"', '"b"', '"\\u0061"', '""']), string_texts)


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = [f"{draw(_spaces)}{draw(inner)}{draw(_spaces)}" for _ in range(draw(st.integers(0, 4)))]
    return f"[{','.join(items) or draw(_spaces)}]"


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[str], *, repeated_keys: bool) -> str:
    members: dict[JSON, str] = {}
    entries: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        key = draw(_key_texts)
        entry = f"{draw(_spaces)}{key}{draw(_spaces)}:{draw(_spaces)}{draw(inner)}{draw(_spaces)}"
        entries.append(entry)
        members.setdefault(strict_loads(key), entry)
    if not repeated_keys:
        entries = list(members.values())
    return f"{{{','.join(entries) or draw(_spaces)}}}"


def _documents(*, repeated_keys: bool) -> st.SearchStrategy[str]:
    values = st.recursive(
        _scalars,
        lambda inner: st.one_of(_arrays(inner), _objects(inner, repeated_keys=repeated_keys)),
        max_leaves=12,
    )
    # Two in three roots are objects, as a tool's input is one.
    objects = _objects(values, repeated_keys=repeated_keys)
    return st.builds(
        lambda before, value, after: before + value + after, _spaces, st.one_of(objects, objects, values), _spaces
    )


documents = _documents(repeated_keys=True)
"""Valid documents; keys may be repeated."""

plain_documents = _documents(repeated_keys=False)
"""Valid documents in which each key of an object comes once."""

_INTRUDERS: Final = "{}[],:\"\\ \n\t\r0123456789.eE+-truefalsnx/\x00\x1f\ufeffNI'é"


@st.composite
def mutated_documents(draw: st.DrawFn) -> str:
    """Documents after a few slips of the pen: mostly not JSON, and mostly not from the start."""
    text = draw(documents)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        intruder = draw(st.one_of(st.sampled_from(_INTRUDERS), st.characters()))
        match draw(st.sampled_from(["insert", "delete", "replace", "duplicate", "cut"])):
            case "insert":
                text = text[:at] + intruder + text[at:]
            case "delete":
                text = text[:at] + text[at + 1 :]
            case "replace":
                text = text[:at] + intruder + text[at + 1 :]
            case "duplicate":
                text = text[:at] + text[at : at + 1] + text[at:]
            case _:
                text = text[:at]
    return text


texts = st.one_of(documents, mutated_documents(), st.text(_INTRUDERS, max_size=12))
"""Anything at all."""

# --- what a prefix shows ----------------------------------------------------------------------------------------------


def what_is_open(prefix: str) -> tuple[str, bool]:
    """The brackets that would close `prefix`, innermost first, and whether it stops inside a string or a key."""
    closing = ""
    in_string = False
    escaped = False
    for character in prefix:
        if in_string:
            in_string = escaped or character != '"'
            escaped = not escaped and character == "\\"
        elif character == '"':
            in_string = True
        elif character in "{[":
            closing = ("}" if character == "{" else "]") + closing
        elif character in "}]":
            closing = closing[1:]
    return closing, in_string


def reference_value(prefix: str) -> tuple[bool, JSON]:
    """Whether a value shows after `prefix`, and which, by the second reading of the vectors."""
    value = shown(Reading(prefix).notes, len(prefix))
    return (False, None) if value == NOTHING else (True, value)


def paths_in_order_of_ends(value: JSON, path: Path = ()) -> Iterator[tuple[Path, JSON]]:
    """Every place in `value` with what stands there, containers after what is in them."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in_order_of_ends(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths_in_order_of_ends(item, (*path, index))
    yield path, value


def without_infinity(value: Any) -> Any:
    """A copy with None in the place of each number that is beyond all floats, as in a patch."""
    if isinstance(value, dict):
        return {key: without_infinity(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_infinity(item) for item in value]
    return None if value in (inf, -inf) else value
