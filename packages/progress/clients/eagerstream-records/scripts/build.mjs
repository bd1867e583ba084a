// Builds the package into dist/, and the module of the web page of eagerstream, which the wheel contains. With
// --package, builds only the package. With --check, only compares the module with the one that is there.

import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const ROOT = new URL("../", import.meta.url);
const PAGE = new URL("../../src/eagerstream_progress/web/static/records.js", ROOT);
const HEAD = "// Built from packages/progress/clients/eagerstream-records by `npm run build`. Do not edit.\n\n";

const { outputFiles } = buildSync({
  entryPoints: [fileURLToPath(new URL("src/index.ts", ROOT))],
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  write: false,
});
const page = HEAD + outputFiles[0].text.replace(/^\/\/ src\/.*\n/gm, "");

const isNew = !existsSync(PAGE) || readFileSync(PAGE, "utf8") !== page;

const has = (flag) => process.argv.includes(flag);

if (has("--check")) {
  if (isNew) {
    console.error("the module of the web page is not that of the package: run `npm run build`");
    process.exit(1);
  }
} else {
  rmSync(new URL("dist", ROOT), { recursive: true, force: true });
  execFileSync(process.execPath, ["node_modules/typescript/bin/tsc"], { cwd: ROOT, stdio: "inherit" });
  copyFileSync(new URL("../../LICENSE", ROOT), new URL("LICENSE", ROOT));
  if (isNew && !has("--package")) writeFileSync(PAGE, page);
}
