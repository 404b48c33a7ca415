-- total latency minute by minute: samples, median, 95th and 99th percentile
-- Minutes of the day, in UTC, where the same question to a file has those of perf's clock.
SELECT toStartOfMinute(wall) AS minute, count() AS samples,
       quantileExactWeighted(0.5)(latency, 1) AS p50, quantileExactWeighted(0.95)(latency, 1) AS p95,
       quantileExactWeighted(0.99)(latency, 1) AS p99
FROM samples
WHERE {where} AND isNotNull(time) AND isNotNull(latency)
GROUP BY minute
ORDER BY minute
