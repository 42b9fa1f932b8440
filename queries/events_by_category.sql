-- Events by category
--
-- Answers: what did the profiler record, and how much of it?
-- Read: a category that is missing was not recorded: no `cuda_runtime` means no launches, no `python_function` no
--   stacks. Millions of Python frames make traces large: `with_stack=False`, or `--skip python_function`.
-- Columns:
--   class: what the category means, across eras and vendors
--   category: as the file spells it
--   rank_count: ranks with such events
--   count: events, on all ranks
--   total_ns: summed length; nested events count for each
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
