// Applies a patch to a partial value: "add" and "replace" of RFC 6902, and "append" to a string. Changes the value in
// place and returns it. The cost depends on the operations, not on the value.

export function applyPatch(value, operations) {
  for (const { op, path, value: operand } of operations) {
    if (path === "") {
      value = op === "append" ? value + operand : operand;
      continue;
    }
    const steps = path.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = steps.pop();
    let parent = value;
    for (const step of steps) parent = own(parent, step);
    if (op === "append") put(parent, last, own(parent, last) + operand);
    else if (op === "add" && Array.isArray(parent)) parent.splice(Number(last), 0, operand);
    else put(parent, last, operand);
  }
  return value;
}

// A model may call a field "__proto__" or "constructor": only own properties count.
function own(parent, step) {
  if (parent === null || typeof parent !== "object" || !Object.hasOwn(parent, step)) throw new Error(`no place ${step}`);
  return parent[step];
}

function put(parent, step, value) {
  if (step === "__proto__") {
    Object.defineProperty(parent, step, { value, writable: true, enumerable: true, configurable: true });
  } else parent[step] = value;
}
