-- Longest gaps of devices
--
-- Answers: when did a device do nothing for longest, and what ended the gap?
-- Read: `host_wait_ns` is the part before the next activity was submitted: the host was late. A gap at the end of
--   the capture has no next activity.
-- Columns:
--   rank: rank
--   device: device index; null on a CPU-only rank
--   step: index of the step that holds its start
--   at_ns: start, since the start of the rank's capture
--   dur_ns: length
--   host_wait_ns: the next activity had not been submitted
--   kernel_wait_ns: submitted, and started soon
--   other_ns: submitted but held, or launch unknown
--   next_name: activity that ends it
-- Tables: idle_gaps, ranks
SELECT
    g.rank AS rank,
    g.device AS device,
    g.step AS step,
    g.ts_ns - r.first_ts_ns AS at_ns,
    g.dur_ns AS dur_ns,
    g.host_wait_ns AS host_wait_ns,
    g.kernel_wait_ns AS kernel_wait_ns,
    g.other_ns AS other_ns,
    g.next_name AS next_name
FROM idle_gaps AS g
INNER JOIN ranks AS r ON r.rank = g.rank
WHERE g.stream IS NULL
ORDER BY dur_ns DESC, rank, device NULLS LAST, at_ns
LIMIT 100;
