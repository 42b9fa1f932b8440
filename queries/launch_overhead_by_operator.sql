-- Launch overhead by operator
--
-- Answers: which operators spend more on launching than the GPU does on running?
-- Read: `cpu_ns` over `gpu_ns` above 1 means the host is the slower side there. `idle_ns` is the part of the calls
--   in which the device did nothing: what it costs. CUDA graphs, torch.compile or fused operators launch less.
-- Columns:
--   op: innermost operator around the launch; null: none
--   count: launch calls, on all ranks
--   cpu_ns: summed length of the calls
--   gpu_ns: summed length of what they started
--   cpu_to_gpu_ratio: cpu over gpu
--   short_pct: of the calls, those whose work ran shorter than the call
--   idle_ns: part of the calls in which the device did nothing
--   mean_delay_ns: mean wait from the end of the call to the first start
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
