-- Operators by GPU time
--
-- Answers: which operators launch the work that keeps the GPU busy?
-- Read: own GPU time (`gpu_self_ns`) adds up to the total; `gpu_ns` includes nested operators. `bwd_gpu_ns` is the
--   backward pass of the same operator, where it could be joined.
-- Columns:
--   name: operator; [no operator]: API calls outside any; [unlinked]: GPU work of unknown launch
--   count: calls, on all ranks
--   gpu_self_ns: GPU work of its own launches
--   gpu_self_pct: gpu_self_ns, of that of all operators
--   gpu_ns: GPU work launched in it, nested operators included
--   bwd_gpu_ns: GPU work of its backward pass
--   host_ns: time on the host, nested operators included
-- Tables: operators_over_ranks
SELECT
    name,
    count,
    gpu_self_ns,
    100 * CAST(gpu_self_ns AS DOUBLE) / NULLIF(SUM(gpu_self_ns) OVER (), 0) AS gpu_self_pct,
    gpu_ns,
    bwd_gpu_ns,
    host_ns
FROM operators_over_ranks
WHERE scope = 'capture' AND gpu_ns > 0
ORDER BY gpu_self_ns DESC, gpu_ns DESC, name;
