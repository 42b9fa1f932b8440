-- Collectives by time that ranks waited in them
--
-- Answers: in which collectives do ranks wait most, and for whom?
-- Read: `skew_ns` is the time between the first and the last arrival. Look at the rank that arrived last: `late_causes`
--   says what it did before. Calls without a partner on another rank are not here (see `unmatched_collectives`).
-- Columns:
--   kind: kind of collective
--   process_group: name and members of the group
--   step_label: number in the step's name, of the rank that came last
--   size_bytes: size; the largest over members
--   member_count: ranks that recorded it
--   last_rank: rank that arrived last
--   skew_ns: last minus first arrival
--   wait_ns: waiting of all ranks, summed
--   transfer_ns: shortest transfer of any rank
-- Tables: collectives
WITH instances AS (
    SELECT
        collective,
        MIN(kind) AS kind,
        MIN(process_group) AS process_group,
        MAX(CASE WHEN rank = last_rank THEN step_label END) AS step_label,
        MAX(size_bytes) AS size_bytes,
        COUNT(*) AS member_count,
        MAX(last_rank) AS last_rank,
        MAX(arrival_ns) - MIN(arrival_ns) AS skew_ns,
        CAST(SUM(wait_ns) AS BIGINT) AS wait_ns,
        MIN(transfer_ns) AS transfer_ns
    FROM collectives
    WHERE collective IS NOT NULL
    GROUP BY collective
)
SELECT kind, process_group, step_label, size_bytes, member_count, last_rank, skew_ns, wait_ns, transfer_ns
FROM instances
ORDER BY wait_ns DESC, skew_ns DESC, collective;
