-- Model FLOPs utilization by rank and step
--
-- Answers: which share of the devices' peak do products, convolutions and attention reach, idle time included?
-- Read: `coverage_pct` says for how much of the matrix kernels' time the operations are known; below 90 the utilization
--   is a lower bound. Recomputation counts as work.
-- Columns:
--   rank: rank
--   device: device index
--   scope: step or span
--   step: index of the step
--   dur_ns: length of the window
--   tflops_per_s: rate while they run
--   mfu_pct: utilization over the window
--   coverage_pct: of the time of matrix kernels, with known operations
-- Tables: mfu
SELECT rank, device, scope, step, dur_ns, tflops_per_s, mfu_pct, coverage_pct
FROM mfu
WHERE scope IN ('step', 'span')
ORDER BY rank, device NULLS LAST, scope, step NULLS LAST;
