-- Where each rank's time went
--
-- Answers: of the capture, how much is compute, waiting or transfer, copies and idle, by rank and device?
-- Read: the four shares sum to 100. `hta sync` divides waiting and transfer.
-- Columns:
--   rank: rank
--   device: device index; null on a CPU-only rank
--   dur_ns: length of the capture
--   compute_pct: compute runs
--   waiting_or_transfer_pct: communication runs and no compute
--   copies_pct: only copies or sets run
--   idle_pct: nothing runs
-- Tables: temporal_breakdown
SELECT
    rank,
    device,
    dur_ns,
    compute_pct,
    exposed_communication_pct AS waiting_or_transfer_pct,
    copies_pct,
    idle_pct
FROM temporal_breakdown
WHERE scope = 'capture'
ORDER BY rank, device NULLS LAST;
