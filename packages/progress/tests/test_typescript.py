"""TypeScript types of tools' inputs: each has every value that its schema allows, and the compiler takes them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packages.progress.tests.compiling import compiled, faults_of
from tests.sampling import SEED
from tests.tables import rows

from eagerstream_progress._typescript import ToolSchema, typescript


def type_of(schema: Any) -> str:
    """The type of a field with this schema."""
    text = typescript([ToolSchema("t", "", {"type": "object", "properties": {"x": schema}, "required": ["x"]})], "made")
    found = re.search(r"^  readonly x: (.*?);\n\};$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, text
    return re.sub(r"\s+", " ", found[1])


_LARGE = 2**53
_ROWS: list[tuple[Any, str]] = [
    ({"type": "string"}, "string"),
    ({"type": ["string", "null"]}, "string | null"),
    ({"type": "string", "nullable": True}, "string | null"),
    ({"type": "integer"}, "ExactNumber | number"),
    ({"type": "integer", "minimum": 0, "maximum": 9}, "number"),
    ({"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1}, "number"),
    ({"type": "integer", "minimum": 0}, "ExactNumber | number"),
    ({"type": "integer", "minimum": 0, "maximum": _LARGE}, "ExactNumber | number"),
    ({"type": "integer", "exclusiveMinimum": True, "maximum": 1}, "ExactNumber | number"),  # of draft 4
    ({"const": "a"}, '"a"'),
    ({"enum": ["a", 1, -1.5, None, True]}, '"a" | 1 | number | null | true'),
    ({"enum": [_LARGE, "*/\u2028\ud800"]}, r'ExactNumber | "*/\u2028\ud800"'),
    ({"const": {"a": [1, {}]}}, "{ readonly a: readonly [1, (Record<string, never>)] }"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
    ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "Json"),
    ({"anyOf": [{"const": 1}, False]}, "1"),
    ({"allOf": [{"type": "string"}, {"enum": ["a", "b"]}]}, 'string & ("a" | "b")'),
    ({"type": "array"}, "readonly Json[]"),
    ({"type": "array", "items": {"type": ["boolean", "null"]}}, "readonly (boolean | null)[]"),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, "readonly [(string)?, ...Json[]]"),
    ({"type": "array", "prefixItems": [{"const": 1}], "items": False, "minItems": 1}, "readonly [1]"),
    ({"type": "array", "prefixItems": [{"const": 1}], "maxItems": 1, "minItems": 1}, "readonly [1]"),
    ({"type": "array", "items": [{"const": 1}], "additionalItems": {"const": 2}}, "readonly [1?, ...2[]]"),
    ({"type": "object"}, "JsonObject"),
    ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
    ({"type": "object", "additionalProperties": {"const": 1}}, "{ readonly [name: string]: 1 }"),
    ({"type": "object", "patternProperties": {"^a": {"const": 1}}}, "JsonObject"),
    ({"type": "object", "required": ["a-b"]}, '{ readonly "a-b": Json; }'),
    (
        {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}, "required": ["b"]},
        "{ readonly a?: 1; readonly b: 2; readonly [name: string]: unknown; }",
    ),
    (
        {"type": "object", "properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "({ readonly a: Json; } | { readonly b: Json; }) & { readonly a?: null; }",
    ),
    ({"properties": {"a": {"type": "null"}}}, "Json"),  # a text has no fields, and fits
    ({"$ref": "https://example.org/schema"}, "Json"),
    ({"$ref": "#/nowhere"}, "Json"),
    ({"$ref": "#anchor"}, "Json"),
    ({"type": "file"}, "Json"),
    ({"type": ["string", 5]}, "Json"),
    ({"not": {"type": "string"}, "if": {}, "x-made": 1}, "Json"),
    (True, "Json"),
    (False, "never"),
    ({}, "Json"),
    (None, "Json"),
    ({"enum": [], "anyOf": {}, "allOf": 1, "required": 1, "properties": []}, "Json"),
]


@rows("schema, expected", _ROWS)
def test_keywords(schema: Any, expected: str) -> None:
    """Those that are known, alone and together; all others make the type wider."""
    assert type_of(schema) == expected.replace("(string)?", "string?").replace("(1)", "1")


def test_deep_schemas() -> None:
    """The generator does not recurse without a bound, and neither does the compiler."""
    deep: Any = {"type": "string"}
    value: Any = "x"
    for _ in range(200):
        deep, value = {"type": "array", "items": deep}, [value]
    assert type_of(deep).count("readonly") < 100
    assert type_of({"const": value}).count("readonly") < 100


# --- for the compiler -------------------------------------------------------------------------------------------------

_TREE = {
    "type": "object",
    "description": "A tree */ export const evil = 1; /*\u202e\x1b[2J\n\n@deprecated `x`",
    "properties": {
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree of things"}},
        "parent": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "first": {"$ref": "#/properties/children"},
        "percent": {"$ref": "#/$defs/Tree%20of%20things"},
    },
    "required": ["children"],
}
_TOOLS = [
    ToolSchema(
        "make-tree",
        "Make a tree. */",
        {
            "type": "object",
            "properties": {
                "tree": {"$ref": "#/$defs/Tree of things"},
                "kind": {"enum": ["oak", "fir"]},
                "class": {"type": "string", "description": "A reserved word."},
                "not an\nidentifier\"'`": {"type": "integer", "maximum": 5, "minimum": 0},
                "__proto__": {"type": "boolean"},
                "loop": {"$ref": "#/$defs/loop"},
                "number": {"type": "integer"},
                "at": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False},
            },
            "required": ["tree", "kind"],
            "$defs": {
                "Tree of things": _TREE,
                "loop": {"anyOf": [{"$ref": "#/$defs/pool"}, {"type": "null"}]},
                "pool": {"allOf": [{"$ref": "#/$defs/loop"}]},
                "日本": {"type": "string"},
            },
        },
    ),
    ToolSchema(
        "3d", "", {"type": "object", "properties": {"x": {"$ref": "#/$defs/日本"}}, "$defs": _TREE["properties"]}
    ),
    ToolSchema(
        "json", "", {"type": "object", "properties": {"a": {"$ref": "#/$defs/Object"}}, "$defs": {"Object": {}}}
    ),
    ToolSchema("make_tree", "Another tool whose type would have the same name.", {"type": "object", "properties": {}}),
    ToolSchema("web_search", "", {}),
]

_PROGRAM = """
import { useRun } from "eagerstream-records/react";
import type { Growing } from "eagerstream-records";
import type { Tools } from "./tools.js";

const tree: Tools["make-tree"]["tree"] = { children: [{ children: [] }], parent: null };
export const whole: Tools["make-tree"] = { tree, kind: "oak", "class": "a", "not an\\nidentifier\\"'`": 5, at: ["a", true] };
export const growing: Growing<Tools["make-tree"]> = { tree: { children: [{}] }, kind: "o", at: ["a"] };
// @ts-expect-error: a field is missing
export const missing: Tools["make-tree"] = { tree };
// @ts-expect-error: no such kind
export const kind: Tools["make-tree"]["kind"] = "elm";
// @ts-expect-error: no such field
export const surplus: Growing<Tools["make-tree"]> = { trees: tree };
// @ts-expect-error: a tuple has no third item
export const long: Tools["make-tree"]["at"] = ["a", true, 1];
// @ts-expect-error: a child is a tree
export const child: typeof tree = { children: [1] };

export function useTree(url: string): number | undefined {
  for (const call of useRun<Tools>(url).run.calls) {
    if (call.name !== "make-tree") continue;
    // @ts-expect-error: an integer may be an ExactNumber
    const number: number | undefined = call.input?.number;
    if (call.outcome === "valid" && !call.isOmitted) return call.input.tree.children.length + Number(number);
    // @ts-expect-error: the tree may have no children yet
    return call.input?.tree?.children.length;
  }
  return undefined;
}
"""


@pytest.mark.slow
def test_programs(tmp_path: Path) -> None:
    """Names and texts of any form; what is right compiles, and what is wrong does not."""
    text = typescript(_TOOLS, "made\n*/")
    assert not re.search("[\x1b\u202e]", text)
    assert "evil" in text
    compiled(tmp_path, {"tools.ts": text, "program.ts": _PROGRAM})


@pytest.mark.slow
def test_a_program_that_does_not_fit(tmp_path: Path) -> None:
    """The compiler reads the types: without the comment that expects it, a fault is one."""
    program = _PROGRAM.replace("// @ts-expect-error: no such kind\n", "")
    (fault,) = faults_of(tmp_path, {"tools.ts": typescript(_TOOLS, "made"), "program.ts": program})
    assert '"elm"' in fault


# --- every value that a schema allows ---------------------------------------------------------------------------------

_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -3, 1.5, "", "a", "b", [], ["a"], ["a", 1], [1, "a", None], [[]], {}),
    *({"a": 1}, {"a": "a"}, {"b": None}, {"a": "a", "b": [1]}, {"a": {"a": {"a": "a"}}}, {"a": ["a", "b"]}),
]


def made_schema(chance: random.Random, depth: int = 0) -> Any:
    """A schema of known keywords that fit together or not."""

    def inner() -> Any:
        return made_schema(chance, depth + 1)

    def named() -> dict[str, Any]:
        # Both: the compiler refuses an object without any of the fields, if all are optional. That is no fault of a type.
        return {name: inner() if chance.random() < 0.6 else True for name in ("a", "b")}

    if chance.random() < 0.07:
        return chance.random() < 0.7
    types = ["array", "boolean", "integer", "null", "number", "object", "string"]
    keywords: dict[str, Any] = {
        "type": lambda: chance.choice([*types, *["object", "array"] * 3, chance.sample(types, 2)]),
        "enum": lambda: chance.sample(_VALUES, 3),
        "const": lambda: chance.choice(_VALUES),
        "properties": named,
        "required": lambda: chance.sample(["a", "b"], chance.randrange(1, 3)),
        "additionalProperties": inner,
        "patternProperties": lambda: {"^a": inner()},
        "items": inner,
        "prefixItems": lambda: [inner() for _ in range(chance.randrange(1, 3))],
        "minItems": lambda: chance.randrange(3),
        "maxItems": lambda: chance.randrange(3),
        "minimum": lambda: 0,
        "maximum": lambda: 5,
        "anyOf": lambda: [inner() for _ in range(2)],
        "oneOf": lambda: [inner() for _ in range(2)],
        "allOf": lambda: [inner() for _ in range(2)],
        "not": inner,
        "if": inner,
        "$ref": lambda: chance.choice(["#", "#/$defs/one", "#/$defs/two"]),
    }
    shallow = {name: make for name, make in keywords.items() if depth < 3 or name not in _NESTING}
    made = {name: shallow[name]() for name in chance.sample([*shallow], chance.randrange(4))}
    if (more := {"array": "prefixItems", "object": "properties"}.get(str(made.get("type")))) in shallow:
        made[more] = shallow[more]()
    return made


_NESTING = {"properties", "additionalProperties", "patternProperties", "items", "prefixItems"} | {
    *("anyOf", "oneOf", "allOf", "not", "if")
}


def made_tools(chance: random.Random, count: int) -> Iterator[tuple[ToolSchema, list[Any]]]:
    """Tools with made schemas, and of some values those that a schema allows."""
    import jsonschema_rs

    for number in range(count):
        schema = {
            "type": "object",
            "properties": {"a": made_schema(chance), "b": made_schema(chance)},
            "$defs": {"one": made_schema(chance), "two": made_schema(chance)},
        }
        try:
            validator = jsonschema_rs.validator_for(schema)
            wrapped = [{"a": value} for value in _VALUES]
            fitting = [value for value in [*_VALUES, *wrapped] if validator.is_valid(value)]
        except (ValueError, RecursionError):  # a schema that leads back to itself
            continue
        yield ToolSchema(f"tool_{number}", "", schema), fitting


@pytest.mark.slow
def test_no_value_is_impossible(tmp_path: Path) -> None:
    """Each value that a made schema allows has its type, as a second reading of the schemas finds: jsonschema-rs."""
    made = [*made_tools(random.Random(SEED), 400)]
    values = [(tool, value) for tool, fitting in made for value in fitting]
    assert len(values) > 2_000
    lines = ['import type { Tools } from "./tools.js";']
    for number, (tool, value) in enumerate(values):
        # Not a fresh literal, of which surplus fields would be refused.
        lines.append(f"const v{number} = {json.dumps(value)} as const;")
        lines.append(f"export const x{number}: Tools[{json.dumps(tool.name)}] = v{number};")
    text = typescript([tool for tool, _ in made], "made")
    compiled(tmp_path, {"tools.ts": text, "program.ts": "\n".join(lines)})
    narrow = [tool for tool, _ in made if _is_narrow(tool.schema)]
    assert len(narrow) > 20, "not all of them are Json"


def _is_narrow(schema: Mapping[str, Any]) -> bool:
    return type_of(schema["properties"]["a"]) != "Json"
