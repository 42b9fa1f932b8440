-- Communication kernels that stay exposed
--
-- Answers: which communication runs while no compute runs?
-- Read: a `covered_pct` near 100 means the communication is well hidden. Exposed communication can be started earlier,
--   made smaller, or moved to its own stream. Only communication on the GPU has rows here.
-- Columns:
--   kind: kind of collective
--   process_group: process group, where recorded
--   size_bytes: message size, where recorded
--   count: calls on all ranks
--   gpu_ns: their summed duration
--   exposed_ns: the part of gpu_ns in which no compute runs on the device
--   covered_pct: the part of gpu_ns in which compute runs on the device
-- Tables: overlap_kernels
SELECT
    kind,
    process_group,
    size_bytes,
    COUNT(*) AS count,
    CAST(SUM(dur_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(exposed_ns) AS BIGINT) AS exposed_ns,
    100 * CAST(SUM(covered_ns) AS DOUBLE) / NULLIF(SUM(dur_ns), 0) AS covered_pct
FROM overlap_kernels
GROUP BY kind, process_group, size_bytes
ORDER BY exposed_ns DESC, gpu_ns DESC, kind, process_group NULLS LAST, size_bytes NULLS LAST;
