-- The critical path by class
--
-- Answers: what is the length of a step made of, on the chain of work and waiting from its start to its end?
-- Read: only what lies on the path can shorten the step. Work is running; overhead is waiting and ordering.
-- Columns:
--   rank: rank
--   window: what the window is
--   class: what the time was
--   work_ns: on edges that work
--   overhead_ns: on edges that only order
--   window_pct: both, of the window
--   top_name: event with most of the time
-- Tables: critical_path_summary
SELECT
    rank,
    "window",
    class,
    work_ns,
    overhead_ns,
    window_pct,
    top_name
FROM critical_path_summary
ORDER BY rank, work_ns + overhead_ns DESC, class;
