-- What the way of copying costs
--
-- Answers: how much time goes to pageable, synchronous and small copies, and to synchronizing calls?
-- Read: `no_kernel_ns` is the part in which no kernel ran: what a repair can win at most. A copy may break several
--   rules.
-- Columns:
--   rule: pageable_copy, synchronous_copy, synchronous_set, synchronize_call or small_copy
--   rank_count: ranks with such copies or calls
--   count: copies, sets or calls
--   size_bytes: their size, where known
--   call_ns: some of their calls is open, summed over ranks
--   copy_ns: some of the copies runs, summed over ranks
--   no_kernel_ns: either, while no kernel runs
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
