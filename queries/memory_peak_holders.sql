-- What holds the peak of memory
--
-- Answers: which operators hold the memory of each device when it is fullest?
-- Read: the rows of a device add up to its peak. `[before window]` was allocated before the recording began:
--   parameters, optimizer states, the data of earlier steps.
-- Columns:
--   rank: rank
--   device_type: type of the device
--   device: device index; null for the host
--   holder: operator
--   count: allocations that are alive
--   held_bytes: their size
--   share_pct: share of the peak
-- Tables: memory_content
SELECT
    rank,
    device_type,
    device,
    key AS holder,
    count,
    bytes AS held_bytes,
    pct AS share_pct
FROM memory_content
WHERE moment = 'peak' AND key_kind = 'op'
ORDER BY rank, device_type, device NULLS LAST, held_bytes DESC, holder;
