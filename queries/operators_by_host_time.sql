-- Operators by host time
--
-- Answers: which operators cost the host most, without what they call?
-- Read: on a launch-bound job these operators keep the GPU waiting; on a CPU job they are the work. A `per_call_ns` of
--   some us is PyTorch's own overhead.
-- Columns:
--   name: operator; [no operator]: API calls outside any
--   count: calls, on all ranks
--   host_self_ns: time on the host, without nested operators and API calls
--   host_self_pct: host_self_ns, of that of all operators
--   per_call_ns: host_self_ns / count
--   api_ns: time in its own API calls (launches, copies, waits)
--   gpu_self_ns: GPU work of its own launches
-- Tables: operators_over_ranks
SELECT
    name,
    count,
    host_self_ns,
    100 * CAST(host_self_ns AS DOUBLE) / NULLIF(SUM(host_self_ns) OVER (), 0) AS host_self_pct,
    CAST(host_self_ns AS DOUBLE) / NULLIF(count, 0) AS per_call_ns,
    host_api_ns AS api_ns,
    gpu_self_ns
FROM operators_over_ranks
WHERE scope = 'capture' AND (host_self_ns > 0 OR host_api_ns > 0)
ORDER BY host_self_ns DESC, api_ns DESC, name;
