-- What sqlite3 does while it is recorded: inserts, an index, joins, sorting, text.
CREATE TABLE part(id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, price REAL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, part INTEGER, day INTEGER, count INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO part SELECT i, i * 7919 % 23, 'part ' || (i * 2654435761 % 100003), (i * 37 % 1000) / 7.0 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
INSERT INTO sale SELECT i, 1 + i * 7907 % 2000, i * 31 % 365, 1 + i % 9 FROM n;
CREATE INDEX sale_part ON sale(part, day);
SELECT kind, count(*), sum(count), round(sum(count * price), 2) FROM sale JOIN part ON part.id = sale.part GROUP BY kind ORDER BY 4 DESC;
SELECT name, sum(count) AS c FROM part JOIN sale ON sale.part = part.id WHERE name LIKE '%77%' GROUP BY part.id ORDER BY c DESC, name LIMIT 10;
SELECT day / 30 AS month, max(n) FROM (SELECT day, part, sum(count) AS n FROM sale GROUP BY day, part) GROUP BY month;
UPDATE sale SET count = count + 1 WHERE part IN (SELECT id FROM part WHERE kind < 5);
SELECT sum(count), count(DISTINCT day) FROM sale WHERE day BETWEEN 100 AND 200;
SELECT a.kind, count(*) FROM part a JOIN part b ON b.kind = a.kind AND b.price > a.price WHERE a.id < 200 GROUP BY a.kind;
