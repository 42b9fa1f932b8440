-- Energy of steps
--
-- Answers: how much energy does each rank take in a step, and how much of all of it while nothing runs?
-- Read: idle energy buys nothing; a rank that waits for others still takes power. A step goes on until the next one
--   starts. Energy needs samples of power for 90 % of the time, else there is none.
-- Columns:
--   rank: rank
--   device: device index
--   step_count: whole steps with an energy; a step that is cut takes less and does not count
--   step_mean_j: their mean energy
--   step_min_j: the smallest
--   step_max_j: the largest
--   capture_j: energy of all that is recorded
--   idle_pct: share of it while no activity runs
-- Tables: energy
SELECT
    rank,
    device,
    SUM(CASE WHEN scope = 'step' AND NOT is_partial AND j IS NOT NULL THEN 1 ELSE 0 END) AS step_count,
    AVG(CASE WHEN scope = 'step' AND NOT is_partial THEN j END) AS step_mean_j,
    MIN(CASE WHEN scope = 'step' AND NOT is_partial THEN j END) AS step_min_j,
    MAX(CASE WHEN scope = 'step' AND NOT is_partial THEN j END) AS step_max_j,
    MAX(CASE WHEN scope = 'capture' THEN j END) AS capture_j,
    100 * MAX(CASE WHEN scope = 'idle' THEN j END) / MAX(CASE WHEN scope = 'capture' THEN j END) AS idle_pct
FROM energy
GROUP BY rank, device
ORDER BY capture_j DESC NULLS LAST, rank, device;
