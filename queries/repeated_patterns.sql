-- Kernel sequences that repeat
--
-- Answers: which sequences of kernels run again and again, and what would a CUDA graph or a fused kernel save?
-- Read: `gap_ns` between the kernels and `launch_ns` on the host are what a graph of the sequence would close;
--   `idle_ns` is the part of the gaps in which no stream of the device ran.
-- Columns:
--   rank: rank
--   stream: stream
--   length: activities in one occurrence
--   count: occurrences
--   gpu_ns: summed durations
--   gap_ns: nothing runs on the stream, between the first and the last of an occurrence
--   idle_ns: of that nothing runs on the device
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
