-- Copies by direction and size
--
-- Answers: how are copies between host and device distributed over sizes, and how fast is each size?
-- Read: thousands of copies below 64 kB cost their launches, not their bytes: combine them into one. Large ones should
--   come near the speed of the link.
-- Columns:
--   direction: HtoD, DtoH, DtoD, PtoP, HtoH, set or unknown
--   from_bytes: lower bound of the sizes, inclusive; null: size unknown
--   below_bytes: upper bound of the sizes, exclusive; null: no bound
--   count: copies, on all ranks
--   size_bytes: summed size
--   gpu_ns: summed duration
--   launch_ns: summed length of their launch calls
--   bandwidth_gb_per_s: size / duration
-- Tables: kernels
WITH copies AS (
    SELECT
        kind AS direction,
        CASE
            WHEN size_bytes IS NULL THEN NULL
            WHEN size_bytes < 4096 THEN 0
            WHEN size_bytes < 65536 THEN 4096
            WHEN size_bytes < 1048576 THEN 65536
            WHEN size_bytes < 16777216 THEN 1048576
            ELSE 16777216
        END AS from_bytes,
        CASE
            WHEN size_bytes < 4096 THEN 4096
            WHEN size_bytes < 65536 THEN 65536
            WHEN size_bytes < 1048576 THEN 1048576
            WHEN size_bytes < 16777216 THEN 16777216
        END AS below_bytes,
        size_bytes,
        dur_ns,
        launch_dur_ns
    FROM kernels
    WHERE class = 'memory'
)
SELECT
    direction,
    from_bytes,
    below_bytes,
    COUNT(*) AS count,
    CAST(SUM(size_bytes) AS BIGINT) AS size_bytes,
    CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(launch_dur_ns) AS BIGINT) AS launch_ns,
    CAST(SUM(size_bytes) AS DOUBLE) / NULLIF(SUM(dur_ns), 0) AS bandwidth_gb_per_s
FROM copies
GROUP BY direction, from_bytes, below_bytes
ORDER BY direction NULLS LAST, from_bytes NULLS LAST;
