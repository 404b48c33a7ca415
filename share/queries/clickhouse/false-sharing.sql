-- cache lines of which two threads use different words, one of them writing
-- Words that threads use in a line of a host, told apart by physical address where records have one, else by process. A line counts if a
-- thread writes a word and another thread uses another one.
SELECT host, concat('0x', replaceRegexpOne(lower(hex(min(address))), '^0', '')) AS line, sum(uses) AS samples, sum(loads) AS all_loads,
       sum(stores) AS all_stores, uniqExact(tid) AS threads, uniqExactIf(tid, stores > 0) AS writers, uniqExact(word) AS words
FROM
(
    SELECT host, bitShiftRight(assumeNotNull(if(isNull(pa), va, pa)), 6) AS id, isNull(pa) AS is_virtual, if(isNull(pa), ifNull(pid, 0), 0) AS space,
           ifNull(tid, 0) AS tid, bitAnd(assumeNotNull(va), 63) AS word, min(bitShiftLeft(bitShiftRight(assumeNotNull(va), 6), 6)) AS address,
           count() AS uses, countIf(kind IN ('load', 'atomic')) AS loads, countIf(kind IN ('store', 'atomic')) AS stores
    FROM samples
    WHERE {where} AND isNotNull(va) AND isNotNull(source)
    GROUP BY host, id, is_virtual, space, tid, word
)
GROUP BY host, id, is_virtual, space
HAVING arrayExists((t, w, s) -> s > 0 AND arrayExists((t2, w2) -> t2 != t AND w2 != w, groupArray(tid), groupArray(word)),
                   groupArray(tid), groupArray(word), groupArray(stores))
ORDER BY samples DESC, host, line
