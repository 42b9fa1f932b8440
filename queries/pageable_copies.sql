-- Copies from or to pageable memory
--
-- Answers: which copies are slow, and block the host, because the host memory is not pinned?
-- Read: pin the memory (`pin_memory=True` in the DataLoader, `tensor.pin_memory()`) and copy with `non_blocking=True`.
--   `blocking_count` counts the copies whose call returned no earlier than the copy ended.
-- Columns:
--   rank: rank
--   direction: HtoD or DtoH
--   count: copies
--   per_step_count: copies per step, over the steps of the rank
--   size_bytes: summed size, where known
--   gpu_ns: summed duration
--   bandwidth_gb_per_s: size / duration
--   blocking_count: copies that blocked the host until they ended
--   call_ns: summed length of their calls
-- Tables: memory_copies, ranks
WITH copies AS (
    SELECT
        rank,
        direction,
        SUM(count) AS copies,
        SUM(size_bytes) AS size_bytes,
        SUM(dur_sum_ns) AS gpu_ns,
        SUM(sized_dur_ns) AS sized_ns,
        SUM(blocking_count) AS blocking,
        SUM(call_ns) AS call_ns
    FROM memory_copies
    WHERE scope = 'span' AND (source = 'pageable' OR target = 'pageable')
    GROUP BY rank, direction
)
SELECT
    c.rank AS rank,
    c.direction AS direction,
    CAST(c.copies AS BIGINT) AS count,
    CAST(c.copies AS DOUBLE) / NULLIF(r.step_count, 0) AS per_step_count,
    CAST(c.size_bytes AS BIGINT) AS size_bytes,
    CAST(c.gpu_ns AS BIGINT) AS gpu_ns,
    CAST(c.size_bytes AS DOUBLE) / NULLIF(c.sized_ns, 0) AS bandwidth_gb_per_s,
    CAST(c.blocking AS BIGINT) AS blocking_count,
    CAST(c.call_ns AS BIGINT) AS call_ns
FROM copies AS c
INNER JOIN ranks AS r ON r.rank = c.rank
ORDER BY gpu_ns DESC, rank, direction;
