-- Utilization of the devices
--
-- Answers: how busy are the devices, and how well do kernels fill them?
-- Read: a device can be busy all the time with kernels that fill a tenth of it: then SM efficiency is low. The values
--   are means over the steps, or over the whole span if no steps are marked.
-- Columns:
--   rank: rank
--   device: device index
--   scope: steps or span
--   dur_ns: length of the window
--   kernel_ns: time in which at least one kernel runs
--   utilization_pct: kernel_ns / dur_ns
--   sm_efficiency_pct: mean of min(1, blocks per SM of the running kernels)
--   est_occupancy_pct: mean of the recorded occupancies, weighted by duration
-- Tables: counter_means
WITH windows AS (
    SELECT
        rank,
        device,
        scope,
        dur_ns,
        kernel_ns,
        100 * gpu_utilization_ratio AS utilization_pct,
        100 * sm_efficiency_ratio AS sm_efficiency_pct,
        est_occupancy_pct,
        MAX(CASE WHEN scope = 'steps' THEN 1 ELSE 0 END) OVER (PARTITION BY rank) AS has_steps
    FROM counter_means
    WHERE scope IN ('steps', 'span')
)
SELECT rank, device, scope, dur_ns, kernel_ns, utilization_pct, sm_efficiency_pct, est_occupancy_pct
FROM windows
WHERE scope = 'steps' OR has_steps = 0
ORDER BY utilization_pct NULLS FIRST, rank, device NULLS LAST;
