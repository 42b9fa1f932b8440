-- Kernels that fill little of the device
--
-- Answers: which kernels with much time have few warps on each multiprocessor, and is it registers, shared memory or a
--   small grid?
-- Read: below one wave the grid is too small, whatever the limit. Low occupancy is no fault by itself: matrix kernels
--   need few warps. It matters for kernels far from both peaks (`far_from_roofline`).
-- Columns:
--   short_name: short name
--   category: what it does
--   gpu_ns: summed duration, on all ranks
--   occupancy_pct: derived occupancy, weighted by duration
--   waves: rounds in which the device runs the grid, weighted by duration
--   limiter: what limits the blocks of a multiprocessor: warps, registers, shared_memory or blocks
-- Tables: kernels_by_name
SELECT
    short_name,
    category,
    CAST(SUM(sum_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(occupancy_pct * sum_ns) AS DOUBLE) / SUM(sum_ns) AS occupancy_pct,
    CAST(SUM(waves * sum_ns) AS DOUBLE) / SUM(sum_ns) AS waves,
    MIN(occupancy_limiter) AS limiter
FROM kernels_by_name
WHERE scope = 'span' AND class = 'compute' AND occupancy_pct < 50
GROUP BY short_name, category
ORDER BY gpu_ns DESC, short_name, category;
