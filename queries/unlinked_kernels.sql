-- GPU activities without a recorded launch
--
-- Answers: which kernels, copies and sets cannot be traced back to the host?
-- Read: they have no operator and no launch delay, and their step is known only by time. A few at the start were
--   launched before the recording began. If most activities are unlinked, the runtime calls were not recorded (see
--   `import_health`).
-- Columns:
--   rank: rank
--   name: full name
--   class: compute, communication or memory
--   count: activities
--   gpu_ns: their summed duration
--   rank_pct: of the summed duration of all activities of the rank
-- Tables: kernels
WITH names AS (
    SELECT
        rank,
        name,
        class,
        SUM(CASE WHEN launch_event_id IS NULL THEN 1 ELSE 0 END) AS unlinked_count,
        SUM(CASE WHEN launch_event_id IS NULL THEN dur_ns ELSE 0 END) AS unlinked_ns,
        SUM(dur_ns) AS all_ns
    FROM kernels
    GROUP BY rank, name, class
),
shares AS (
    SELECT rank, name, class, unlinked_count, unlinked_ns, SUM(all_ns) OVER (PARTITION BY rank) AS rank_ns
    FROM names
)
SELECT
    rank,
    name,
    class,
    CAST(unlinked_count AS BIGINT) AS count,
    CAST(unlinked_ns AS BIGINT) AS gpu_ns,
    100 * CAST(unlinked_ns AS DOUBLE) / NULLIF(rank_ns, 0) AS rank_pct
FROM shares
WHERE unlinked_count > 0
ORDER BY gpu_ns DESC, rank, name, class;
