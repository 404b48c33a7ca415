-- functions with all that they call: samples in them, and in them and below (spex record -g)
-- The same as: spex report -g, by name. A function counts once for a sample, however often it stands in its stack.
WITH leaves AS (
    SELECT symbol, stack, count(*) AS n FROM samples GROUP BY symbol, stack
), frames AS (
    SELECT DISTINCT stack, symbol FROM stacks
), inside AS (
    SELECT symbol, n AS self, n AS total FROM leaves
    UNION ALL
    SELECT f.symbol, 0, l.n FROM leaves l JOIN frames f USING (stack) WHERE f.symbol IS DISTINCT FROM l.symbol
)
SELECT symbol, sum(self)::BIGINT AS self_samples, sum(total)::BIGINT AS total_samples
FROM inside
WHERE symbol IS NOT NULL
GROUP BY symbol
ORDER BY total_samples DESC, symbol
