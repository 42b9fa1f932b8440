-- Why slow steps are slow
--
-- Answers: what does a slow step have more of than the rank's median step?
-- Read: `largest` is the class that grew most. If it is idle, `what` is what the host did meanwhile; otherwise it is
--   the kernel, copy or collective that grew most. No rows: no step was slow (see `hta explain steps`).
-- Columns:
--   rank: rank
--   step_label: number in the step's name
--   step: index of the step, in order of time
--   diff_ns: how much longer than the median step
--   largest: compute, exposed_communication, copies, idle or fused
--   what: what grew most in that class
--   what_ns: how much it grew
-- Tables: slow_steps
SELECT
    rank,
    step_label,
    step,
    diff_ns,
    largest,
    CASE WHEN largest = 'idle' THEN host_name ELSE work_name END AS what,
    CASE WHEN largest = 'idle' THEN host_diff_ns ELSE work_diff_ns END AS what_ns
FROM slow_steps
WHERE diff_ns > 0
ORDER BY diff_ns DESC, rank, step, device NULLS LAST;
