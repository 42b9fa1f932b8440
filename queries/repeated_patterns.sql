-- Kernel sequences that repeat
--
-- Answers: which sequences of kernels run again and again, and what would a CUDA graph or a fused kernel save?
-- Read: a CUDA graph of the sequence would close `gap_ns` between the kernels and save `launch_ns` on the host;
--   `idle_ns` is the part of the gaps in which no stream of the device ran.
-- Columns:
--   rank: rank
--   stream: stream
--   length: activities in one occurrence
--   count: occurrences
--   gpu_ns: summed durations
--   gap_ns: time in which the stream is idle between the first and the last activity of an occurrence
--   idle_ns: the part of gap_ns in which the whole device is idle
--   launch_ns: time in launch calls, all occurrences
--   names: names joined by |
-- Tables: repeats
SELECT
    rank,
    stream,
    length,
    count,
    gpu_ns,
    gap_ns,
    idle_ns,
    launch_cpu_ns * count AS launch_ns,
    names
FROM repeats
ORDER BY gap_ns DESC, gpu_ns DESC, rank, pattern_id, first_ts_ns;
