-- GPU time by class and rank
--
-- Answers: how much compute, communication and copying does each rank run?
-- Read: compare ranks within a class: more compute on one rank is uneven work; more communication is most often waiting
--   inside the collective for that rank. Durations are summed, so what runs at the same time counts twice.
-- Columns:
--   class: compute, communication or memory
--   rank: rank
--   count: activities
--   gpu_ns: their summed duration
--   rank_pct: gpu_ns, of the summed durations of the rank
--   to_mean_ratio: the rank's time over the mean of all ranks
-- Tables: kernels_by_name
WITH classes AS (
    SELECT rank, class, CAST(SUM(count) AS BIGINT) AS count, CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns
    FROM kernels_by_name
    WHERE scope = 'span'
    GROUP BY rank, class
)
SELECT
    class,
    rank,
    count,
    gpu_ns,
    100 * CAST(gpu_ns AS DOUBLE) / NULLIF(SUM(gpu_ns) OVER (PARTITION BY rank), 0) AS rank_pct,
    CAST(gpu_ns AS DOUBLE) / NULLIF(AVG(gpu_ns) OVER (PARTITION BY class), 0) AS to_mean_ratio
FROM classes
ORDER BY class, gpu_ns DESC, rank;
