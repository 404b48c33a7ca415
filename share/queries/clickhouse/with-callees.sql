-- functions with all that they call: samples in them, and in them and below (spex record -g)
-- A function counts once for a sample, however often it stands in its stack.
SELECT function AS symbol, sum(self) AS self_samples, sum(total) AS total_samples
FROM
(
    SELECT arrayJoin(arrayDistinct(arrayConcat([leaf], callers))) AS function, if(function = leaf, n, 0) AS self, n AS total
    FROM
    (
        SELECT ifNull(symbol, '') AS leaf, ifNull(stack, 0) AS stack_id, count() AS n
        FROM samples
        WHERE {where}
        GROUP BY leaf, stack_id
    ) AS s
    ANY LEFT JOIN
    (
        SELECT stack AS stack_id, groupUniqArray(ifNull(symbol, '')) AS callers
        FROM (SELECT stack, symbol, host, until AS wall FROM stacks)
        WHERE {where}
        GROUP BY stack_id
    ) AS c
    USING stack_id
)
WHERE function != ''
GROUP BY function
ORDER BY total_samples DESC, symbol
