// Brings a partial value to its next state. The text of an input is never parsed.

import { type Json, isContainer } from "./exact.js";
import type { PatchOp } from "./records.js";

/** A patch does not fit its value. The text has nothing of the value. */
export class PatchError extends Error {
  override name = "PatchError";

  constructor() {
    super("the patch does not fit");
  }
}

type Container = Json[] | { [name: string]: Json };

/**
 * Apply the patch of an `input_delta` record: "add" and "replace" of RFC 6902, and "append" to a string.
 *
 * The cost depends on the patch, not on the value. The patch itself stays as it is.
 *
 * @param value The value so far; undefined or null at the start.
 * @param patch The operations, in order.
 * @param owned The containers that may be changed in place. All others on the path of an operation are copied first,
 *   and the copies are added. Without it, the value is changed in place.
 * @returns The new value.
 * @throws PatchError if an operation does not fit. The operations before it are applied.
 */
export function applyPatch(value: Json | undefined, patch: readonly PatchOp[], owned?: WeakSet<object>): Json {
  return patched(value ?? null, owned ? patch : patch.map((one) => ({ ...one, value: copied(one.value) })), owned);
}

function patched(root: Json, patch: readonly PatchOp[], owned?: WeakSet<object>): Json {
  for (const { op, path, value: operand } of patch) {
    const steps = stepsOf(path);
    const last = steps.pop();
    if (last === undefined) {
      root = op === "append" ? lengthened(root, operand) : operand;
      continue;
    }
    let parent: Container = (root = writable(root, owned));
    for (const step of steps) {
      const child = get(parent, step);
      const own = writable(child, owned);
      if (own !== child) put(parent, step, own);
      parent = own;
    }
    if (op === "append") put(parent, last, lengthened(get(parent, last), operand));
    else if (!Array.isArray(parent)) put(parent, last, operand);
    else if (op === "add") parent.splice(indexOf(last, parent.length), 0, operand);
    else parent[indexOf(last, parent.length - 1)] = operand;
  }
  return root;
}

/**
 * A value that grows by patches. Values that it hands out are never changed again: what changed between two reads has
 * a new identity, with all that contains it, and everything else is shared. So React redraws only the parts that grew.
 *
 * Reading costs nothing; the next patch then copies each container on its path once, without what is in it.
 */
export class PartialValue<Value = Json> {
  #value: Json;
  #owned = new WeakSet<object>();

  constructor(value: Json = null) {
    this.#value = value;
  }

  /** @throws PatchError if an operation does not fit. The operations before it are applied. */
  apply(patch: readonly PatchOp[]): void {
    this.#value = patched(this.#value, patch, this.#owned);
  }

  get value(): Value {
    this.#owned = new WeakSet();
    return this.#value as Value;
  }

  /** The value without a promise: later patches change it in place. */
  get live(): Value {
    return this.#value as Value;
  }
}

/** Gets a piece of a text in an input: the JSON pointer of the text, the piece, and whether the text starts with it. */
export type TellPiece = (path: string, text: string, isStart: boolean) => void;

/** Tell the pieces of texts that a patch brings, in order. */
export function tellPieces(patch: readonly PatchOp[], tell: TellPiece): void {
  for (const { op, path, value } of patch) {
    if (op === "append") tell(path, String(value), false);
    else tellTexts(path, value, tell);
  }
}

function tellTexts(path: string, value: Json, tell: TellPiece): void {
  if (typeof value === "string") tell(path, value, true);
  else if (isContainer(value)) {
    for (const [name, item] of Object.entries(value)) tellTexts(`${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, item, tell);
  }
}

function stepsOf(path: string): string[] {
  if (path === "") return [];
  const [before, ...steps] = path.split("/");
  if (before !== "") throw new PatchError();
  return path.includes("~") ? steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~")) : steps;
}

function writable(value: Json, owned: WeakSet<object> | undefined): Container {
  if (!isContainer(value)) throw new PatchError();
  if (!owned || owned.has(value)) return value as Container;
  // Both copy a key "__proto__" as a key of the data.
  const copy: Container = Array.isArray(value) ? value.slice() : { ...(value as { [name: string]: Json }) };
  owned.add(copy);
  return copy;
}

// A model may call a field "__proto__" or "constructor", and "length" is no item: only own keys of the data count.
function get(parent: Container, step: string): Json {
  if (Array.isArray(parent)) return parent[indexOf(step, parent.length - 1)]!;
  if (!Object.hasOwn(parent, step)) throw new PatchError();
  return parent[step]!;
}

function put(parent: Container, step: string, value: Json): void {
  if (Array.isArray(parent)) parent[indexOf(step, parent.length - 1)] = value;
  else if (step !== "__proto__") parent[step] = value;
  else Object.defineProperty(parent, step, { value, writable: true, enumerable: true, configurable: true });
}

// No index leaves a gap: a patch makes no array longer than the number of its operations.
function indexOf(step: string, most: number): number {
  const index = Number(step);
  if (!/^(?:0|[1-9][0-9]*)$/.test(step) || index > most) throw new PatchError();
  return index;
}

function lengthened(text: Json, more: Json): string {
  if (typeof text !== "string" || typeof more !== "string") throw new PatchError();
  return text + more;
}

function copied(value: Json): Json {
  if (!isContainer(value)) return value;
  if (Array.isArray(value)) return value.map(copied);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copied(item)]));
}
