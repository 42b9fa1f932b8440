-- Launch overhead by operator
--
-- Answers: which operators spend more on launching than the GPU does on running?
-- Read: a `cpu_to_gpu_ratio` above 1 means that the host is the slower side: launching takes longer than the GPU work.
--   `idle_ns` is the part of the calls in which the device was idle: the time that launching really costs. CUDA graphs,
--   torch.compile or fused operators launch less.
-- Columns:
--   op: innermost operator around the launch; null: none
--   count: launch calls, on all ranks
--   cpu_ns: summed length of the calls
--   gpu_ns: summed length of the GPU work that they started
--   cpu_to_gpu_ratio: cpu_ns / gpu_ns
--   short_pct: of the calls, those whose GPU work was shorter than the call
--   idle_ns: the part of the calls in which the device was idle
--   mean_delay_ns: mean time from the end of the call to the first start
-- Tables: launches
SELECT
    op,
    COUNT(*) AS count,
    CAST(SUM(cpu_dur_ns) AS BIGINT) AS cpu_ns,
    CAST(SUM(gpu_dur_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(cpu_dur_ns) AS DOUBLE) / NULLIF(SUM(gpu_dur_ns), 0) AS cpu_to_gpu_ratio,
    100 * CAST(SUM(CASE WHEN is_short THEN 1 ELSE 0 END) AS DOUBLE) / COUNT(*) AS short_pct,
    CAST(SUM(idle_ns) AS BIGINT) AS idle_ns,
    AVG(delay_ns) AS mean_delay_ns
FROM launches
GROUP BY op
ORDER BY cpu_ns DESC, op NULLS LAST;
