-- total latency minute by minute: samples, median, 95th and 99th percentile
-- Minutes of perf's clock. The same for one of them: spex report --time START,STOP.
SELECT time // 60000000000 AS minute, count(*) AS samples,
       quantile_disc(latency, 0.5) AS p50, quantile_disc(latency, 0.95) AS p95, quantile_disc(latency, 0.99) AS p99
FROM samples
WHERE time IS NOT NULL AND latency IS NOT NULL
GROUP BY minute
ORDER BY minute
