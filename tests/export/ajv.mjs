// Is a file of JSON what a schema says? ajv.mjs SCHEMA FILE
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const Ajv = createRequire(process.env.SPEX_FEEDS + "/node_modules/")("ajv").default;
const ajv = new Ajv({ strict: false });
const [schema, value] = process.argv.slice(2).map(name => JSON.parse(readFileSync(name)));
console.log(JSON.stringify(ajv.validate(schema, value) ? [] : ajv.errors.slice(0, 3)));
