-- cache lines of which two threads use different words, one of them writing
-- Each word that a thread uses is joined with the words of other threads in the same line. spex c2c finds these lines, too, and
-- weighs them by how often accesses conflict in time. Lines are told apart by physical address where records have one.
WITH uses AS (
    SELECT coalesce(pa, va) >> 6 AS line, pa IS NULL AS virtual, CASE WHEN pa IS NULL THEN pid END AS space,
           tid, va & 63 AS word, min(va >> 6 << 6) AS address, count(*) AS samples,
           count(*) FILTER (kind IN ('load', 'atomic')) AS loads, count(*) FILTER (kind IN ('store', 'atomic')) AS stores
    FROM samples
    WHERE va IS NOT NULL AND source IS NOT NULL
    GROUP BY ALL
), shared AS (
    SELECT DISTINCT a.line, a.virtual, a.space
    FROM uses a JOIN uses b ON a.line = b.line AND a.virtual = b.virtual AND a.space IS NOT DISTINCT FROM b.space
    WHERE a.tid < b.tid AND a.word <> b.word AND (a.stores > 0 OR b.stores > 0)
)
SELECT printf('0x%x', min(address)) AS line, sum(samples)::BIGINT AS samples, sum(loads)::BIGINT AS loads,
       sum(stores)::BIGINT AS stores, count(DISTINCT tid) AS threads,
       count(DISTINCT tid) FILTER (stores > 0) AS writers, count(DISTINCT word) AS words
FROM uses JOIN shared USING (line, virtual) -- the same space as well:
WHERE uses.space IS NOT DISTINCT FROM shared.space
GROUP BY uses.line, uses.virtual, uses.space
ORDER BY samples DESC, line
