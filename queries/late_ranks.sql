-- Late ranks by step
--
-- Answers: in which step did which rank come late, and what did that cost the others?
-- Read: `gain_ns` is what the step would have won without the delay: last minus second last arrival, no more than
--   the rank's own excess. A rank with a large excess and no gain is hidden behind a later one.
-- Columns:
--   step_label: number in the step's name
--   step: index of the step, where steps have no number
--   rank: rank
--   gain_ns: what repairing it alone would give
--   excess_ns: worked longer than the median of the others
--   last_count: collectives where it came last
--   collective_count: collectives
--   imposed_wait_ns: waiting of the others where it came last
-- Tables: straggler_delays
SELECT
    step_label,
    step,
    rank,
    gain_ns,
    excess_ns,
    last_count,
    collective_count,
    imposed_wait_ns
FROM straggler_delays
WHERE process_group IS NULL AND (gain_ns > 0 OR last_count > 0)
ORDER BY gain_ns DESC, imposed_wait_ns DESC, rank, step_label NULLS LAST, step NULLS LAST;
