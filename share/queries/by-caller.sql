-- functions by who called them, of profiles with call stacks (spex record -g)
-- The same as: spex report --sort symbol,caller. depth 1 of a stack is the call of the function itself.
SELECT s.symbol, c.symbol AS caller, count(*) AS samples, round(sum(s.estimated_time) / 1e9, 3) AS time_ms,
       quantile_disc(s.latency, 0.95) AS p95
FROM samples s LEFT JOIN (SELECT DISTINCT stack, symbol FROM stacks WHERE depth = 1) c USING (stack)
GROUP BY s.symbol, c.symbol
ORDER BY samples DESC, s.symbol, caller
