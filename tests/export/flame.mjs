// The boxes of the picture that a flame graph tool draws of collapsed stacks, [[name, weight], ...]. flame.mjs FILE
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const { svg } = createRequire(process.env.SPEX_FEEDS + "/node_modules/")("flamegraph");
const picture = svg(readFileSync(process.argv[2], "utf8").split("\n"), { minwidth: 0 });
const boxes = [...picture.matchAll(/<title>\s*(.*?)\s*\(([\d,.]+) samples/g)];
console.log(JSON.stringify(boxes.map(box => [box[1], Number(box[2].replaceAll(",", ""))])));
