// Rows of a Parquet file as hyparquet reads them, one JSON object a line; numbers of 64 bits as strings. FILE
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const from = process.env.SPEX_FEEDS + "/node_modules/";
const { parquetReadObjects, parquetMetadata } = await import(from + "hyparquet/src/index.js");
const { compressors } = await import(from + "hyparquet-compressors/src/index.js");
const bytes = readFileSync(process.argv[2]);
const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const plain = (key, value) => typeof value === "bigint" ? value.toString() : value;
if (process.argv[3] === "--metadata") {
    console.log(JSON.stringify(parquetMetadata(file), plain));
} else {
    const rows = await parquetReadObjects({ file, compressors, utf8: true });
    console.log(rows.map(row => JSON.stringify(row, plain)).join("\n"));
}
