-- Growth of memory by step
--
-- Answers: does the memory of a device grow from step to step, and how much of a step outlives the next one?
-- Read: a net above 0 in every step is a leak or a cache that grows. The first step of a recording makes states that
--   stay. `hta query` on memory_leaks names the sites.
-- Columns:
--   rank: rank
--   device_type: type of the device
--   device: device index; null for the host
--   step: index of the step in time
--   step_label: number in its name
--   start_bytes: level when it begins
--   max_bytes: highest level in it
--   net_bytes: level when it ends minus level when it begins
--   survivor_bytes: allocated in it and alive when the next step ends
-- Tables: memory_steps
SELECT
    rank,
    device_type,
    device,
    step,
    step_label,
    start_bytes,
    max_bytes,
    net_bytes,
    survivor_bytes
FROM memory_steps
ORDER BY rank, device_type, device NULLS LAST, step;
