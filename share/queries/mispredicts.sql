-- mispredicted branches by where they went
-- The same by branch: spex branch; it lists targets of indirect branches only.
SELECT printf('0x%x', pc) AS branch, symbol, file, line, op, printf('0x%x', target) AS target, count(*) AS samples,
       count(*) FILTER (ev_mispredicted) AS mispredicts, round(mispredicts / count(*), 4) AS ratio
FROM samples
WHERE kind = 'branch'
GROUP BY pc, symbol, file, line, op, target
HAVING mispredicts > 0
ORDER BY mispredicts DESC, samples DESC, branch, target
