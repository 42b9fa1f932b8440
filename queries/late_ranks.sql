-- Late ranks by step
--
-- Answers: in which step did which rank come late, and what did that cost the other ranks?
-- Read: `gain_ns` is how much shorter the step would be without the delay: the last minus the second last arrival, at
--   most the rank's own excess. A rank with a large excess and no gain is hidden behind a later one.
-- Columns:
--   step_label: number in the step's name
--   step: index of the step, for steps without a number
--   rank: rank
--   gain_ns: what fixing this delay alone would gain
--   excess_ns: how much longer it worked than the median of the others
--   last_count: collectives in which it arrived last
--   collective_count: collectives
--   imposed_wait_ns: waiting of the others in collectives where it arrived last
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
