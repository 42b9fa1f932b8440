-- The ranks of the job
--
-- Answers: what was recorded: ranks, hosts, devices, steps, and how well do the clocks agree?
-- Read: compare captures of different length or step count with care. `clock_offset_ns` is subtracted from the rank's
--   times where ranks are compared.
-- Columns:
--   rank: rank
--   host_name: name of the host
--   device_name: name of the first device
--   world_size: ranks of the job, as recorded in the file
--   capture_ns: time from the first to the last event
--   step_count: steps
--   event_count: complete events
--   activity_count: GPU activities
--   clock_offset_ns: correction of its clock
-- Tables: ranks
SELECT
    rank,
    host_name,
    device_name,
    world_size,
    last_ts_ns - first_ts_ns AS capture_ns,
    step_count,
    event_count,
    activity_count,
    clock_offset_ns
FROM ranks
ORDER BY rank;
