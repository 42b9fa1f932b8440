-- Cost of pageable, synchronous and small copies
--
-- Answers: how much time goes to pageable, synchronous and small copies, and to synchronizing calls?
-- Read: `no_kernel_ns` is the part in which no kernel ran: the most that a fix can gain. One copy may break several
--   rules.
-- Columns:
--   rule: pageable_copy, synchronous_copy, synchronous_set, synchronize_call or small_copy
--   rank_count: ranks with such copies or calls
--   count: copies, sets or calls
--   size_bytes: their size, where known
--   call_ns: time in which at least one of their calls is open, summed over ranks
--   copy_ns: time in which at least one of the copies runs, summed over ranks
--   no_kernel_ns: time in which one of these calls or copies runs and no kernel does
-- Tables: memory_copy_rules
SELECT
    rule,
    COUNT(DISTINCT rank) AS rank_count,
    CAST(SUM(count) AS BIGINT) AS count,
    CAST(SUM(size_bytes) AS BIGINT) AS size_bytes,
    CAST(SUM(call_ns) AS BIGINT) AS call_ns,
    CAST(SUM(busy_ns) AS BIGINT) AS copy_ns,
    CAST(SUM(no_kernel_ns) AS BIGINT) AS no_kernel_ns
FROM memory_copy_rules
WHERE scope = 'capture' AND count > 0
GROUP BY rule
ORDER BY no_kernel_ns DESC, rule;
