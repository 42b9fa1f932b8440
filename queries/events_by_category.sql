-- Events by category
--
-- Answers: what did the profiler record, and how much of it?
-- Read: a missing category was not recorded: without `cuda_runtime` there are no launches, without `python_function` no
--   Python stacks. Millions of Python frames make traces large: record with `with_stack=False`, or load with `--skip
--   python_function`.
-- Columns:
--   class: meaning of the category, common to all profiler versions and vendors
--   category: category as the file spells it
--   rank_count: ranks with such events
--   count: events, on all ranks
--   total_ns: summed length; nested events each count in full
--   mean_ns: mean length
-- Tables: events
SELECT
    class,
    category,
    COUNT(DISTINCT rank) AS rank_count,
    COUNT(*) AS count,
    CAST(SUM(dur_ns) AS BIGINT) AS total_ns,
    AVG(dur_ns) AS mean_ns
FROM events
GROUP BY class, category
ORDER BY count DESC, class, category NULLS LAST;
