-- source lines by where their data came from: which line waits for which memory
-- Latencies are cycles, percentiles by nearest rank.
SELECT file, line, source, count() AS samples, sum(latency) AS cycles,
       quantileExactWeighted(0.5)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS p50,
       quantileExactWeighted(0.95)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS p95,
       quantileExactWeighted(0.99)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS p99
FROM samples
WHERE {where} AND isNotNull(source) -- loads, stores, atomics
GROUP BY file, line, source
ORDER BY cycles DESC, samples DESC, file, line, source
