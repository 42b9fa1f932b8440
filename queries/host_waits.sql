-- Calls that make host and GPU wait for each other
--
-- Answers: where does the program stop and wait: `item`, `nonzero`, pageable copies, synchronizing and allocation
--   calls?
-- Read: longest first, over the steps. `first_stack` shows the operators around the first such call.
-- Columns:
--   kind: item, nonzero, pageable_copy, synchronize or allocation
--   name: operator or API call
--   rank_count: ranks with such calls
--   count: calls, on all ranks
--   host_ns: time on the host; for a copy, the length of its launch call
--   mean_ns: host_ns / count
--   gpu_ns: GPU work launched in them
--   first_stack: operators around the first call, joined by ;
-- Tables: stack_anomalies
SELECT
    kind,
    name,
    COUNT(DISTINCT rank) AS rank_count,
    CAST(SUM(count) AS BIGINT) AS count,
    CAST(SUM(host_ns) AS BIGINT) AS host_ns,
    CAST(SUM(host_ns) AS DOUBLE) / SUM(count) AS mean_ns,
    CAST(SUM(gpu_ns) AS BIGINT) AS gpu_ns,
    MIN(first_stack) AS first_stack
FROM stack_anomalies
GROUP BY kind, name
ORDER BY host_ns DESC, kind, name;
