-- What late ranks did
--
-- Answers: why was a rank late: which kernel, operator or function took longer than on the typical rank?
-- Read: differences between the rank and the typical rank of its group before the calls to which it came late, summed.
--   Negative differences are left out here, so rows add up to more than the lateness.
-- Columns:
--   rank: rank that was late
--   cause: kind of cause, as in `hta explain stragglers`
--   name: kernel, operator or function
--   detail: launch shape, or the frame with file and line
--   late_count: calls to which it came late for this cause
--   extra_ns: longer than on the typical rank
--   own_ns: time on this rank
--   typical_ns: time on the typical rank
-- Tables: straggler_causes
SELECT
    rank,
    cause,
    name,
    detail,
    COUNT(DISTINCT event_id) AS late_count,
    CAST(SUM(delta_ns) AS BIGINT) AS extra_ns,
    CAST(SUM(own_ns) AS BIGINT) AS own_ns,
    CAST(SUM(typical_ns) AS BIGINT) AS typical_ns
FROM straggler_causes
WHERE delta_ns > 0
GROUP BY rank, cause, name, detail
ORDER BY extra_ns DESC, rank, cause, name NULLS LAST, detail NULLS LAST;
