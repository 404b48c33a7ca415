// What Polars reads of a Parquet file: a line of JSON for each row, 64-bit numbers as text.
const pl = (await import(process.env.SPEX_FEEDS + "/node_modules/nodejs-polars/bin/index.js")).default;
const wide = v => (typeof v === "bigint" ? String(v) : v);
for (const row of pl.readParquet(process.argv[2]).toRecords())
    console.log(JSON.stringify(row, (_, v) => wide(v)));
