-- GPU time by category of kernels and direction
--
-- Answers: how much of the GPU's time do products, attention, norms, element-wise kernels and data movement take, and
--   in which part of the step?
-- Read: `layout` and `elementwise` are what fusion removes; `recompute` is work repeated for the backward pass. Rows
--   without a direction were launched outside any operator, or their launch is unknown.
-- Columns:
--   category: what the kernels do; `hta explain kernels`
--   direction: forward, backward, recompute or optimizer
--   count: kernels, copies and sets, on all ranks
--   gpu_ns: their summed duration
--   time_pct: of the summed durations of all
-- Tables: kernels
WITH sums AS (
    SELECT category, direction, COUNT(*) AS count, CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns
    FROM kernels
    GROUP BY category, direction
)
SELECT
    category,
    direction,
    count,
    gpu_ns,
    100 * CAST(gpu_ns AS DOUBLE) / SUM(gpu_ns) OVER () AS time_pct
FROM sums
ORDER BY gpu_ns DESC, category, direction NULLS LAST;
