-- The critical path by class
--
-- Answers: what makes up the length of a step, along the chain of work and waiting from its start to its end?
-- Read: only what lies on the critical path can shorten the step. `work_ns` is time in which something runs,
--   `overhead_ns` time on edges that only order events (waiting).
-- Columns:
--   rank: rank
--   window: kind of window
--   class: kind of time
--   work_ns: on edges that stand for work
--   overhead_ns: on edges that only order events
--   window_pct: work_ns + overhead_ns, of the window
--   top_name: event with the largest share of this time
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
