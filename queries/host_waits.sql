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
-- Tables: stack_anomalies_over_ranks
SELECT
    kind,
    name,
    rank_count,
    count,
    host_ns,
    CAST(host_ns AS DOUBLE) / count AS mean_ns,
    gpu_ns,
    first_stack
FROM stack_anomalies_over_ranks
ORDER BY host_ns DESC, kind, name;
