-- Kernels shorter than 10 us, by name
--
-- Answers: which kernels are so short that launching them costs as much as running them?
-- Read: many short kernels of one name are candidates for a fused kernel, a CUDA graph or a larger batch. `launch_ns`
--   is what their launch calls cost the host; where it is larger than `gpu_ns` the host was the slower side.
-- Columns:
--   name: full name
--   count: how many of them, on all ranks
--   gpu_ns: their summed duration
--   mean_ns: their mean duration
--   launch_ns: summed length of their launch calls; a call that starts several kernels counts for each
--   all_pct: of all kernels of this name, those that are short
-- Tables: kernels
WITH names AS (
    SELECT
        name,
        COUNT(*) AS all_count,
        SUM(CASE WHEN dur_ns < 10000 THEN 1 ELSE 0 END) AS short_count,
        SUM(CASE WHEN dur_ns < 10000 THEN dur_ns ELSE 0 END) AS gpu_ns,
        SUM(CASE WHEN dur_ns < 10000 THEN launch_dur_ns END) AS launch_ns
    FROM kernels
    WHERE class = 'compute'
    GROUP BY name
)
SELECT
    name,
    CAST(short_count AS BIGINT) AS count,
    CAST(gpu_ns AS BIGINT) AS gpu_ns,
    CAST(gpu_ns AS DOUBLE) / short_count AS mean_ns,
    CAST(launch_ns AS BIGINT) AS launch_ns,
    100 * CAST(short_count AS DOUBLE) / all_count AS all_pct
FROM names
WHERE short_count > 0
ORDER BY count DESC, gpu_ns DESC, name;
