-- Source lines whose time differs between ranks
--
-- Answers: which line of my code takes longer on one rank than on the others?
-- Read: the line that makes a rank slow is long on that rank only; lines in which the others wait for it (backward,
--   collectives) are short on that rank. A rank without the line is not counted as 0 here.
-- Columns:
--   file: path of the file
--   line: line of the calls; of a function, where it is defined
--   function: null for a line
--   rank_count: ranks with the line
--   slowest_rank: rank with the most own time; ties: the lowest
--   max_ns: own time on that rank
--   min_ns: on the rank with least
--   median_ns: median over the ranks with the line
--   extra_ns: max_ns - median_ns
-- Tables: lines
WITH sums AS (
    SELECT rank, file, line, function, CAST(SUM(host_self_ns) AS BIGINT) AS self_ns
    FROM lines
    WHERE scope = 'capture' AND NOT is_idle_thread AND level <> 'none'
    GROUP BY rank, file, line, function
),
places AS (
    SELECT
        file,
        line,
        function,
        COUNT(*) AS rank_count,
        MAX(self_ns) AS max_ns,
        MIN(self_ns) AS min_ns,
        MEDIAN(self_ns) AS median_ns
    FROM sums
    GROUP BY file, line, function
)
SELECT
    p.file AS file,
    p.line AS line,
    p.function AS function,
    p.rank_count AS rank_count,
    MIN(s.rank) AS slowest_rank,
    p.max_ns AS max_ns,
    p.min_ns AS min_ns,
    p.median_ns AS median_ns,
    p.max_ns - p.median_ns AS extra_ns
FROM places AS p
INNER JOIN sums AS s
    ON s.file = p.file
    AND s.line = p.line
    AND COALESCE(s.function, '') = COALESCE(p.function, '')
    AND s.self_ns = p.max_ns
GROUP BY p.file, p.line, p.function, p.rank_count, p.max_ns, p.min_ns, p.median_ns
ORDER BY extra_ns DESC, max_ns DESC, file, line, function NULLS LAST;
