-- functions: samples, time, latency, misses
-- The same as: spex report --url, which reads roll-ups instead.
SELECT symbol, dso, count() AS samples, round(sum(toFloat64(estimated_time)) / 1e9, 3) AS time_ms,
       quantileExactWeighted(0.5)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS p50,
       quantileExactWeighted(0.95)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS p95,
       countIf(ifNull(bitAnd(event_bits, 8), 0) != 0) AS l1d_misses, countIf(ifNull(bitAnd(event_bits, 128), 0) != 0) AS mispredicts
FROM samples
WHERE {where}
GROUP BY symbol, dso
ORDER BY time_ms DESC, samples DESC, symbol, dso
