-- Synchronizing calls inside steps
--
-- Answers: which calls make the host wait for the GPU in the middle of a step, and who makes them?
-- Read: each call empties the queue of launches, so the GPU idles after it. One at the end of a step is often wanted;
--   calls inside an operator come from `.item()`, printing a tensor, `nonzero`, or copies to pageable memory.
-- Columns:
--   name: the call
--   caller: operator around the call; null: none
--   rank_count: ranks that made it
--   count: calls in steps, on all ranks
--   step_count: steps with such a call, on all ranks
--   host_ns: time in the calls
--   per_step_ns: host_ns / step_count
-- Tables: call_tree
WITH calls AS (
    SELECT rank, step, name, parent, dur_ns
    FROM call_tree
    WHERE kind = 'runtime_call' AND name LIKE '%Synchronize%' AND step IS NOT NULL
),
callers AS (
    SELECT rank, event_id, name AS caller FROM call_tree WHERE kind = 'operator'
),
by_step AS (
    SELECT
        c.name AS name,
        o.caller AS caller,
        c.rank AS rank,
        c.step AS step,
        COUNT(*) AS count,
        CAST(SUM(c.dur_ns) AS BIGINT) AS host_ns
    FROM calls AS c
    LEFT JOIN callers AS o ON o.rank = c.rank AND o.event_id = c.parent
    GROUP BY c.name, o.caller, c.rank, c.step
)
SELECT
    name,
    caller,
    COUNT(DISTINCT rank) AS rank_count,
    CAST(SUM(count) AS BIGINT) AS count,
    COUNT(*) AS step_count,
    CAST(SUM(host_ns) AS BIGINT) AS host_ns,
    CAST(SUM(host_ns) AS DOUBLE) / COUNT(*) AS per_step_ns
FROM by_step
GROUP BY name, caller
ORDER BY host_ns DESC, name, caller NULLS LAST;
