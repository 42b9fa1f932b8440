-- What was odd, corrected or lost on import
--
-- Answers: can these traces be trusted?
-- Read: `lost` and `fatal` cost events or whole files; of `corrected` the event was kept, `info` is only worth knowing.
--   `hta explain health` describes each counter.
-- Columns:
--   severity: fatal, lost, corrected or info
--   counter: name of the counter
--   file_count: files in which it occurred
--   count: occurrences
--   example: one occurrence, if one is kept
--   description: meaning of the counter
-- Tables: health
WITH counters AS (
    SELECT
        severity,
        counter,
        COUNT(*) AS file_count,
        CAST(SUM(count) AS BIGINT) AS count,
        MIN(example) AS example,
        MIN(description) AS description,
        MAX(CASE severity WHEN 'fatal' THEN 3 WHEN 'lost' THEN 2 WHEN 'corrected' THEN 1 ELSE 0 END) AS weight
    FROM health
    GROUP BY severity, counter
)
SELECT severity, counter, file_count, count, example, description
FROM counters
ORDER BY weight DESC, count DESC, counter;
