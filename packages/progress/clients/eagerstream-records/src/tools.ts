// The types of the inputs of a program's tools. They cost nothing at run time.

import type { ExactNumber, Json } from "./exact.js";

/** The default, for programs that name no tools: a call has any name and any input. */
export interface AnyTools {
  readonly [name: string]: Json;
}

/**
 * The name of a tool that `Tools` does not name, for example of a tool that runs on the server.
 *
 * The name itself is only the part after the colon. TypeScript must know that it is none of the named ones, or comparing
 * `call.name` would not narrow the call.
 */
export type OtherName = `another tool: ${string}`;

/**
 * A value of this type while it is written. Each field of an object may be missing, a list may be shorter, and a text
 * may be cut off, so one of a fixed set of texts may be any text. Numbers, booleans and null are there as a whole.
 */
export type Growing<Value> =
  Json extends Value ? Value // also `unknown`
    : Value extends string ? Value | (string & {}) // an editor still suggests the fixed texts
    : Value extends number | boolean | null | undefined | ExactNumber ? Value
    : Value extends readonly unknown[] ? GrowingList<Value>
    : { readonly [Name in keyof Value]?: Growing<Value[Name]> };

type GrowingList<List extends readonly unknown[]> = number extends List["length"]
  ? readonly Growing<List[number]>[]
  : { readonly [Place in keyof List]?: Growing<List[Place]> };
