-- Waiting and transfer by rank
--
-- Answers: which rank waits in collectives, and which rank do the others wait for?
-- Read: the rank that waits least and arrives last most often is the late one.
-- Columns:
--   rank: rank
--   count: calls
--   dur_ns: summed length of the calls
--   wait_ns: the part of dur_ns spent waiting for other ranks; null if no call was matched
--   transfer_ns: the part of dur_ns spent in transfer; null if no call was matched
--   unmatched_ns: the part of dur_ns in calls without a partner on another rank
--   wait_pct: wait_ns in % of the length of the calls that other ranks matched
--   last_count: collectives in which this rank arrived last
-- Tables: collective_ranks
SELECT
    rank,
    CAST(SUM(count) AS BIGINT) AS count,
    CAST(SUM(dur_sum_ns) AS BIGINT) AS dur_ns,
    CAST(CASE WHEN SUM(count) > SUM(unmatched_count) THEN SUM(wait_sum_ns) END AS BIGINT) AS wait_ns,
    CAST(CASE WHEN SUM(count) > SUM(unmatched_count) THEN SUM(transfer_sum_ns) END AS BIGINT) AS transfer_ns,
    CAST(SUM(unmatched_sum_ns) AS BIGINT) AS unmatched_ns,
    100 * CAST(SUM(wait_sum_ns) AS DOUBLE) / NULLIF(SUM(dur_sum_ns) - SUM(unmatched_sum_ns), 0) AS wait_pct,
    CAST(SUM(last_count) AS BIGINT) AS last_count
FROM collective_ranks
GROUP BY rank
ORDER BY wait_ns NULLS LAST, rank;
