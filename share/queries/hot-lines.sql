-- source lines by where their data came from: which line waits for which memory
-- The same as: spex report --sort srcline,source. Latencies are cycles, percentiles by nearest rank.
SELECT file, line, source, count(*) AS samples, sum(latency) AS cycles,
       quantile_disc(latency, 0.5) AS p50, quantile_disc(latency, 0.95) AS p95, quantile_disc(latency, 0.99) AS p99
FROM samples
WHERE source IS NOT NULL  -- loads, stores, atomics
GROUP BY file, line, source
ORDER BY cycles DESC NULLS LAST, samples DESC, file, line, source
