-- Kernels, copies and sets by GPU time
--
-- Answers: what do the GPUs spend their time on?
-- Read: longest first. The share of a kernel in this list limits what a faster version of it can gain. Kernels that run
--   at the same time each count in full; `hta breakdown` has the time of the device.
-- Columns:
--   name: full name
--   class: compute, communication or memory
--   count: how often it ran, on all ranks
--   gpu_ns: summed duration on all ranks
--   gpu_pct: gpu_ns, of the summed durations of all activities
--   mean_ns: mean duration
--   max_ns: longest duration
--   rank_count: ranks that ran it
-- Tables: kernels_by_name
WITH names AS (
    SELECT
        name,
        class,
        CAST(SUM(count) AS BIGINT) AS count,
        CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns,
        MAX(max_ns) AS max_ns,
        COUNT(DISTINCT rank) AS rank_count
    FROM kernels_by_name
    WHERE scope = 'span'
    GROUP BY name, class
)
SELECT
    name,
    class,
    count,
    gpu_ns,
    100 * CAST(gpu_ns AS DOUBLE) / NULLIF(SUM(gpu_ns) OVER (), 0) AS gpu_pct,
    CAST(gpu_ns AS DOUBLE) / count AS mean_ns,
    max_ns,
    rank_count
FROM names
ORDER BY gpu_ns DESC, name, class;
