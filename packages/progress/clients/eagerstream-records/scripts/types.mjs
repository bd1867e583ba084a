// Writes src/records.ts from the JSON Schema of the records; with --check, compares it instead. A keyword of JSON
// Schema that is not known here is an error: its meaning must not be lost.

import { readFileSync, writeFileSync } from "node:fs";

const SCHEMA = new URL("../../../src/eagerstream_progress/record.schema.json", import.meta.url);
const TARGET = new URL("../src/records.ts", import.meta.url);
const KNOWN = new Set([
  "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties", "required", "title", "type",
]);
const SIMPLE = { boolean: "boolean", integer: "number", null: "null", number: "number", string: "string" };

function typeOf(schema, place) {
  const unknown = Object.keys(schema).filter((key) => !KNOWN.has(key));
  if (unknown.length) throw new Error(`${place}: the keyword ${unknown.join(", ")} is not known here`);
  if (schema.$ref) return schema.$ref.replace("#/$defs/", "");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map((one) => typeOf(one, place)).join(" | ");
  if (schema.type === undefined) return "Json"; // any value
  if (schema.type === "array") return `readonly ${grouped(typeOf(schema.items, place))}[]`;
  if (schema.type === "object" && schema.additionalProperties === true) return "JsonObject";
  if (!(schema.type in SIMPLE)) throw new Error(`${place}: the type ${schema.type} is not known here`);
  return SIMPLE[schema.type];
}

const grouped = (type) => (type.includes("|") ? `(${type})` : type);

// A description in Google style: its first part, and a sentence about each attribute.
function described(text = "") {
  const [about, attributes = ""] = text.split("\n\nAttributes:\n");
  const sentences = attributes.matchAll(/^ {4}(\w+): ([^]*?)(?=\n {4}\w|$(?![^]))/gm);
  return { about, sentences: Object.fromEntries([...sentences].map(([, name, words]) => [name, words.replace(/\s+/g, " ")])) };
}

const HEAD = {
  v: "The version of this format.",
  seq: "The number of the record. It rises from record to record, from 1.",
  at_s: "Seconds since the start of the run.",
  to_seq: "`seq` of the last merged delta. `seq` itself is the number of the first.",
  to_s: "`at_s` of the last merged delta. `at_s` itself is the time of the first.",
  count: "Number of fragments, if they are several.",
  omitted_chars: "Number of characters that are no longer kept. The record then has no text and no patch.",
};

const comment = (text, indent) => `${indent}/** ${text.replaceAll("*/", "*\\/").trim().split("\n").join(`\n${indent} * `)} */\n`;

function interfaceOf(name, schema) {
  const { about, sentences } = described(schema.description);
  const fields = Object.entries(schema.properties).map(([field, inner]) => {
    const words = sentences[field] ?? HEAD[field];
    const mark = schema.required?.includes(field) ? "" : "?";
    return `${words ? comment(words, "  ") : ""}  readonly ${field}${mark}: ${typeOf(inner, `${name}.${field}`)};\n`;
  });
  return `${comment(about, "")}export interface ${name} {\n${fields.join("")}}\n`;
}

function generate(schema) {
  const records = schema.oneOf.map((one) => typeOf(one, "oneOf"));
  const named = Object.values(schema.discriminator.mapping).map((ref) => ref.replace("#/$defs/", ""));
  if (String([...records].sort()) !== String([...named].sort())) throw new Error("oneOf and the discriminator differ");
  return [
    "// Generated from record.schema.json by scripts/types.mjs. Do not edit.\n",
    'import type { Json, JsonObject } from "./exact.js";\n',
    ...Object.entries(schema.$defs).map(([name, inner]) => interfaceOf(name, inner)),
    `${comment(schema.description, "")}export type RunRecord =\n${records.map((name) => `  | ${name}`).join("\n")};\n`,
    `/** The types of records that this version knows. */\nexport type RecordType = RunRecord["type"];\n`,
  ].join("\n");
}

const path = process.argv.slice(2).find((argument) => !argument.startsWith("--"));
const text = generate(JSON.parse(readFileSync(path ?? SCHEMA, "utf8")));
if (!process.argv.includes("--check")) writeFileSync(TARGET, text);
else if (readFileSync(TARGET, "utf8") !== text) {
  console.error("src/records.ts does not fit the schema of the records: run `npm run types`, and handle what is new in src/run.ts");
  process.exit(1);
}
