-- Time in the data loader
--
-- Answers: how long does each step wait for its batch?
-- Read: the time that the host spends in `next(loader)`. It costs only where the GPU has run out of work meanwhile: see
--   the `data_loader` rows of `idle_causes`. More workers or prefetching hide it.
-- Columns:
--   rank: rank
--   name: annotation of the loader
--   count: batches
--   total_ns: summed time in it
--   mean_ns: mean time per batch
--   max_ns: longest
--   max_step: index of the step with the longest; ties: the first
--   capture_pct: total_ns, of the rank's capture
-- Tables: call_tree, ranks
WITH loads AS (
    SELECT rank, step, name, dur_ns
    FROM call_tree
    WHERE kind = 'annotation' AND name LIKE '%DataLoader%' AND name LIKE 'enumerate%'
),
sums AS (
    SELECT
        rank,
        name,
        COUNT(*) AS count,
        CAST(SUM(dur_ns) AS BIGINT) AS total_ns,
        AVG(dur_ns) AS mean_ns,
        MAX(dur_ns) AS max_ns
    FROM loads
    GROUP BY rank, name
),
longest AS (
    SELECT l.rank AS rank, l.name AS name, MIN(l.step) AS max_step
    FROM loads AS l
    INNER JOIN sums AS s ON s.rank = l.rank AND s.name = l.name AND s.max_ns = l.dur_ns
    GROUP BY l.rank, l.name
)
SELECT
    s.rank AS rank,
    s.name AS name,
    s.count AS count,
    s.total_ns AS total_ns,
    s.mean_ns AS mean_ns,
    s.max_ns AS max_ns,
    m.max_step AS max_step,
    100 * CAST(s.total_ns AS DOUBLE) / NULLIF(r.last_ts_ns - r.first_ts_ns, 0) AS capture_pct
FROM sums AS s
INNER JOIN longest AS m ON m.rank = s.rank AND m.name = s.name
INNER JOIN ranks AS r ON r.rank = s.rank
ORDER BY total_ns DESC, rank, name;
