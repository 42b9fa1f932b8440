-- Exposed communication by process group
--
-- Answers: which process group causes communication that no compute hides, and is it waiting or transfer?
-- Read: waiting is reduced on the rank that comes late; transfer by overlap, smaller messages or a faster link. Groups
--   that communicate at the same time each count in full, so rows may add up to more than the total.
-- Columns:
--   process_group: name and members of the group
--   rank_count: ranks with calls in this group
--   waiting_ns: exposed, and every running call waits for another rank; all ranks
--   transfer_ns: exposed, and at least one running call transfers; all ranks
--   unmatched_ns: exposed, in calls without a partner on another rank; all ranks
--   exposed_ns: waiting_ns + transfer_ns + unmatched_ns
--   capture_pct: exposed_ns, of the captures of these ranks
-- Tables: sync
WITH totals AS (
    SELECT
        process_group,
        COUNT(DISTINCT rank) AS rank_count,
        CAST(SUM(waiting_ns) AS BIGINT) AS waiting_ns,
        CAST(SUM(transfer_ns) AS BIGINT) AS transfer_ns,
        CAST(SUM(unmatched_ns) AS BIGINT) AS unmatched_ns,
        CAST(SUM(dur_ns) AS BIGINT) AS capture_ns
    FROM sync
    WHERE scope = 'capture' AND process_group IS NOT NULL
    GROUP BY process_group
)
SELECT
    process_group,
    rank_count,
    waiting_ns,
    transfer_ns,
    unmatched_ns,
    waiting_ns + transfer_ns + unmatched_ns AS exposed_ns,
    100 * CAST(waiting_ns + transfer_ns + unmatched_ns AS DOUBLE) / NULLIF(capture_ns, 0) AS capture_pct
FROM totals
ORDER BY exposed_ns DESC, process_group;
