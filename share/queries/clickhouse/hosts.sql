-- hosts: files and rows sent, what was lost, when
-- From the ledger; lost, truncated, collided and damaged are what the files say.
SELECT host, uniqExact(batch) AS files, sum(rows) AS samples, sum(lost) AS lost_events, sum(truncated) AS truncated_buffers,
       sum(collided) AS collisions, sum(damaged) AS damaged_places, uniqExact(boot) AS boots, min(first) AS begin, max(until) AS end
FROM (SELECT batch, part, any(host) AS host, any(boot) AS boot, max(rows) AS rows, max(lost) AS lost, max(truncated) AS truncated,
             max(collided) AS collided, max(damaged) AS damaged, min(first) AS first, max(until) AS until FROM batches GROUP BY batch, part)
GROUP BY host
ORDER BY samples DESC, host
