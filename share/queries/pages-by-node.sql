-- pages by the memory that answered, this node's or another's
-- A page with many samples under remote is used far from where it lies. The same as the pages of spex mem, whose JSON
-- has a member for each source.
SELECT printf('0x%x', va >> 12 << 12) AS page, count(*) AS samples,
       count(*) FILTER (source IN ('remote', 'remote-dram')) AS remote,
       count(*) FILTER (source = 'dram') AS local_dram,
       count(*) FILTER (source NOT IN ('remote', 'remote-dram', 'dram', 'unknown')) AS caches,
       count(DISTINCT cpu) AS cpus, sum(latency) AS cycles
FROM samples
WHERE va IS NOT NULL AND source IS NOT NULL
GROUP BY va >> 12
ORDER BY remote DESC, local_dram DESC, samples DESC, page
