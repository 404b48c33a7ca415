-- functions: samples, time, latency, misses
-- The same as: spex report.
SELECT symbol, dso, count(*) AS samples, round(sum(estimated_time) / 1e9, 3) AS time_ms,
       quantile_disc(latency, 0.5) AS p50, quantile_disc(latency, 0.95) AS p95,
       count(*) FILTER (ev_l1d_miss) AS l1d_misses, count(*) FILTER (ev_mispredicted) AS mispredicts
FROM samples
GROUP BY symbol, dso
ORDER BY time_ms DESC NULLS LAST, samples DESC, symbol, dso
