import assert from "node:assert/strict";
import { test } from "node:test";
import { ExactNumber, PartialValue, PatchError, applyPatch, parse, stringify } from "eagerstream-records";

const set = (path, value) => ({ op: "add", path, value });
const append = (path, value) => ({ op: "append", path, value });

test("a value grows by patches, and the patches stay as they are", () => {
  const patches = [
    [set("", {}), set("/title", "Ha"), set("/items", [])],
    [append("/title", "rbours"), set("/items/0", { name: "a" }), append("/items/0/name", "b")],
    [set("/items/1", 7), { op: "replace", path: "/items/1", value: 75 }, set("/a~1b~0c", null)],
  ];
  const before = JSON.stringify(patches);
  for (const repetition of [1, 2]) {
    let value;
    for (const patch of patches) value = applyPatch(value, patch);
    assert.deepEqual(value, { title: "Harbours", items: [{ name: "ab" }, 75], "a/b~c": null }, `repetition ${repetition}`);
  }
  assert.equal(JSON.stringify(patches), before);
  assert.equal(applyPatch("a", [append("", "b")]), "ab");
});

test("names of JavaScript's own are names like all others", () => {
  const patch = [set("", {}), set("/__proto__", {}), set("/__proto__/polluted", 1), set("/constructor", {}), set("/constructor/prototype", { x: 1 })];
  const partial = new PartialValue();
  for (const one of patch) partial.apply([one]) ?? partial.value; // read, so that containers are copied
  for (const value of [applyPatch(null, patch), partial.value]) {
    assert.equal({}.polluted, undefined);
    assert.equal({}.x, undefined);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal(stringify(value), '{"__proto__":{"polluted":1},"constructor":{"prototype":{"x":1}}}');
  }
  assert.throws(() => applyPatch({}, [set("/toString/x", 1)]), PatchError);
  assert.throws(() => applyPatch({}, [set("/__proto__/x", 1)]), PatchError);
});

test("a patch that does not fit changes nothing outside of the data", () => {
  const bad = [
    set("/items/length", 1e9), set("/items/3", 1), set("/items/-1", 1), set("/items/01", 1), set("/items/-", 1), set("/items/1e1", 1),
    { op: "replace", path: "/items/2", value: 1 }, set("/none/x", 1), set("/text/0", 1), set("/number/x", 1), set("items", 1),
    append("/items", "x"), append("/text", 1), append("/items/2", "x"), append("/none", "x"), append("/items/length", "x"),
  ];
  for (const operation of bad) {
    const text = '{"items":[1,2],"text":"t","number":{"$number":"9007199254740993"}}';
    for (const owned of [undefined, new WeakSet()]) {
      const value = parse(text);
      assert.throws(() => applyPatch(value, [operation], owned), PatchError, JSON.stringify(operation));
      assert.equal(JSON.stringify(value), text);
    }
  }
});

test("values that were read never change, and share what did not grow", () => {
  const partial = new PartialValue();
  partial.apply([set("", { done: { a: [1] }, growing: { text: "", items: [] } })]);
  const read = [];
  const texts = [];
  for (let number = 0; number < 50; number++) {
    const value = partial.value;
    read.push(value);
    texts.push(JSON.stringify(value));
    assert.equal(partial.value, value, "nothing has changed");
    partial.apply([append("/growing/text", "x"), set(`/growing/items/${number}`, { number })]);
  }
  const last = partial.value;
  assert.deepEqual(read.map((value) => JSON.stringify(value)), texts);
  assert.equal(new Set(read).size, 50);
  for (const value of read) {
    assert.equal(value.done, last.done);
    assert.notEqual(value.growing, last.growing);
    value.growing.items.forEach((item, place) => assert.equal(item, last.growing.items[place]));
  }
});

test("between two reads, each container is copied once", () => {
  const partial = new PartialValue([]);
  const first = partial.value;
  partial.apply([set("/0", {})]);
  const copy = partial.live;
  assert.notEqual(copy, first);
  for (let number = 1; number < 1000; number++) partial.apply([set(`/${number}`, {})]);
  assert.equal(partial.live, copy);
  assert.equal(first.length, 0);
});

test("numbers keep their digits", () => {
  const text = '{"n":{"$number":"9007199254740993"},"$$number":1,"$$$number":{"$$number":2},"deep":[{"$number":"-1234567890123456789012"}]}';
  const value = parse(text);
  assert.ok(value.n instanceof ExactNumber);
  assert.equal(value.n.toBigInt(), 9007199254740993n);
  assert.equal(String(value.n), "9007199254740993");
  assert.equal(stringify(value), '{"n":9007199254740993,"$number":1,"$$number":{"$number":2},"deep":[-1234567890123456789012]}');
  assert.equal(JSON.stringify(value.n), '{"$number":"9007199254740993"}');
  for (const other of ['{"$number":1}', '{"$number":"x"}', '{"$number":"1","a":2}', '{"$number":"0x10"}', '{"$number":"007"}']) {
    assert.equal(JSON.stringify(parse(other)), other, "no number: it stays what it is");
  }
  assert.equal(stringify(-0), "-0");
});
