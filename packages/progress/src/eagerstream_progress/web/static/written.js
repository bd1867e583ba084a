// Exact forms of values: no number is rounded, and the value that a person approves is shown completely.

import { ExactNumber } from "./records.js";

// A value other than a container or a text, with all its digits.
export function literal(value) {
  if (value instanceof ExactNumber) return value.digits;
  return Object.is(value, -0) ? "-0" : (JSON.stringify(value) ?? "");
}

// Characters that are invisible, change the writing direction, or look like a space but are not.
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\u2800]|(?! )\p{Zs}/gu;

// A text in quotes. Each text has its own form: two different texts look different, unlike with `visible`.
export function quoted(text, indent = "") {
  const shown = JSON.stringify(text).replace(UNSEEN, (character) =>
    character.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`));
  // A line break is shown as its escape; the break after it is only for the reader.
  return shown.replace(/\\(.)/g, (escape, letter, place) => (letter === "n" && place < shown.length - 3 ? `${escape}\n${indent}` : escape));
}

const MOST_INDENT = 16; // spaces: an input may be deep, and each line has them

const AGAIN = " /* repeated key: only the last one counts */";

// JSON text, indented and complete: numbers, the order of keys and repeated keys stay as they were written.
export function indented(text) {
  const out = [];
  let depth = 0;
  const indent = () => " ".repeat(Math.min(2 * depth, MOST_INDENT));
  const open = []; // the names in each open container so far; null for an array
  let last = null; // the newest string
  let place = 0;
  while (place < text.length) {
    const character = text[place];
    if (/\s/.test(character)) {
      place++;
    } else if (character === '"') {
      const end = stringEnd(text, place);
      last = string(text.slice(place, end), `${indent()}  `);
      out.push(last);
      place = end;
    } else if (character === "{" || character === "[") {
      const closing = /\s*[\]}]/y;
      closing.lastIndex = place + 1;
      if (closing.test(text)) {
        out.push(character, character === "{" ? "}" : "]");
        place = closing.lastIndex;
      } else {
        depth++;
        open.push(character === "{" ? new Set() : null);
        out.push(character, `\n${indent()}`);
        place++;
      }
    } else if (character === "}" || character === "]") {
      depth = Math.max(0, depth - 1);
      open.pop();
      out.push(`\n${indent()}`, character);
      place++;
    } else if (character === ",") {
      // The items of an array share lines, except containers.
      const next = /\s*([[{])?/y;
      next.lastIndex = ++place;
      const isApart = open.at(-1) !== null || next.exec(text)[1];
      out.push(isApart ? `,\n${indent()}` : ", ");
    } else if (character === ":") {
      const names = open.at(-1);
      out.push(names?.has(last) ? AGAIN : "", ": ");
      names?.add(last);
      place++;
    } else {
      const word = /[^\s"[\]{},:]+/y;
      word.lastIndex = place;
      const found = word.exec(text)[0];
      out.push(quoted(found).slice(1, -1), rounding(found));
      place = word.lastIndex;
    }
  }
  return out.join("");
}

const MOST_DIGITS = 400; // to compare

// A note for a number that the tool gets rounded: with a fraction or an exponent it becomes a double there, too.
function rounding(word) {
  if (!/^-?[0-9]/.test(word) || !/[.eE]/.test(word)) return "";
  const got = String(Number(word));
  return word.length < MOST_DIGITS && decimal(got) === decimal(word) ? "" : ` /* the tool gets ${got} */`;
}

// The normal form of a decimal number; null if the text is not one.
function decimal(text) {
  const found = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(text);
  if (!found) return null;
  const [, sign, whole, fraction = "", exponent = "0"] = found;
  const digits = (whole + fraction).replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  if (kept === "") return "0";
  return `${sign}${kept}e${BigInt(exponent) + BigInt(digits.length - kept.length - fraction.length)}`;
}

function stringEnd(text, start) {
  const next = /["\\]/g;
  next.lastIndex = start + 1;
  for (let found = next.exec(text); found; found = next.exec(text)) {
    if (found[0] === '"') return next.lastIndex;
    next.lastIndex++; // the escaped character
  }
  return text.length;
}

function string(token, indent) {
  try {
    return quoted(JSON.parse(token), indent);
  } catch {
    return quoted(token, indent); // cut off
  }
}
