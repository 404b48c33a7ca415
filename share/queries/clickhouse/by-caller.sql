-- functions by who called them, of profiles with call stacks (spex record -g)
-- depth 1 of a stack is the call of the function itself.
SELECT symbol, caller, sum(n) AS samples, round(sum(spent) / 1e9, 3) AS time_ms,
       quantileExactWeightedMerge(0.95)(levels) AS p95
FROM
(
    SELECT symbol, ifNull(stack, 0) AS stack_id, count() AS n, sum(toFloat64(estimated_time)) AS spent,
           quantileExactWeightedState(0.95)(ifNull(latency, 0), toUInt8(isNotNull(latency))) AS levels
    FROM samples
    WHERE {where}
    GROUP BY symbol, stack_id
) AS s
ANY LEFT JOIN
(
    SELECT stack AS stack_id, any(symbol) AS caller
    FROM (SELECT stack, symbol, host, until AS wall FROM stacks WHERE depth = 1)
    WHERE {where}
    GROUP BY stack_id
) AS c
USING stack_id
GROUP BY symbol, caller
ORDER BY samples DESC, symbol, caller
