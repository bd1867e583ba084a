// The sizes that the README states. A page loads them before it shows anything.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const ROOT = fileURLToPath(new URL("../", import.meta.url));

function gzipped(contents) {
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: ROOT }, bundle: true, minify: true, format: "esm", external: ["react"], write: false,
  });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

test("a page gets no more than it needs", () => {
  const sizes = {
    hook: gzipped('export { useRun } from "eagerstream-records/react"'),
    all: gzipped('export * from "eagerstream-records"; export * from "eagerstream-records/react"'),
    small: gzipped('export { applyPatch, follow, parse } from "eagerstream-records"'),
  };
  assert.ok(sizes.hook <= 7000, JSON.stringify(sizes));
  const stated = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, all, hook, small] = /Everything is ([\d.]+) kB .*? what `useRun` needs is ([\d.]+) kB, and .*? alone are ([\d.]+) kB/.exec(stated);
  assert.deepEqual({ hook, all, small }, Object.fromEntries(Object.entries(sizes).map(([name, bytes]) => [name, (bytes / 1000).toFixed(1)])));
});
