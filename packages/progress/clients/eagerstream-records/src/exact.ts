// JSON with exact numbers. An integer that a double would round comes as {"$number": "digits"}.

/** An integer outside of -(2^53 - 1) to 2^53 - 1, with all its digits. */
export class ExactNumber {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }

  toBigInt(): bigint {
    return BigInt(this.digits);
  }

  toString(): string {
    return this.digits;
  }

  /** Return the form that `parse` reads. */
  toJSON(): { $number: string } {
    return { $number: this.digits };
  }
}

export interface JsonObject {
  readonly [name: string]: Json;
}

/** A value as `parse` returns it. */
export type Json = null | boolean | number | string | ExactNumber | readonly Json[] | JsonObject;

/**
 * Return the value of JSON text in which such integers are marked.
 *
 * @throws SyntaxError if the text is not JSON, or is nested too deeply.
 */
export function parse(text: string): Json {
  try {
    return text.includes('number"') ? JSON.parse(text, revive) : JSON.parse(text);
  } catch (error) {
    throw error instanceof RangeError ? new SyntaxError("JSON too deep") : error;
  }
}

// A data key that looks like the mark has one more "$".
const ESCAPED = /^\$+\$number$/;
const DIGITS = /^-?[1-9][0-9]{0,4299}$/;

function revive(_: string, value: Json): Json {
  if (!isContainer(value) || Array.isArray(value)) return value;
  const object = value as JsonObject;
  const names = Object.keys(object);
  const digits = names.length === 1 && names[0] === "$number" ? object.$number : null;
  if (typeof digits === "string" && DIGITS.test(digits)) return new ExactNumber(digits);
  if (!names.some((name) => ESCAPED.test(name))) return value;
  return Object.fromEntries(names.map((name) => [ESCAPED.test(name) ? name.slice(1) : name, object[name]!]));
}

/** Return true for an array or an object of the data. */
export function isContainer(value: Json | undefined): value is readonly Json[] | JsonObject {
  return value !== null && typeof value === "object" && !(value instanceof ExactNumber);
}

/** Return a value as JSON text, each integer with all its digits. */
export function stringify(value: Json): string {
  if (value instanceof ExactNumber) return value.digits;
  if (!isContainer(value)) return Object.is(value, -0) ? "-0" : (JSON.stringify(value) ?? "null");
  if (Array.isArray(value)) return `[${value.map(stringify).join(",")}]`;
  return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}:${stringify(item)}`).join(",")}}`;
}
