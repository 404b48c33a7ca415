-- pages by the memory that answered, this node's or another's
-- A page with many samples under remote is used far from where it lies. Pages of different hosts and processes are told apart.
SELECT host, concat('0x', replaceRegexpOne(lower(hex(bitShiftLeft(bitShiftRight(ifNull(va, 0), 12), 12))), '^0', '')) AS page, count() AS samples,
       countIf(source IN ('remote', 'remote-dram')) AS remote,
       countIf(source = 'dram') AS local_dram,
       countIf(source NOT IN ('remote', 'remote-dram', 'dram', 'unknown')) AS caches,
       uniqExact(cpu) AS cpus, sum(latency) AS cycles
FROM samples
WHERE {where} AND isNotNull(va) AND isNotNull(source)
GROUP BY host, page
ORDER BY remote DESC, local_dram DESC, samples DESC, host, page
