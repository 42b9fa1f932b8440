-- Ranks that differ from the median rank
--
-- Answers: which rank computes, communicates or idles more than the others do?
-- Read: times are means over a rank's full steps, in whole ns; differences are to the median of all ranks. The rank
--   with more compute or idle time is late; the others show more communication, because they wait for it. Three or more
--   ranks are needed to say much.
-- Columns:
--   rank: rank
--   step_ns: mean length of its steps
--   compute_diff_ns: compute minus that of the median rank
--   communication_diff_ns: exposed communication minus that of the median rank
--   memory_diff_ns: copies and sets minus those of the median rank
--   idle_diff_ns: idle time minus that of the median rank
--   differs_ns: largest absolute value of the four differences
-- Tables: temporal_breakdown
WITH means AS (
    SELECT
        rank,
        CAST(FLOOR(AVG(dur_ns)) AS BIGINT) AS step_ns,
        CAST(FLOOR(AVG(compute_ns)) AS BIGINT) AS compute_ns,
        CAST(FLOOR(AVG(exposed_communication_ns)) AS BIGINT) AS communication_ns,
        CAST(FLOOR(AVG(copies_ns)) AS BIGINT) AS memory_ns,
        CAST(FLOOR(AVG(idle_ns)) AS BIGINT) AS idle_ns
    FROM temporal_breakdown
    WHERE scope = 'step' AND NOT is_partial
    GROUP BY rank
),
medians AS (
    SELECT
        MEDIAN(compute_ns) AS compute_ns,
        MEDIAN(communication_ns) AS communication_ns,
        MEDIAN(memory_ns) AS memory_ns,
        MEDIAN(idle_ns) AS idle_ns
    FROM means
),
diffs AS (
    SELECT
        r.rank AS rank,
        r.step_ns AS step_ns,
        r.compute_ns - m.compute_ns AS compute_diff_ns,
        r.communication_ns - m.communication_ns AS communication_diff_ns,
        r.memory_ns - m.memory_ns AS memory_diff_ns,
        r.idle_ns - m.idle_ns AS idle_diff_ns
    FROM means AS r
    CROSS JOIN medians AS m
)
SELECT
    rank,
    step_ns,
    compute_diff_ns,
    communication_diff_ns,
    memory_diff_ns,
    idle_diff_ns,
    GREATEST(ABS(compute_diff_ns), ABS(communication_diff_ns), ABS(memory_diff_ns), ABS(idle_diff_ns)) AS differs_ns
FROM diffs
ORDER BY differs_ns DESC, rank;
