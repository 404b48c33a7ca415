-- mispredicted branches by where they went
-- Addresses of a program that is loaded elsewhere on each host are those of each host: build_id and address are the same everywhere.
SELECT concat('0x', replaceRegexpOne(lower(hex(pc)), '^0', '')) AS branch, symbol, file, line, op,
       concat('0x', replaceRegexpOne(lower(hex(target)), '^0', '')) AS target_address, count() AS samples,
       countIf(ifNull(bitAnd(event_bits, 128), 0) != 0) AS mispredicts, round(mispredicts / count(), 4) AS ratio
FROM samples
WHERE {where} AND kind = 'branch'
GROUP BY pc, symbol, file, line, op, target
HAVING mispredicts > 0
ORDER BY mispredicts DESC, samples DESC, branch, target_address
