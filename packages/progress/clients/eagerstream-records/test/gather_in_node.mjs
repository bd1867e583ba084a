import * as records from "eagerstream-records";
import { gather } from "./gather.mjs";

const [url, options] = process.argv.slice(2);
console.log(JSON.stringify(await gather(records, url, JSON.parse(options))));
