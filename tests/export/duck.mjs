// Answers of DuckDB, one JSON array of rows a line: duck.mjs QUERY...
const { DuckDBInstance } = await import(process.env.SPEX_FEEDS + "/node_modules/@duckdb/node-api/lib/index.js");
const connection = await (await DuckDBInstance.create(":memory:")).connect();
for (const query of process.argv.slice(2))
    console.log(JSON.stringify((await connection.runAndReadAll(query)).getRowObjectsJson()));
