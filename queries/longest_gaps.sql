-- Longest idle gaps of devices
--
-- Answers: when was a device idle for longest, and what ended the gap?
-- Read: `host_wait_ns` is the part before the next activity was submitted: the host was late. A gap at the end of the
--   capture has no next activity.
-- Columns:
--   rank: rank
--   device: device index; null on a CPU-only rank
--   step: index of the step in which the gap starts
--   at_ns: start of the gap, since the start of the rank's capture
--   dur_ns: length of the gap
--   host_wait_ns: the part before the next activity was submitted
--   kernel_wait_ns: the part after it was submitted, if it started soon
--   other_ns: the part in which submitted work was held back, or its launch is unknown
--   next_name: activity that ends the gap
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
