-- Casts, transposes and copies by operator
--
-- Answers: how much time do casts, transposes, `.contiguous()` and `cat` take, and who asks for them?
-- Read: a cast in every step is a tensor of the wrong type; transposes around convolutions go away with
--   `memory_format=torch.channels_last`.
-- Columns:
--   op: operator that launched it
--   direction: forward, backward, recompute or optimizer
--   count: kernels, on all ranks
--   gpu_ns: summed duration
--   traffic_bytes: known traffic
--   tb_per_s: traffic_bytes / gpu_ns of those with known bytes
-- Tables: kernels
SELECT
    op,
    direction,
    COUNT(*) AS count,
    CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(bytes) AS BIGINT) AS traffic_bytes,
    CAST(SUM(bytes) AS DOUBLE) / SUM(CASE WHEN bytes IS NOT NULL THEN dur_ns END) / 1000 AS tb_per_s
FROM kernels
WHERE category = 'layout'
GROUP BY op, direction
ORDER BY gpu_ns DESC, op NULLS LAST, direction NULLS LAST;
