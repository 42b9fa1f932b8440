-- Your own annotations by GPU time
--
-- Answers: how much GPU time belongs to each `record_function` range?
-- Read: work belongs to the range in which it was launched. `gpu_self_ns` leaves out ranges inside. Steps stand
--   here too. With several devices in a rank its host ranges count for each device.
-- Columns:
--   name: annotation
--   side: host: recorded on a thread; gpu: drawn on the device; none
--   range_count: ranges, on all ranks
--   range_ns: summed length of the ranges
--   gpu_ns: summed length of the work launched in them
--   gpu_self_ns: of that in no annotation inside
--   communication_ns: time in which communication among it runs
-- Tables: user_annotations
SELECT
    name,
    side,
    CAST(SUM(range_count) AS BIGINT) AS range_count,
    CAST(SUM(range_sum_ns) AS BIGINT) AS range_ns,
    CAST(SUM(gpu_ns) AS BIGINT) AS gpu_ns,
    CAST(SUM(gpu_self_ns) AS BIGINT) AS gpu_self_ns,
    CAST(SUM(communication_ns) AS BIGINT) AS communication_ns
FROM user_annotations
WHERE scope = 'capture'
GROUP BY name, side
ORDER BY gpu_ns DESC, range_ns DESC, name, side;
