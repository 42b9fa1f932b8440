-- Steps by length
--
-- Answers: which steps took longest, on which rank, and what filled them?
-- Read: the four parts sum to the step. Compare with a typical step of the same rank (`to_median_ratio`);
--   `slow_step_causes` says what a slow step has more of.
-- Columns:
--   rank: rank
--   step: index of the step, in order of time
--   step_label: number in the step's name
--   dur_ns: length
--   to_median_ratio: length over the median of the rank's full steps
--   compute_ns: compute runs
--   communication_ns: communication runs and no compute
--   memory_ns: only copies or sets run
--   idle_ns: nothing runs
-- Tables: steps
SELECT
    rank,
    step,
    step_label,
    dur_ns,
    ratio_to_median AS to_median_ratio,
    compute_ns,
    exposed_communication_ns AS communication_ns,
    copies_ns AS memory_ns,
    idle_ns
FROM steps
WHERE NOT is_partial
ORDER BY dur_ns DESC, rank, step;
