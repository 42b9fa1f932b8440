-- Your own annotations by GPU time
--
-- Answers: how much GPU time belongs to each `record_function` range?
-- Read: GPU work belongs to the ranges in which it was launched. `gpu_self_ns` excludes nested ranges. Step annotations
--   are included. In a rank with several devices, a host range counts once for each device.
-- Columns:
--   name: annotation
--   side: host: recorded on a thread; gpu: drawn on the device; none
--   range_count: ranges, on all ranks
--   range_ns: summed length of the ranges
--   gpu_ns: summed length of the GPU work launched in them
--   gpu_self_ns: the part of gpu_ns that was launched in no nested annotation
--   communication_ns: time in which communication of this work runs
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
